//! Waking ranks that sleep, at no cost while nobody does.
//!
//! Two words in shared memory. `sleepers` says that somebody may be asleep; `sequence` is the futex.
//!
//! * A sleeper takes a [`Ticket`] (reads `sequence`, then sets `sleepers`), polls once more, and
//!   sleeps while `sequence` is still the ticket's.
//! * A waker makes its news visible and rings: if `sleepers` is set it clears it, bumps `sequence`
//!   and wakes everybody. A ring between ticket and sleep changes `sequence`, so that sleep returns
//!   at once.
//!
//! `sleepers` is a mark and no count: a rank that finds its news after taking a ticket just leaves,
//! and one that is killed asleep costs its peers one needless wake-up, not one per message.
//!
//! # Why `ring` has no fence
//!
//! A waker stores its news and then loads `sleepers`; the processor may do the load first. Then the
//! waker can miss the mark while the sleeper misses the news. A full fence in every `ring` would
//! cost more than the rest of a small message, so the rare loss is bounded instead: no sleep lasts
//! longer than [`WaitPolicy::sleep`](super::WaitPolicy), which is needed anyway, because the host's
//! progress must be poked. With a fence before `ring` nothing is ever lost, which the loom test
//! proves: the store buffer is the only hole.

#[cfg(not(loom))]
use super::futex;
use ferrorail_base::sync::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::time::Duration;

/// A view of a doorbell's two words.
#[derive(Clone, Copy, Debug)]
pub struct Doorbell<'a> {
    sleepers: &'a AtomicU32,
    sequence: &'a AtomicU32,
}

/// Permission to sleep until the next ring, given by [`Doorbell::prepare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

impl<'a> Doorbell<'a> {
    /// A view of two zero-initialised words.
    #[inline]
    pub fn new(sleepers: &'a AtomicU32, sequence: &'a AtomicU32) -> Self {
        Self { sleepers, sequence }
    }

    /// Announces that what was written before may be what somebody sleeps for. One relaxed load
    /// while nobody does.
    #[inline]
    pub fn ring(&self) {
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.ring_sleepers();
        }
    }

    #[cold]
    fn ring_sleepers(&self) {
        // Clear before bumping: a sleeper that sees the new sequence marks itself anew after that.
        if self.sleepers.swap(0, Ordering::AcqRel) == 0 {
            return;
        }
        self.sequence.fetch_add(1, Ordering::AcqRel);
        self.wake();
    }

    /// First half of sleeping. Poll again before [`Doorbell::sleep`].
    pub fn prepare(&self) -> Ticket {
        // In this order: a ring after the mark must change what is compared.
        let ticket = Ticket(self.sequence.load(Ordering::Acquire));
        self.sleepers.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        ticket
    }

    /// Second half: sleeps until a ring since `ticket` was taken, a signal, or `timeout`.
    #[cfg(not(loom))]
    pub fn sleep(&self, ticket: Ticket, timeout: Duration) {
        futex::wait(self.sequence, ticket.0, timeout);
    }

    #[cfg(not(loom))]
    fn wake(&self) {
        futex::wake_all(self.sequence);
    }

    #[cfg(loom)]
    fn wake(&self) {
        tests::FUTEX.with(|futex| futex.wake_all());
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use ferrorail_base::sync::AtomicU64;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// The kernel's futex queue: comparing and falling asleep are one step under its lock.
    pub(super) struct Futex {
        queue: Mutex<()>,
        ring: Condvar,
    }

    impl Futex {
        pub(super) fn wake_all(&self) {
            let _queue = self.queue.lock().unwrap();
            self.ring.notify_all();
        }

        /// Without a time-out: a lost wake-up is a deadlock, which loom reports.
        fn wait(&self, sequence: &AtomicU32, ticket: Ticket) {
            let queue = self.queue.lock().unwrap();
            if sequence.load(Ordering::SeqCst) == ticket.0 {
                drop(self.ring.wait(queue).unwrap());
            }
        }
    }
}
