//! Who leaves a barrier first, where ranks share cores.
//!
//! The last rank of a core to enter a barrier leaves it first. If a rooted call follows at once, it may wait there for ranks
//! that are still to be scheduled, the root of a broadcast or the others of a gather: the same switches of the core, but in a
//! call that a program may be measuring, as benchmarks do. So a rank that had to wait right behind barriers lets those whom it
//! waited for out of the next ones first, as long as they then come soon. Each rank decides for itself: it only yields.

use ferrorail_base::Rank;
use ferrorail_base::process_time::now;
use ferrorail_base::sync::{AtomicU32, AtomicU64, Ordering, yield_now};
use std::time::Duration;

/// Those that take longer, for each rank of a core, do not begin a rooted call next. Two rounds of the ranks of a core take
/// half of it, at 1.5 to 2 us for each switch.
const SOON: Duration = Duration::from_micros(8);

/// A rank that takes longer from a barrier to the rooted call behind it works in between: it could not while it waits in
/// the barrier.
const AT_ONCE: Duration = Duration::from_micros(1);

/// Waits for the same publishers before they are let out first.
const WAITS_MIN: u32 = 2;
/// The same after some that did not come: twice as many each time, up to this; half as many after they came so often.
const WAITS_MAX: u32 = 1 << 12;
const ARRIVALS: u32 = 16;

/// How often they come soon before it has to be seen again that they are waited for: whether this rank works behind a
/// barrier is seen only then.
const ARRIVALS_MAX: u32 = 256;

/// Who has to publish before a rank can end its part of a rooted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publishers {
    Root(Rank),
    /// All but the rank itself, which is the root.
    Others,
}

impl Publishers {
    /// No rank's number.
    const OTHERS: u32 = u32::MAX;

    fn word(self) -> u32 {
        match self {
            Self::Root(root) => root.0,
            Self::Others => Self::OTHERS,
        }
    }

    fn of_word(word: u32) -> Self {
        match word {
            Self::OTHERS => Self::Others,
            root => Self::Root(Rank(root)),
        }
    }
}

/// What a rank has seen of the rooted calls behind its barriers. Changed by the thread that runs the team's call.
pub(crate) struct BarrierOrder {
    /// How long those may take that begin a call next.
    soon: Duration,
    /// The last barrier, and when it was left; nanoseconds.
    barrier: AtomicU64,
    left: AtomicU64,
    /// Whom rooted calls behind barriers waited for last ([`Publishers::word`]), and how often.
    publishers: AtomicU32,
    waits: AtomicU32,
    /// How often that has to be before they are let out first.
    needed: AtomicU32,
    /// How often they came soon since then.
    arrivals: AtomicU32,
}

