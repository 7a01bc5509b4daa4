//! What two processes that share memory do, each at the same time as the other.

use crate::bench::shared::wait;
use anyhow::{Context, Result};
use ferrorail_base::ProcessId;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_engine::raw::{Cma, Segment, cma_allow};
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Bytes of the longest message.
const BYTES_MAX: usize = super::machine::SIZES[1];
/// Distance of words that different processes write: processors fetch cache lines in pairs.
const LINE: usize = 128;
/// The words' part of the segment.
const WORDS: usize = 4096;
/// A ring has so many chunks of so many bytes: little enough for caches, and long enough that flags cost little.
/// On 2 cores chunks of 16 KB were slower by 10% one way, and by 25% both ways.
const CHUNK: usize = 64 << 10;
const CHUNKS: usize = 4;

/// What a word says, of which each of the two processes has one.
#[derive(Clone, Copy)]
enum Word {
    /// How often it answered.
    Turn,
    /// Chunks that it has written into its ring, and read from the other's.
    Written,
    Read,
    /// Nanoseconds that it took for something.
    Time,
}

/// One of the two.
pub struct Pair {
    rank: usize,
    segment: Segment,
    own: Vec<u8>,
    received: Vec<u8>,
    /// The other's `own`, once it is known that it can be read.
    remote: Option<(Cma, u64)>,
    turns: u64,
    written: u64,
    read: u64,
}

impl Pair {
    pub const SEGMENT_BYTES: usize = WORDS + 2 * CHUNKS * CHUNK;

    /// The process that is `rank` of two, in a zero-filled segment of [`Pair::SEGMENT_BYTES`] that both map.
    pub fn new(segment: Segment, rank: usize) -> Self {
        Self {
            rank,
            segment,
            own: vec![rank as u8 + 1; BYTES_MAX],
            received: vec![0; BYTES_MAX],
            remote: None,
            turns: 0,
            written: 0,
            read: 0,
        }
    }

    /// Where its own message lies, for the other to [`reach`](Pair::reach). From here on processes of the same
    /// user may read this one's memory.
    pub fn memory(&self) -> u64 {
        cma_allow();
        self.own.as_ptr() as u64
    }

    /// Whether the message of `other` at `address` can be read.
    pub fn reach(&mut self, other: ProcessId, address: u64) -> bool {
        let cma = Cma::of(other);
        let expected = [2 - self.rank as u8; size_of::<u64>()];
        let reaches = cma.reads(address, u64::from_ne_bytes(expected));
        self.remote = reaches.then_some((cma, address));
        reaches
    }

    /// The longer of both times of `act`, which both begin together. They meet here and not in the MPI library,
    /// which may not give up a core that the other needs.
    pub fn longer(&mut self, act: impl FnOnce(&mut Self) -> Result<Duration>) -> Result<Duration> {
        self.round_trips(1)?;
        let mine = act(self)?.as_nanos() as u64;
        let time = self.word(Word::Time, self.rank);
        time.store(mine, Ordering::Release);
        // After which both times are there.
        self.round_trips(1)?;
        let others = self.word(Word::Time, 1 - self.rank).load(Ordering::Acquire);
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
        let mine = self.word(Word::Turn, self.rank);
        let others = self.word(Word::Turn, 1 - self.rank);
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

    /// Rank 0 copies `times` messages into its ring, rank 1 out of it.
    pub fn one_way(&mut self, bytes: usize, times: usize) -> Result<Duration> {
        self.stream((self.rank == 0, self.rank == 1), bytes, times)
    }

    /// Both copy `times` messages into their rings, and the other's out.
    pub fn exchange(&mut self, bytes: usize, times: usize) -> Result<Duration> {
        self.stream((true, true), bytes, times)
    }

    fn stream(
        &mut self,
        (sends, receives): (bool, bool),
        bytes: usize,
        times: usize,
    ) -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..times {
            for offset in (0..bytes).step_by(CHUNK) {
                if sends {
                    self.copy_in(offset)?;
                }
                if receives {
                    self.copy_out(offset)?;
                }
            }
        }
        Ok(start.elapsed())
    }

    fn copy_in(&mut self, offset: usize) -> Result<()> {
        let read = self.word(Word::Read, 1 - self.rank);
        wait(|| Ok(self.written < read.load(Ordering::Acquire) + CHUNKS as u64))?;
        let message = MemoryRange::new(self.own.as_ptr(), self.own.len());
        // SAFETY: both have so many bytes; the other process has read what was in the chunk, and reads it again
        // when the word says so.
        unsafe {
            message
                .slice(offset, CHUNK)
                .copy_to(self.chunk(self.rank, self.written));
        }
        self.written += 1;
        let written = self.word(Word::Written, self.rank);
        written.store(self.written, Ordering::Release);
        Ok(())
    }

