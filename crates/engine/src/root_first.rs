//! Who leaves a barrier first, where ranks share cores.
//!
//! The last rank of a core to enter a barrier leaves it first. If a rooted call follows at once, it waits there for a
//! root that is still to be scheduled: the same switches of the core, but in a call that a program may be measuring, as
//! benchmarks do. So a rank that had to wait for a root right behind barriers lets that root out of the next ones first,
//! as long as the root then comes soon. Each rank decides for itself: it only yields.

use ferrorail_base::Rank;
use ferrorail_base::process_time::now;
use ferrorail_base::sync::{AtomicU32, AtomicU64, Ordering, yield_now};
use std::time::Duration;

/// Yields for the root in one barrier.
const YIELDS: u32 = 8;

/// A root that takes longer, for each rank of a core, does not begin a rooted call next: a switch takes about 1.5 us.
const SOON: Duration = Duration::from_micros(4);

/// A rank that takes longer from a barrier to the rooted call behind it works in between: it could not while it waits in
/// the barrier.
const AT_ONCE: Duration = Duration::from_micros(1);

/// Waits for a root before it is let out first.
const WAITS_MIN: u32 = 2;
/// The same after roots that did not come: twice as many each time, up to this; half as many after so many that came.
const WAITS_MAX: u32 = 1 << 12;
const ARRIVALS: u32 = 16;

/// Roots that came soon, after which it has to be seen again that they are waited for: whether this rank works behind a
/// barrier is seen only then.
const ARRIVALS_MAX: u32 = 256;

/// What a rank has seen of the roots behind its barriers. Changed by the thread that runs the team's call.
pub(crate) struct RootFirst {
    /// How long a root may take that begins a call next.
    soon: Duration,
    /// The last barrier, and when it was left; nanoseconds.
    barrier: AtomicU64,
    left: AtomicU64,
    /// Whom rooted calls behind barriers waited for last, and how often.
    root: AtomicU32,
    waits: AtomicU32,
    /// How often that has to be before the root is let out first.
    needed: AtomicU32,
    /// Roots that came soon since then.
    arrivals: AtomicU32,
}

impl RootFirst {
    /// Where so many ranks share so many cores.
    pub fn new(ranks: u32, cores: u32) -> Self {
        Self::within(SOON * ranks.div_ceil(cores.max(1)))
    }

    /// Of another team on the same cores.
    pub fn anew(&self) -> Self {
        Self::within(self.soon)
    }

    fn within(soon: Duration) -> Self {
        Self {
            soon,
            barrier: AtomicU64::new(0),
            left: AtomicU64::new(0),
            root: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            needed: AtomicU32::new(WAITS_MIN),
            arrivals: AtomicU32::new(0),
        }
    }

    /// A call whose number is `op` has to wait for its `root`.
    pub fn waits(&self, op: u64, root: Rank) {
        self.waits_at(now(), op, root);
    }

