//! Sleeping on descriptors.

use nix::poll::{PollFd, PollFlags, ppoll};
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

/// Sleeps until one of `descriptors` is readable or `limit` has passed; a signal may end it early.
///
/// # Safety
/// The descriptors are open until this returns.
pub unsafe fn sleep_on(descriptors: &[RawFd], limit: Duration) {
    let wanted = descriptors.iter().map(|descriptor| {
        // SAFETY: the caller's promise.
        let descriptor = unsafe { BorrowedFd::borrow_raw(*descriptor) };
        PollFd::new(descriptor, PollFlags::POLLIN)
    });
    let mut wanted: Vec<_> = wanted.collect();
    // Whatever ended it, the caller looks again.
    let _ = ppoll(&mut wanted, Some(limit.into()), None);
}
