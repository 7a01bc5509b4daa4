//! The node barrier: one counter that only rises.
//!
//! Every rank adds one per episode; episode `e` (from 1) is over once the counter has reached
//! `e * ranks`. No rank can add for `e + 1` before `e` is over, so the count is exact, nothing is
//! reset, and one line is all the memory it takes.

use crate::flags::Flag;
use ferrorail_base::sync::Ordering;

/// One rank's view of a node barrier.
#[derive(Debug)]
pub struct Barrier<'a> {
    arrivals: &'a Flag,
    ranks: u64,
    /// Counter value that ends the episode this rank has entered last.
    target: u64,
}

impl<'a> Barrier<'a> {
    /// A view for a rank that has completed `episodes` episodes on this zero-initialised cell.
    #[inline]
    pub fn new(arrivals: &'a Flag, ranks: u32, episodes: u64) -> Self {
        let ranks = u64::from(ranks);
        Self {
            arrivals,
            ranks,
            target: episodes * ranks,
        }
    }

    /// Enters the next episode, publishing all earlier writes to every rank that leaves it. The
    /// previous episode must have [`passed`](Self::passed).
    #[inline]
    pub fn arrive(&mut self) {
        self.target += self.ranks;
        // Release publishes our writes; every arrival is a read-modify-write, so a rank that reads
        // the final count synchronises with all of them.
        self.arrivals.word().fetch_add(1, Ordering::Release);
    }

    /// Whether every rank has arrived; if so, their earlier writes are visible.
    #[inline]
    pub fn passed(&self) -> bool {
        self.arrivals.word().load(Ordering::Acquire) >= self.target
    }

    /// Episodes entered so far, to continue with [`Barrier::new`].
    #[inline]
    pub fn episodes(&self) -> u64 {
        self.target / self.ranks
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_view_continues_where_another_stopped() {
        let cell = Flag::default();
        let mut a = Barrier::new(&cell, 2, 0);
        let mut b = Barrier::new(&cell, 2, 0);
        a.arrive();
        assert!(!a.passed());
        b.arrive();
        assert!(a.passed() && b.passed());
        let mut a = Barrier::new(&cell, 2, a.episodes());
        assert!(a.passed());
        a.arrive();
        assert!(!a.passed());
        assert_eq!((a.episodes(), b.episodes()), (2, 1));
    }

    #[test]
    fn threads_never_run_an_episode_apart() {
        use ferrorail_base::sync::{AtomicU64, yield_now};
        let cell = Flag::default();
        let seen = [const { AtomicU64::new(0) }; 4];
        std::thread::scope(|scope| {
            for me in 0..4 {
                let (cell, seen) = (&cell, &seen);
                scope.spawn(move || {
                    let mut barrier = Barrier::new(cell, 4, 0);
                    for episode in 1..=500 {
                        seen[me].store(episode, Ordering::Relaxed);
                        barrier.arrive();
                        while !barrier.passed() {
                            yield_now();
                        }
                        for other in seen {
                            let at = other.load(Ordering::Relaxed);
                            assert!(at == episode || at == episode + 1, "{at} in {episode}");
                        }
                    }
                });
            }
        });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    fn pass(barrier: &mut Barrier<'_>) {
        barrier.arrive();
        while !barrier.passed() {
            thread::yield_now();
        }
    }

    /// Two ranks write their cell, meet, read both, meet, and write again.
    #[test]
    fn loom_two_ranks_reuse_the_barrier() {
        const ROUNDS: u64 = 2;
        fn rank(me: usize, cell: &Flag, data: &[UnsafeCell<u64>; 2]) {
            let mut barrier = Barrier::new(cell, 2, 0);
            for round in 1..=ROUNDS {
                // SAFETY: loom fails the test if the barrier lets a reader overlap this.
                data[me].with_mut(|cell| unsafe { *cell = round });
                pass(&mut barrier);
                for cell in data {
                    // SAFETY: both writers have arrived; loom checks it.
                    cell.with(|cell| assert_eq!(unsafe { *cell }, round));
                }
                if round < ROUNDS {
                    pass(&mut barrier);
                }
            }
        }
        loom::model(|| {
            let shared = Arc::new((Flag::default(), [UnsafeCell::new(0), UnsafeCell::new(0)]));
            let peer = {
                let shared = shared.clone();
                thread::spawn(move || rank(1, &shared.0, &shared.1))
            };
            rank(0, &shared.0, &shared.1);
            peer.join().unwrap();
        });
    }

    /// Whoever leaves sees the writes of all, also of those that arrived before others did. The
    /// peers do not wait: loom cannot tell two spinning threads from a livelock.
    #[test]
    fn loom_three_ranks_are_seen() {
        loom::model(|| {
            let shared = Arc::new((Flag::default(), [UnsafeCell::new(0), UnsafeCell::new(0)]));
            let peers = [0, 1].map(|me| {
                let shared = shared.clone();
                thread::spawn(move || {
                    // SAFETY: loom fails the test if the barrier lets the reader overlap this.
                    shared.1[me].with_mut(|cell| unsafe { *cell = 7 });
                    Barrier::new(&shared.0, 3, 0).arrive();
                })
            });
            pass(&mut Barrier::new(&shared.0, 3, 0));
            for cell in &shared.1 {
                // SAFETY: both writers have arrived; loom checks it.
                cell.with(|cell| assert_eq!(unsafe { *cell }, 7));
            }
            for peer in peers {
                peer.join().unwrap();
            }
        });
    }
}