    fn copy_out(&mut self, offset: usize) -> Result<()> {
        let written = self.word(Word::Written, 1 - self.rank);
        wait(|| Ok(written.load(Ordering::Acquire) > self.read))?;
        let message = MemoryRange::new(self.received.as_mut_ptr(), self.received.len());
        // SAFETY: as above; nobody else has this process's buffer.
        unsafe {
            self.chunk(1 - self.rank, self.read)
                .copy_to(message.slice(offset, CHUNK));
        }
        self.read += 1;
        let read = self.word(Word::Read, self.rank);
        read.store(self.read, Ordering::Release);
        Ok(())
    }

    /// Both read the other's message out of its memory, `times` times.
    ///
    /// # Errors
    /// The system's; if it was not found that they can.
    pub fn cross_memory(&mut self, bytes: usize, times: usize) -> Result<Duration> {
        let (cma, address) = self.remote.context("the other's memory")?;
        let into = MemoryRange::new(self.received.as_mut_ptr(), bytes);
        let start = Instant::now();
        for _ in 0..times {
            // SAFETY: nobody else has this process's buffer.
            unsafe { cma.read(address, into)? };
        }
        Ok(start.elapsed())
    }

    /// Both copy their own message within their own memory, `times` times.
    pub fn own_copies(&mut self, bytes: usize, times: usize) -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..times {
            self.received[..bytes].copy_from_slice(&self.own[..bytes]);
            // So that every copy is made.
            black_box(&mut self.received);
        }
        Ok(start.elapsed())
    }

    fn word(&self, word: Word, rank: usize) -> &AtomicU64 {
        self.segment.word((2 * word as usize + rank) * LINE)
    }

    /// Where chunk number `index` goes that `rank` sends.
    fn chunk(&self, rank: usize, index: u64) -> MemoryRange {
        let place = rank * CHUNKS + index as usize % CHUNKS;
        self.segment.range().slice(WORDS + place * CHUNK, CHUNK)
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
    use ferrorail_engine::raw::process_id;

    /// What both of a pair return, two threads here.
    fn both<R: Send>(act: impl Fn(&mut Pair) -> R + Sync) -> [R; 2] {
        let segment = Segment::create(ShmKind::Auto, Pair::SEGMENT_BYTES).unwrap();
        let attached = Segment::attach(&segment.handle()).unwrap();
        let act = &act;
        std::thread::scope(|scope| {
            let other = scope.spawn(move || act(&mut Pair::new(attached, 1)));
            let mine = act(&mut Pair::new(segment, 0));
            [mine, other.join().unwrap()]
        })
    }

    #[test]
    fn streams_bring_the_others_message() {
        let received = both(|pair| {
            pair.one_way(BYTES_MAX, 2).unwrap();
            let once = pair.received.clone();
            pair.received.fill(0);
            assert!(pair.exchange(4 * CHUNK, 3).unwrap() > Duration::ZERO);
            (once, pair.received.clone())
        });
        let mut short = vec![0; BYTES_MAX];
        short[..4 * CHUNK].fill(2);
        assert_eq!(received[0], (vec![0; BYTES_MAX], short.clone()));
        short[..4 * CHUNK].fill(1);
        assert_eq!(received[1], (vec![1; BYTES_MAX], short));
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
    fn memory_is_read_where_that_was_found_to_be_possible() {
        let mut pairs = [0, 1].map(|rank| {
            let segment = Segment::create(ShmKind::Auto, Pair::SEGMENT_BYTES).unwrap();
            Pair::new(segment, rank)
        });
        assert!(pairs[0].cross_memory(CHUNK, 1).is_err(), "not looked at");
        let addresses = pairs.each_ref().map(Pair::memory);
        assert!(!pairs[0].reach(process_id(), addresses[0]), "its own");
        assert!(pairs[0].reach(process_id(), addresses[1]));
        pairs[0].cross_memory(CHUNK, 2).unwrap();
        assert_eq!(
            pairs[0].received[..=CHUNK],
            [&[2; CHUNK][..], &[0]].concat()
        );
        pairs[1].own_copies(CHUNK, 1).unwrap();
        assert_eq!(
            pairs[1].received[..=CHUNK],
            [&[2; CHUNK][..], &[0]].concat()
        );
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
