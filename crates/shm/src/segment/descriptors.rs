//! Which descriptors are not for segments. The last ones are the program's, and the host MPI's: both may fail for good
//! without. So are those of standard input, output and error, which a program may have closed and use all the same.

use super::ShmError;
use nix::sys::resource::{Resource, getrlimit};
use std::fs::File;

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

/// What `open` gives, which opens something that is to be none of the standard descriptors: a thread that writes to a closed
/// one meanwhile would write there.
pub(crate) fn above_standard<R>(open: impl FnOnce() -> R) -> R {
    // SAFETY: any number may be asked about.
    let is_closed = |fd: &i32| unsafe { libc::fcntl(*fd, libc::F_GETFD) } < 0;
    let closed = (0..=libc::STDERR_FILENO).filter(is_closed).count();
    // The lowest free numbers, which nobody can write to.
    let _held: Vec<_> = (0..closed)
        .map_while(|_| File::open("/dev/null").ok())
        .collect();
    open()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn standard_descriptors_that_are_closed_stay_free() {
        // In a process of its own, as other tests write to them.
        // SAFETY: the child only opens and closes descriptors.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above; no destructor runs.
            unsafe {
                libc::close(0);
                libc::close(2);
                let opened = above_standard(|| File::open("/dev/zero"));
                let right = opened.is_ok_and(|file| file.as_raw_fd() > 2);
                let free = libc::fcntl(0, libc::F_GETFD) < 0 && libc::fcntl(2, libc::F_GETFD) < 0;
                libc::_exit(i32::from(!(right && free)));
            }
        }
        let mut status = 1;
        // SAFETY: the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn some_descriptors_are_left() {
        assert!(leaves_some(191, 256) && !leaves_some(192, 256));
        assert!(leaves_some(19, 26) && !leaves_some(20, 26));
        assert!(leaves_some(1 << 30, u64::MAX));
        assert!(!leaves_some(0, 0));
    }
}
