//! Locks under loom, in virtual time and on threads.

mod atomic_site;
#[cfg(not(loom))]
mod contention;
#[cfg(loom)]
mod loom;
#[cfg(not(loom))]
mod misuse;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
mod virtual_time;

use super::{AnyLock, LockAlgorithm};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use ferrorail_base::config::LockBackoff;

/// A contender's part that backs off as usual.
fn part(algorithm: LockAlgorithm) -> AnyLock {
    AnyLock::new(algorithm, Some(LockBackoff::default()))
}

/// Polls `future` to its end, calling `relax` whenever it has to wait (spin, drive progress, sleep).
fn block_on<F: Future>(future: F, mut relax: impl FnMut()) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        relax();
    }
}