impl BarrierOrder {
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
            publishers: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            needed: AtomicU32::new(WAITS_MIN),
            arrivals: AtomicU32::new(0),
        }
    }

    /// A rooted call whose number is `op` has to wait for `publishers`.
    pub fn waits(&self, op: u64, publishers: Publishers) {
        self.waits_at(now(), op, publishers);
    }

    fn waits_at(&self, now: Duration, op: u64, publishers: Publishers) {
        let left = Duration::from_nanos(self.left.load(Ordering::Relaxed));
        if op != self.barrier.load(Ordering::Relaxed) + 1 || now > left + AT_ONCE {
            return;
        }
        // Once for each call.
        self.left.store(0, Ordering::Relaxed);
        let publishers = publishers.word();
        let known = self.publishers.swap(publishers, Ordering::Relaxed);
        let waits = match known == publishers {
            true => self.waits.load(Ordering::Relaxed).saturating_add(1),
            false => 1,
        };
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// Barrier `op` is done for rank `own`, which goes on once those that are expected `have_called` behind it, or do not
    /// seem to.
    pub fn leave(&self, op: u64, own: Rank, have_called: impl Fn(Publishers) -> bool) {
        let others = |publishers: &Publishers| *publishers != Publishers::Root(own);
        if let Some(expected) = self.expected().filter(others) {
            self.note(have_called(expected) || self.come_soon(|| have_called(expected)));
        }
        self.left_at(now(), op);
    }

    /// Lets others have the core until those that are awaited `have_called`; whether that was soon.
    fn come_soon(&self, have_called: impl Fn() -> bool) -> bool {
        let before = now();
        let is_soon = || now() - before < self.soon;
        while is_soon() {
            yield_now();
            if have_called() {
                return is_soon();
            }
        }
        false
    }

    fn left_at(&self, now: Duration, op: u64) {
        self.barrier.store(op, Ordering::Relaxed);
        self.left.store(now.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Who is to leave first.
    fn expected(&self) -> Option<Publishers> {
        let is_expected = self.waits.load(Ordering::Relaxed) >= self.needed.load(Ordering::Relaxed);
        is_expected.then(|| Publishers::of_word(self.publishers.load(Ordering::Relaxed)))
    }

    /// Those that were expected came soon or not.
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

    /// They are expected again after so many more waits.
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

    fn root(rank: u32) -> Publishers {
        Publishers::Root(Rank(rank))
    }

    /// Barriers, behind each of which a rooted call may wait.
    struct Calls {
        seen: BarrierOrder,
        op: u64,
    }

    impl Calls {
        fn new() -> Self {
            Self {
                seen: BarrierOrder::new(4, 2),
                op: 0,
            }
        }

        /// How often rank 1 looks for `publishers` when it leaves the next barrier, which come with the look numbered `with`.
        fn looks(&mut self, publishers: Publishers, with: u32) -> u32 {
            self.op += 2;
            let looks = Cell::new(0);
            self.seen.leave(self.op, Rank(1), |expected| {
                assert_eq!(expected, publishers);
                looks.set(looks.get() + 1);
                looks.get() == with
            });
            looks.get()
        }

        /// The call behind the last barrier waits for `publishers`, so long after this was left.
        fn wait(&self, publishers: Publishers, after: Duration) {
            let left = Duration::from_secs(1);
            self.seen.left_at(left, self.op);
            self.seen.waits_at(left + after, self.op + 1, publishers);
        }

        /// Barriers with a wait behind each, until those are expected.
        fn learn(&mut self, publishers: Publishers) -> u32 {
            let mut waits = 0;
            while self.seen.expected().is_none() {
                assert_eq!(self.looks(publishers, 1), 0);
                self.wait(publishers, AT_ONCE);
                waits += 1;
            }
            waits
        }
    }

    #[test]
    fn a_root_is_let_out_after_some_waits_at_once_behind_barriers() {
        let (mut calls, first) = (Calls::new(), root(2));
        assert_eq!(calls.learn(first), WAITS_MIN);
        assert_eq!(calls.looks(first, 1), 1);
        // Another root, a second wait of that call, a call that is not the next one, and one behind some work.
        calls.wait(root(3), AT_ONCE);
        calls
            .seen
            .waits_at(Duration::from_secs(1), calls.op + 1, root(3));
        assert_eq!(calls.looks(first, 1), 0);
        calls.seen.waits(calls.op + 2, root(3));
        calls.wait(root(3), 2 * AT_ONCE);
        assert_eq!(calls.looks(first, 1), 0);
        calls.wait(root(3), AT_ONCE);
        assert_eq!(calls.looks(root(3), 1), 1);
        // The root itself does not wait for the root.
        calls.wait(root(1), AT_ONCE);
        calls.wait(root(1), AT_ONCE);
        assert_eq!(calls.looks(first, 1), 0);
        // Nor is a root the same as those that a root waits for.
        calls.wait(Publishers::Others, AT_ONCE);
        assert_eq!(calls.looks(Publishers::Others, 1), 0);
        calls.wait(Publishers::Others, AT_ONCE);
        assert_eq!(calls.looks(Publishers::Others, 1), 1);
    }

    #[test]
    fn one_that_does_not_come_has_to_be_waited_for_more_often() {
        let (mut calls, first) = (Calls::new(), Publishers::Others);
        for waits in [2, 4, 8] {
            assert_eq!(calls.learn(first), waits);
            assert!(calls.looks(first, u32::MAX) > 1);
        }
        // One that comes often enough is trusted again, and seen to be waited for now and then.
        for waits in [16, 2, 2] {
            assert_eq!(calls.learn(first), waits);
            for _ in 0..ARRIVALS_MAX {
                assert_eq!(calls.looks(first, 1), 1);
            }
        }
    }
}
