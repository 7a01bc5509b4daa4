//! What two processes do at the same time, and how long the longer of both takes.

use super::copies::{Loop, Memory, Messages};
use super::ring::{Rings, Word};
use crate::bench::shared::wait;
use anyhow::Result;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_engine::raw::Segment;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// One of the two.
pub struct Pair {
    rank: usize,
    rings: Rings,
    pub memory: Memory,
    turns: u64,
}

impl Pair {
    /// The process that is `rank` of two, in a zero-filled segment of [`Rings::SEGMENT_BYTES`] that both map.
    pub fn new(segment: Segment, rank: usize) -> Self {
        Self {
            rank,
            rings: Rings::new(segment, rank),
            memory: Memory::new(rank),
            turns: 0,
        }
    }

    /// Runs `what` `times` times.
    ///
    /// # Errors
    /// As [`Memory::copy`].
    pub fn copy(&mut self, what: (Loop, Messages), times: usize) -> Result<Duration> {
        self.memory.copy(&mut self.rings, what, times)
    }

    /// The longer of both times of `act`, which both begin together. They meet here and not in the MPI library,
    /// which may not give up a core that the other needs.
    pub fn longer(&mut self, act: impl FnOnce(&mut Self) -> Result<Duration>) -> Result<Duration> {
        self.round_trips(1)?;
        let mine = act(self)?.as_nanos() as u64;
        let time = self.rings.word(Word::Time, self.rank);
        time.store(mine, Ordering::Release);
        // After which both times are there.
        self.round_trips(1)?;
        let others = self
            .rings
            .word(Word::Time, 1 - self.rank)
            .load(Ordering::Acquire);
        Ok(Duration::from_nanos(mine.max(others)))
    }

    /// A word that rank 0 writes and rank 1 answers, `times` times.
    pub fn round_trips(&mut self, times: usize) -> Result<Duration> {
        self.take_turns(times, |word, turn| {
            wait(|| Ok(word.load(Ordering::Acquire) == turn))
        })
    }

    /// The same on one core, which each gives up until the other has answered: two switches each.
    pub fn switches(&mut self, core: usize, times: usize) -> Result<Duration> {
        let _pinned = Pinned::to(core);
        let yields = |word: &AtomicU64, turn| {
            while word.load(Ordering::Acquire) != turn {
                std::thread::yield_now();
            }
            Ok(())
        };
        // Until both are there.
        self.take_turns(1, yields)?;
        self.take_turns(times, yields)
    }

    fn take_turns(
        &mut self,
        times: usize,
        until: impl Fn(&AtomicU64, u64) -> Result<()>,
    ) -> Result<Duration> {
        let mine = self.rings.word(Word::Turn, self.rank);
        let others = self.rings.word(Word::Turn, 1 - self.rank);
        let last = self.turns + times as u64;
        let start = Instant::now();
        for turn in self.turns + 1..=last {
            if self.rank == 1 {
                until(others, turn)?;
            }
            mine.store(turn, Ordering::Release);
            if self.rank == 0 {
                until(others, turn)?;
            }
        }
        let elapsed = start.elapsed();
        self.turns = last;
        Ok(elapsed)
    }
}

/// This thread on one core, until dropped.
pub struct Pinned {
    before: CpuSet,
    /// Where it ran.
    home: Option<CpuSet>,
}

/// This thread.
const SELF: Pid = Pid::from_raw(0);

impl Pinned {
    /// On `core`, if the system allows that.
    pub fn to(core: usize) -> Option<Self> {
        let before = sched_getaffinity(SELF).ok()?;
        let home = sched_getcpu().ok().and_then(only);
        sched_setaffinity(SELF, &only(core)?).ok()?;
        Some(Self { before, home })
    }
}

/// A set of one core, if there can be such a core.
fn only(core: usize) -> Option<CpuSet> {
    let mut one = CpuSet::new();
    one.set(core).ok()?;
    Some(one)
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // At once back to where it ran: else the two stay on one core until the system finds out, and those that
        // poll in the MPI library meanwhile wait for each other's share of time.
        if let Some(home) = &self.home {
            let _ = sched_setaffinity(SELF, home);
        }
        // It was allowed before. Where it no longer is, nothing can be done.
        let _ = sched_setaffinity(SELF, &self.before);
    }
}