    fn waits_at(&self, now: Duration, op: u64, root: Rank) {
        let left = Duration::from_nanos(self.left.load(Ordering::Relaxed));
        if op != self.barrier.load(Ordering::Relaxed) + 1 || now > left + AT_ONCE {
            return;
        }
        let known = self.root.swap(root.0, Ordering::Relaxed);
        let waits = match known == root.0 {
            true => self.waits.load(Ordering::Relaxed).saturating_add(1),
            false => 1,
        };
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// Barrier `op` is done for rank `own`, which goes on once the root that is expected `has_called` behind it, or does
    /// not seem to.
    pub fn leave(&self, op: u64, own: Rank, has_called: impl Fn(Rank) -> bool) {
        if let Some(root) = self.expected().filter(|root| *root != own) {
            self.note(has_called(root) || self.comes_soon(|| has_called(root)));
        }
        self.left_at(now(), op);
    }

    /// Lets others have the core until who is awaited `has_called`; whether that was soon.
    fn comes_soon(&self, has_called: impl Fn() -> bool) -> bool {
        let before = now();
        let came = (0..YIELDS).any(|_| {
            yield_now();
            has_called()
        });
        came && now() - before < self.soon
    }

    fn left_at(&self, now: Duration, op: u64) {
        self.barrier.store(op, Ordering::Relaxed);
        self.left.store(now.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The root that is to leave first.
    fn expected(&self) -> Option<Rank> {
        let is_expected = self.waits.load(Ordering::Relaxed) >= self.needed.load(Ordering::Relaxed);
        is_expected.then(|| Rank(self.root.load(Ordering::Relaxed)))
    }

    /// The root that was expected came soon or not.
    fn note(&self, came: bool) {
        let needed = self.needed.load(Ordering::Relaxed);
        if !came {
            self.expect_anew((2 * needed).min(WAITS_MAX));
            return;
        }
        let arrivals = self.arrivals.load(Ordering::Relaxed) + 1;
        self.arrivals.store(arrivals, Ordering::Relaxed);
        if arrivals == ARRIVALS_MAX {
            self.expect_anew(needed);
        } else if arrivals.is_multiple_of(ARRIVALS) {
            let fewer = (needed / 2).max(WAITS_MIN);
            self.needed.store(fewer, Ordering::Relaxed);
        }
    }

    /// The root is expected again after so many more waits.
    fn expect_anew(&self, needed: u32) {
        self.needed.store(needed, Ordering::Relaxed);
        self.waits.store(0, Ordering::Relaxed);
        self.arrivals.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Barriers, behind each of which a rooted call may wait.
    struct Calls {
        seen: RootFirst,
        op: u64,
    }

    impl Calls {
        fn new() -> Self {
            Self {
                seen: RootFirst::new(4, 2),
                op: 0,
            }
        }

        /// How often rank 1 looks for `root` when it leaves the next barrier, which comes with the look numbered `with`.
        fn looks(&mut self, root: Rank, with: u32) -> u32 {
            self.op += 2;
            let looks = Cell::new(0);
            self.seen.leave(self.op, Rank(1), |rank| {
                assert_eq!(rank, root);
                looks.set(looks.get() + 1);
                looks.get() == with
            });
            looks.get()
        }

        /// The call behind the last barrier waits for `root`, so long after this was left.
        fn wait(&self, root: Rank, after: Duration) {
            let left = Duration::from_secs(1);
            self.seen.left_at(left, self.op);
            self.seen.waits_at(left + after, self.op + 1, root);
        }

        /// Barriers with a wait behind each, until the root is expected.
        fn learn(&mut self, root: Rank) -> u32 {
            let mut waits = 0;
            while self.seen.expected().is_none() {
                assert_eq!(self.looks(root, 1), 0);
                self.wait(root, AT_ONCE);
                waits += 1;
            }
            waits
        }
    }

    #[test]
    fn a_root_is_let_out_after_some_waits_at_once_behind_barriers() {
        let (mut calls, root) = (Calls::new(), Rank(2));
        assert_eq!(calls.learn(root), WAITS_MIN);
        assert_eq!(calls.looks(root, 1), 1);
        // Another root, a call that is not the next one, and one behind some work.
        calls.wait(Rank(3), AT_ONCE);
        assert_eq!(calls.looks(root, 1), 0);
        calls.seen.waits(calls.op + 2, Rank(3));
        calls.wait(Rank(3), 2 * AT_ONCE);
        assert_eq!(calls.looks(root, 1), 0);
        calls.wait(Rank(3), AT_ONCE);
        assert_eq!(calls.looks(Rank(3), 1), 1);
        // The root itself waits for nobody.
        calls.wait(Rank(1), AT_ONCE);
        calls.wait(Rank(1), AT_ONCE);
        assert_eq!(calls.looks(root, 1), 0);
    }

    #[test]
    fn one_that_does_not_come_has_to_be_waited_for_more_often() {
        let (mut calls, root) = (Calls::new(), Rank(0));
        for waits in [2, 4, 8] {
            assert_eq!(calls.learn(root), waits);
            assert_eq!(calls.looks(root, u32::MAX), YIELDS + 1);
        }
        // One that comes often enough is trusted again, and seen to be waited for now and then.
        for waits in [16, 2, 2] {
            assert_eq!(calls.learn(root), waits);
            for _ in 0..ARRIVALS_MAX {
                assert_eq!(calls.looks(root, 1), 1);
            }
        }
    }
}
