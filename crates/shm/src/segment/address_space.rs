//! A process may have a limit on its address space (`ulimit -v`), of which the program and the host MPI need what is left:
//! both may fail for good without.

use super::ShmError;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::unistd::{SysconfVar, sysconf};

/// The part of a limit that is left to the program.
const LEFT_SHARE: u64 = 4;

/// The limit, if there is one.
fn limit() -> Option<u64> {
    let (limit, _) = getrlimit(Resource::RLIMIT_AS).ok()?;
    (limit != RLIM_INFINITY).then_some(limit)
}

/// Whether there is one.
pub fn is_limited() -> bool {
    limit().is_some()
}

/// Refuses to map `bytes` more if too little is left then.
pub(super) fn leave_some(bytes: usize) -> Result<(), ShmError> {
    let Some(limit) = limit() else { return Ok(()) };
    match leaves_some(used().saturating_add(bytes as u64), limit) {
        true => Ok(()),
        false => Err(ShmError::AddressSpace { limit }),
    }
}

fn leaves_some(used: u64, limit: u64) -> bool {
    used <= limit - limit / LEFT_SHARE
}

/// Bytes of address space in use; 0 where the system does not say.
fn used() -> u64 {
    let read = || {
        let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
        let pages: u64 = sizes.split_whitespace().next()?.parse().ok()?;
        let page = sysconf(SysconfVar::PAGE_SIZE).ok()??;
        pages.checked_mul(page.unsigned_abs())
    };
    read().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_left() {
        assert!(leaves_some(75, 100) && !leaves_some(76, 100));
        assert!(!leaves_some(1, 0));
    }

    #[test]
    fn what_is_used_is_known() {
        let before = used();
        let memory = memmap2::MmapOptions::new().len(64 << 20).map_anon();
        let memory = memory.expect("memory");
        assert!(before > 0 && used() >= memory.len() as u64);
    }
}
