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

    /// `ranks` ranks write their cell, meet, read all cells, meet, and write again.
    fn episodes(ranks: usize, rounds: u64) {
        let shared = Arc::new((
            Flag::default(),
            (0..ranks)
                .map(|_| UnsafeCell::new(0u64))
                .collect::<Vec<_>>(),
        ));
        let rank_body = move |me: usize, shared: Arc<(Flag, Vec<UnsafeCell<u64>>)>| {
            let (cell, data) = &*shared;
            let mut barrier = Barrier::new(cell, ranks as u32, 0);
            for round in 1..=rounds {
                // SAFETY: loom fails the test if the barrier lets a reader overlap this.
                data[me].with_mut(|cell| unsafe { *cell = round });
                pass(&mut barrier);
                for cell in data {
                    // SAFETY: all writers have arrived; loom checks it.
                    cell.with(|cell| assert_eq!(unsafe { *cell }, round));
                }
                if round < rounds {
                    pass(&mut barrier);
                }
            }
        };
        let threads: Vec<_> = (1..ranks)
            .map(|me| {
                let (shared, rank_body) = (shared.clone(), rank_body.clone());
                thread::spawn(move || rank_body(me, shared))
            })
            .collect();
        rank_body(0, shared);
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[test]
    fn loom_two_ranks_reuse_the_barrier() {
        loom::model(|| episodes(2, 2));
    }

    #[test]
    fn loom_three_ranks_see_each_other() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| episodes(3, 1));
    }
}