/// The first core that this thread may run on; 0 if the system does not say.
pub fn first_core() -> usize {
    let allowed = sched_getaffinity(SELF).unwrap_or_default();
    let is_allowed = |core: &usize| allowed.is_set(*core) == Ok(true);
    (0..CpuSet::count()).find(is_allowed).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_base::config::ShmKind;
    use ferrorail_engine::raw::{Cma, cma_allow, process_id};

    /// What both of a pair return, two threads here.
    fn both<R: Send>(act: impl Fn(&mut Pair) -> R + Sync) -> [R; 2] {
        let segment = Segment::create(ShmKind::Auto, Rings::SEGMENT_BYTES).unwrap();
        let attached = Segment::attach(&segment.handle()).unwrap();
        let act = &act;
        std::thread::scope(|scope| {
            let other = scope.spawn(move || act(&mut Pair::new(attached, 1)));
            let mine = act(&mut Pair::new(segment, 0));
            [mine, other.join().unwrap()]
        })
    }

    /// Both are threads of this process, whose memory is read as another's would be.
    #[test]
    fn loops_copy_what_a_collective_has_to() {
        cma_allow();
        for which in Loop::ALL {
            let messages = Messages {
                bytes: 1 << 20,
                rotate: true,
            };
            let halves = [(1, 512 << 10), (2, 512 << 10)];
            let expected = match which {
                Loop::BcastRing => vec![(1, 1 << 20)],
                Loop::BcastAttach => halves.to_vec(),
                _ => halves.map(|(byte, bytes)| (byte, 2 * bytes)).to_vec(),
            };
            let starts = [const { AtomicU64::new(0) }; 2];
            let received = both(|pair| {
                let rank = pair.rank;
                starts[rank].store(pair.memory.start() as u64, Ordering::Release);
                pair.round_trips(1).unwrap();
                let there = |rank: usize| starts[rank].load(Ordering::Acquire) as usize;
                if which.attaches() {
                    assert!(pair.copy((which, messages), 1).is_err(), "not looked at");
                    let cma = Cma::of(process_id());
                    assert!(!pair.memory.reach(cma, there(rank)), "its own");
                    assert!(pair.memory.reach(cma, there(1 - rank)));
                }
                pair.round_trips(1).unwrap();
                assert!(pair.copy((which, messages), 2).unwrap() > Duration::ZERO);
                pair.round_trips(1).unwrap();
                pair.memory.runs(which, messages)
            });
            for (rank, received) in received.into_iter().enumerate() {
                let own = vec![(
                    rank as u8 + 1,
                    expected.iter().map(|&(_, bytes)| bytes).sum(),
                )];
                let written = received.iter().filter(|&call| *call == expected).count();
                let others = received.iter().filter(|&call| *call == own).count();
                // Rank 0 of a broadcast receives nothing.
                let all = received.len();
                let expected = if expected == own {
                    (all, all)
                } else {
                    (2, all - 2)
                };
                assert_eq!((written, others), expected, "{which:?} {received:?}");
            }
        }
    }

    #[test]
    fn both_know_the_longer_time() {
        let times = both(|pair| {
            let times = [[3, 5], [7, 4]].map(|times| {
                let mine = Duration::from_nanos(times[pair.rank]);
                pair.longer(|_| Ok(mine)).unwrap().as_nanos()
            });
            (times, pair.turns)
        });
        assert_eq!(times, [([5, 7], 4), ([5, 7], 4)]);
    }

    #[test]
    fn threads_are_pinned_only_while_switches_are_counted() {
        let before = sched_getaffinity(SELF).unwrap();
        let core = first_core();
        let [mine, other] = both(|pair| {
            pair.round_trips(10).unwrap();
            pair.switches(core, 10).unwrap();
            assert_eq!(sched_getaffinity(SELF).unwrap(), before);
            pair.turns
        });
        assert_eq!((mine, other), (21, 21));
        assert!(Pinned::to(usize::MAX).is_none());
    }
}
