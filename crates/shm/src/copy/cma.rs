//! Cross-memory attach: `process_vm_readv` and `process_vm_writev`.
//!
//! Raw system-call wrappers of libc are used rather than nix's, which take `IoSlice`, that is
//! references to memory that peers may write.

use ferrorail_base::memory::MemoryRange;
use std::io;

/// The proven right to reach into the memory of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cma {
    pid: u32,
}

impl Cma {
    /// Asks whether this process may read `pid`'s memory by reading the word at `address` there,
    /// which must be `expect`. Without the right, or where `pid` means another process here
    /// (another pid namespace), the answer is `None`.
    pub fn probe(pid: u32, address: u64, expect: u64) -> Option<Cma> {
        cma_probe(pid, address, expect).then_some(Cma { pid })
    }

    /// The process.
    pub fn pid(self) -> u32 {
        self.pid
    }

    /// See [`cma_write`].
    ///
    /// # Safety
    /// As [`cma_write`].
    ///
    /// # Errors
    /// As [`cma_write`].
    pub unsafe fn write(self, local: MemoryRange, remote_address: u64) -> io::Result<()> {
        // SAFETY: passed on to the caller.
        unsafe { cma_write(self.pid, local, remote_address) }
    }

    /// See [`cma_read`].
    ///
    /// # Safety
    /// As [`cma_read`].
    ///
    /// # Errors
    /// As [`cma_read`].
    pub unsafe fn read(self, remote_address: u64, local: MemoryRange) -> io::Result<()> {
        // SAFETY: passed on to the caller.
        unsafe { cma_read(self.pid, remote_address, local) }
    }
}

/// Whether this process may read `pid`'s memory: reads the word at `address` there and compares it
/// with `expect`, which should be a number nobody else has at that address.
pub fn cma_probe(pid: u32, address: u64, expect: u64) -> bool {
    let mut word = 0u64;
    let local = MemoryRange::new((&raw mut word).cast(), size_of::<u64>());
    // SAFETY: `local` is this frame's own word; whatever the peer has there is only read.
    let read = unsafe { cma_read(pid, address, local) };
    read.is_ok() && word == expect
}

/// Lets processes of the same user reach into this one's memory where the Yama security module
/// restricts that to descendants. It stays allowed for the life of the process. Harmless elsewhere.
pub fn cma_allow() {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    if scope.is_ok_and(|scope| scope.trim() == "1") {
        // SAFETY: sets a flag of this process; unused arguments are ignored.
        let set = unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
        if set != 0 {
            tracing::debug!(error = %io::Error::last_os_error(), "PR_SET_PTRACER failed");
        }
    }
}

/// Writes `local` to `remote_address` of process `pid`, all of it.
///
/// # Errors
/// The system's: `EPERM` without the right, `ESRCH` if the process ended, `EFAULT` if it has no
/// writable memory there (a part may have been written); `InvalidInput` if the range wraps around.
///
/// # Safety
/// `local` is readable. The memory at `remote_address` is meant to be written by this process now;
/// nothing checks that but the peer's page tables.
pub unsafe fn cma_write(pid: u32, local: MemoryRange, remote_address: u64) -> io::Result<()> {
    // SAFETY: passed on to the caller.
    unsafe { transfer(libc::process_vm_writev, pid, local, remote_address) }
}

/// Reads `local.bytes` bytes at `remote_address` of process `pid` into `local`.
///
/// # Errors
/// As [`cma_write`].
///
/// # Safety
/// `local` is writable and nobody else touches it meanwhile.
pub unsafe fn cma_read(pid: u32, remote_address: u64, local: MemoryRange) -> io::Result<()> {
    // SAFETY: passed on to the caller.
    unsafe { transfer(libc::process_vm_readv, pid, local, remote_address) }
}

type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// Repeats `call` until everything is transferred: one call moves at most 2 GiB and stops at the
/// first page it cannot reach.
///
/// # Safety
/// As [`cma_write`] or [`cma_read`], whichever `call` does.
unsafe fn transfer(call: Call, pid: u32, local: MemoryRange, remote: u64) -> io::Result<()> {
    let remote = usize::try_from(remote)
        .ok()
        .filter(|start| start.checked_add(local.bytes).is_some())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the remote range wraps"))?;
    let pid = libc::pid_t::try_from(pid)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "no such process number"))?;
    let mut done = 0;
    while done < local.bytes {
        let vector = |start: usize| libc::iovec {
            iov_base: (start + done) as *mut libc::c_void,
            iov_len: local.bytes - done,
        };
        let (here, there) = (vector(local.address), vector(remote));
        // SAFETY: one vector each; the kernel checks remote addresses, the caller vouches for both.
        let moved = unsafe { call(pid, &raw const here, 1, &raw const there, 1, 0) };
        match usize::try_from(moved) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(moved) => done += moved,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(bytes: &[u8]) -> MemoryRange {
        MemoryRange::new(bytes.as_ptr(), bytes.len())
    }

    #[test]
    fn probing_compares_the_word() {
        let word = 0x5eed_0000_0000_0001_u64;
        let address = (&raw const word) as u64;
        let me = std::process::id();
        assert!(cma_probe(me, address, word));
        assert_eq!(Cma::probe(me, address, word).map(Cma::pid), Some(me));
        assert!(!cma_probe(me, address, word + 1));
        assert!(!cma_probe(me, 8, word), "an unmapped address");
        assert!(!cma_probe(u32::MAX, address, word));
    }

    #[test]
    fn wrapping_ranges_are_refused() {
        let local = [1u8; 16];
        // SAFETY: refused before anything is touched.
        let error = unsafe { cma_write(std::process::id(), range(&local), u64::MAX - 8) };
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn nothing_to_move_is_no_error() {
        // SAFETY: an empty range.
        assert!(unsafe { cma_read(std::process::id(), 0, range(&[])) }.is_ok());
    }
}
