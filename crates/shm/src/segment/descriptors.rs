//! The last descriptors are the program's, and the host MPI's: both may fail for good without.

use super::ShmError;
use nix::sys::resource::{Resource, getrlimit};

/// Descriptors that are left at most.
const RESERVE_MAX: u64 = 64;

/// Their part of the process's limit at most.
const RESERVE_SHARE: u64 = 4;

/// Refuses `fd`, the lowest that was free, if too few are left above it.
pub(super) fn leave_some(fd: i32) -> Result<(), ShmError> {
    let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((u64::MAX, u64::MAX));
    match leaves_some(fd as u64, limit) {
        true => Ok(()),
        false => Err(ShmError::Descriptors { limit }),
    }
}

fn leaves_some(fd: u64, limit: u64) -> bool {
    fd < limit - (limit / RESERVE_SHARE).min(RESERVE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_left() {
        assert!(leaves_some(191, 256) && !leaves_some(192, 256));
        assert!(leaves_some(19, 26) && !leaves_some(20, 26));
        assert!(leaves_some(1 << 30, u64::MAX));
        assert!(!leaves_some(0, 0));
    }
}
