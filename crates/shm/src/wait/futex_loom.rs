//! The futex as loom models it: comparing and falling asleep are one step under the queue's lock.
//!
//! Time-outs do not exist here, so that a lost wake-up is a deadlock, which loom reports.

use ferrorail_base::sync::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use std::time::Duration;

loom::lazy_static! {
    static ref QUEUE: Mutex<()> = Mutex::new(());
    static ref RING: Condvar = Condvar::new();
}

/// Sleeps while `word` is `expected`.
pub(super) fn wait(word: &AtomicU32, expected: u32, _timeout: Duration) {
    let Ok(queue) = QUEUE.lock() else { return };
    if word.load(Ordering::SeqCst) == expected {
        drop(RING.wait(queue));
    }
}

/// Wakes everybody who sleeps.
pub(super) fn wake_all(_word: &AtomicU32) {
    let _queue = QUEUE.lock();
    RING.notify_all();
}
