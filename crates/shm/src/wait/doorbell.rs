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

use super::futex;
use ferrorail_base::sync::{AtomicU32, Ordering, fence};
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
        futex::wake_all(self.sequence);
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
    pub fn sleep(&self, ticket: Ticket, timeout: Duration) {
        futex::wait(self.sequence, ticket.0, timeout);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use ferrorail_base::sync::AtomicU64;
    use loom::sync::Arc;
    use loom::thread;

    #[derive(Default)]
    struct Shared {
        sleepers: AtomicU32,
        sequence: AtomicU32,
        news: [AtomicU64; 2],
    }

    impl Shared {
        fn doorbell(&self) -> Doorbell<'_> {
            Doorbell::new(&self.sleepers, &self.sequence)
        }

        /// Publishes with the fence that `ring` leaves out; see the module documentation.
        fn publish(&self, index: usize) {
            self.news[index].store(1, Ordering::Release);
            fence(Ordering::SeqCst);
            self.doorbell().ring();
        }

        /// The order in which `Waiter` goes to sleep, with sleeps that no time-out ends.
        fn wait_for(&self, index: usize) {
            let arrived = || self.news[index].load(Ordering::Acquire) == 1;
            while !arrived() {
                let ticket = self.doorbell().prepare();
                if arrived() {
                    break;
                }
                self.doorbell().sleep(ticket, Duration::MAX);
            }
        }
    }

    fn check(body: fn()) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(body);
    }

    #[test]
    fn loom_no_sleeper_sleeps_for_ever() {
        check(|| {
            let shared = Arc::new(Shared::default());
            let sleeper = {
                let shared = shared.clone();
                thread::spawn(move || shared.wait_for(0))
            };
            shared.publish(0);
            sleeper.join().unwrap();
        });
    }

    /// The second waker rings while the first has cleared the mark but not yet woken anybody.
    #[test]
    fn loom_two_wakers_miss_nobody() {
        check(|| {
            let shared = Arc::new(Shared::default());
            let wakers = [0, 1].map(|index| {
                let shared = shared.clone();
                thread::spawn(move || shared.publish(index))
            });
            shared.wait_for(1);
            shared.wait_for(0);
            for waker in wakers {
                waker.join().unwrap();
            }
        });
    }

    /// Two sleepers share the mark; the wake-up for one must not eat the other's.
    #[test]
    fn loom_two_sleepers_share_the_mark() {
        check(|| {
            let shared = Arc::new(Shared::default());
            let sleepers = [0, 1].map(|index| {
                let shared = shared.clone();
                thread::spawn(move || shared.wait_for(index))
            });
            shared.publish(0);
            shared.publish(1);
            for sleeper in sleepers {
                sleeper.join().unwrap();
            }
        });
    }
}
