//! Copies into shared memory that a rank on another core reads next.
//!
//! Two kinds of stores do it, and neither is always better:
//!
//! * Ordinary stores take each line from the cache of who read the last message there, and leave the new one where its
//!   reader finds it near. Up to some tens of KB, or between threads of one core, that is fastest; between cores that
//!   share no cache taking the lines is most of the time.
//! * Non-temporal stores go past the caches: the writer waits for nobody, the reader loads from memory.
//!
//! How far apart two cores are nobody says, and virtual processors move. So each process times the copies that it
//! makes, by length, tries the other kind now and then, and goes by that. Readers need not know.

use super::past_caches::copy_past_caches;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicU32, Ordering};
use std::time::Instant;

/// Shorter copies are always ordinary ones.
const CHOSEN_BYTES_MIN: usize = 2 << 10;

/// Lengths from one power of two to the next are timed together, the last without an end.
const CLASSES: usize = 7;

/// A copy in so many is timed.
const TIMED_INTERVAL: u32 = 8;

/// Streaming stores are tried once in so many copies, and at first, after a run of ordinary ones, whenever their number has
/// doubled.
const TRIAL_INTERVAL: u32 = 256;

/// Ordinary stores are tried in copies that follow each other, of which so many are timed, the last ones. Lines that
/// were streamed are in memory, and come from there, however near the reader is, until the copies have gone once round
/// where they go.
const RUN_TIMED: u32 = 8;

/// How often: once in so many times as many copies, the first few times, and later.
const RUN_INTERVALS: [u32; 2] = [6, 50];

/// A run ends when so many of its copies in a row have each taken so many times what streaming takes: they have gone round already,
/// as parts of rotating scratch do within a few at first, and between cores that are far apart each further one costs as much as ten.
const RUN_SLOW: u32 = 2;
const SLOW_FACTOR: u32 = 3;

/// What a reader takes longer from memory than from the cache of another core, in ps per byte, which the writer cannot
/// time: 55 to 65 for messages of 4 KB to 256 KB between cores of an AMD EPYC, wherever the cores are.
const READER_PS: u32 = 60;

/// Kinds of scratch, which differ in when their lines are written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScratchKind {
    /// Scratch of channels, which comes round after up to 32 copies.
    Channels,
    /// Rotating scratch, which comes round after 2 MB.
    Rotating,
}

impl ScratchKind {
    /// Shorter copies are ordinary ones.
    #[inline]
    const fn chosen_bytes_min(self) -> usize {
        match self {
            Self::Channels => 4 * CHOSEN_BYTES_MIN,
            Self::Rotating => CHOSEN_BYTES_MIN,
        }
    }
}

/// What copies of one class of lengths took, and which are made.
struct Choice {
    /// Copies in a row of which the last ones show what ordinary stores take.
    run: u32,
    /// Copies so far.
    turn: AtomicU32,
    /// Copies in a row, of a run, that were far slower than streaming.
    slow: AtomicU32,
    /// Mean of recent times of each kind, in ps per byte; 0 is unknown.
    ordinary: AtomicU32,
    streaming: AtomicU32,
}

static OF_CHANNELS: [Choice; CLASSES] = [const { Choice::new(32) }; CLASSES];

/// 2 MB are so many copies of the shortest of each class; 32 at least, as pieces are short.
static ROTATING: [Choice; CLASSES] = [
    Choice::new(1024),
    Choice::new(512),
    Choice::new(256),
    Choice::new(128),
    Choice::new(64),
    Choice::new(32),
    Choice::new(32),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stores {
    Ordinary,
    Streaming,
}

/// How the next copy is made.
#[derive(Clone, Copy, Debug)]
struct Next {
    stores: Stores,
    /// Whether its time counts.
    counts: bool,
    /// The turn after the run of which it is one.
    run_end: Option<u32>,
}

impl Next {
    fn one(stores: Stores, counts: bool) -> Self {
        Self {
            stores,
            counts,
            run_end: None,
        }
    }

    fn is_timed(&self) -> bool {
        self.counts || self.run_end.is_some()
    }
}

impl Choice {
    /// Of copies that come round after `lap`.
    const fn new(lap: u32) -> Self {
        Self {
            run: lap + RUN_TIMED,
            turn: AtomicU32::new(0),
            slow: AtomicU32::new(0),
            ordinary: AtomicU32::new(0),
            streaming: AtomicU32::new(0),
        }
    }

    fn of(bytes: usize, kind: ScratchKind) -> &'static Self {
        let class = (bytes / CHOSEN_BYTES_MIN).ilog2() as usize;
        let choices = match kind {
            ScratchKind::Channels => &OF_CHANNELS,
            ScratchKind::Rotating => &ROTATING,
        };
        &choices[class.min(CLASSES - 1)]
    }

    /// Which stores the next copy has. Threads may get the same turn, which is harmless.
    fn next(&self) -> Next {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
        let sample = turn.is_multiple_of(TIMED_INTERVAL);
        if turn < self.run {
            return match turn > 0 && turn.is_power_of_two() {
                true => Next::one(Stores::Streaming, true),
                false => self.of_run(turn, turn),
            };
        }
        match self.best() {
            Stores::Ordinary => {
                let trial = match turn < TRIAL_INTERVAL {
                    true => turn.is_power_of_two(),
                    false => turn.is_multiple_of(TRIAL_INTERVAL),
                };
                match trial {
                    true => Next::one(Stores::Streaming, true),
                    false => Next::one(Stores::Ordinary, sample),
                }
            }
            Stores::Streaming => {
                let [early, later] = RUN_INTERVALS.map(|runs| runs * self.run);
                let of_run = turn % if turn < later { early } else { later };
                match of_run < self.run {
                    true => self.of_run(turn, of_run),
                    false => Next::one(Stores::Streaming, sample),
                }
            }
        }
    }

    /// The copy of this `turn`, of a run in which it comes after so many others.
    fn of_run(&self, turn: u32, others: u32) -> Next {
        Next {
            stores: Stores::Ordinary,
            counts: others >= self.run - RUN_TIMED,
            run_end: Some(turn - others + self.run),
        }
    }

    /// The kind that takes writer and reader together less time. Where the source is not in a cache the two differ by
    /// little, and streaming has to be faster by half: as much as times vary.
    fn best(&self) -> Stores {
        let ordinary = self.ordinary.load(Ordering::Relaxed);
        let streaming = self.streaming.load(Ordering::Relaxed);
        match streaming > 0 && ordinary > streaming + streaming / 2 + READER_PS {
            true => Stores::Streaming,
            false => Stores::Ordinary,
        }
    }

    /// A copy was made as `next` and took so long.
    fn took(&self, next: Next, ps_per_byte: u32) {
        let mut counts = next.counts;
        if let Some(end) = next.run_end {
            let streaming = self.streaming.load(Ordering::Relaxed);
            let is_slow = streaming > 0 && ps_per_byte > SLOW_FACTOR * streaming + READER_PS;
            let slow = match is_slow {
                true => self.slow.load(Ordering::Relaxed) + 1,
                false => 0,
            };
            self.slow.store(slow % RUN_SLOW, Ordering::Relaxed);
            if slow == RUN_SLOW {
                self.turn.store(end, Ordering::Relaxed);
                counts = true;
            }
        }
        if counts {
            self.note(next.stores, ps_per_byte);
        }
    }

    /// Notes how long a copy took. Who was faster than before counts for half; who was slower may have lost its core: a
    /// quarter, and four times slower at most.
    fn note(&self, stores: Stores, ps_per_byte: u32) {
        let mean = match stores {
            Stores::Ordinary => &self.ordinary,
            Stores::Streaming => &self.streaming,
        };
        let before = mean.load(Ordering::Relaxed);
        let after = match before {
            0 => ps_per_byte,
            _ if ps_per_byte < before => before.midpoint(ps_per_byte),
            _ => before - before / 4 + ps_per_byte.min(4 * before) / 4,
        };
        mean.store(after.clamp(1, u32::MAX / 8), Ordering::Relaxed);
    }
}

/// Copies `from` to `into`, which is shared memory and as long. `is_first` notes that it is written, and says whether some
/// of it is for the first time.
///
/// # Safety
/// As [`MemoryRange::copy_to`].
#[inline]
pub(crate) unsafe fn copy_into_shared(
    from: MemoryRange,
    into: MemoryRange,
    kind: ScratchKind,
    is_first: impl FnOnce() -> bool,
) {
    if from.bytes < kind.chosen_bytes_min() {
        // SAFETY: the caller vouches for both.
        return unsafe { from.copy_to(into) };
    }
    match is_first() {
        // What the kernel takes for pages says nothing about stores.
        // SAFETY: as above.
        true => unsafe { from.copy_to(into) },
        // SAFETY: as above.
        false => unsafe { copy_chosen(from, into, kind) },
    }
}

/// # Safety
/// As [`copy_into_shared`].
unsafe fn copy_chosen(from: MemoryRange, into: MemoryRange, kind: ScratchKind) {
    let choice = Choice::of(from.bytes, kind);
    let next = choice.next();
    let start = next.is_timed().then(Instant::now);
    match next.stores {
        // SAFETY: the caller vouches for both.
        Stores::Ordinary => unsafe { from.copy_to(into) },
        // SAFETY: as above.
        Stores::Streaming => unsafe { copy_past_caches(from, into) },
    }
    if let Some(start) = start {
        let ps = start.elapsed().as_nanos() * 1000 / from.bytes as u128;
        // Far below the type's limit, as it is multiplied.
        choice.took(next, u32::try_from(ps).unwrap_or(u32::MAX).min(1 << 24));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Has `choice` make `copies` copies that take what `ps` says; how many of them streamed.
    fn run(choice: &Choice, copies: u32, ps: impl Fn(Stores) -> u32) -> u32 {
        let mut streamed = 0;
        for _ in 0..copies {
            let next = choice.next();
            streamed += u32::from(next.stores == Stores::Streaming);
            let ps = ps(next.stores);
            if next.is_timed() {
                choice.took(next, ps);
            }
        }
        streamed
    }

    fn times(ordinary: u32, streaming: u32) -> impl Fn(Stores) -> u32 {
        move |stores| match stores {
            Stores::Ordinary => ordinary,
            Stores::Streaming => streaming,
        }
    }

    #[test]
    fn the_choice_follows_the_distance_between_cores() {
        let choice = Choice::new(32);
        // Lines that are far away, then near, then far again.
        assert!(run(&choice, 1000, times(300, 30)) > 750);
        assert!(run(&choice, 2000, times(18, 50)) < 1100);
        assert!(run(&choice, 1000, times(18, 50)) < 10);
        assert!(run(&choice, 2000, times(300, 30)) > 1500);
        assert!(run(&choice, 2000, times(300, 30)) >= 2000 - 40);
    }

    #[test]
    fn few_copies_are_ordinary_between_cores_that_are_far_apart() {
        let choice = Choice::new(64);
        assert!(run(&choice, 600, times(450, 50)) > 580);
        // Lines that were streamed are near until the copies have gone round, within eight.
        let (choice, ordinary) = (Choice::new(64), Cell::new(0));
        let streamed = run(&choice, 600, |stores| match stores {
            Stores::Ordinary => {
                ordinary.set(ordinary.get() + 1);
                if ordinary.get() % 10 < 8 { 80 } else { 450 }
            }
            Stores::Streaming => 50,
        });
        assert!(streamed > 560, "{streamed}");
    }

    #[test]
    fn streamed_lines_do_not_make_ordinary_stores_look_slow() {
        let choice = Choice::new(32);
        let since_streamed = Cell::new(0);
        let ps = |stores| {
            let copies = since_streamed.get() + 1;
            since_streamed.set(if stores == Stores::Ordinary {
                copies
            } else {
                0
            });
            match stores {
                Stores::Streaming => 50,
                Stores::Ordinary if copies <= 32 => 200,
                Stores::Ordinary => 20,
            }
        };
        choice.note(Stores::Ordinary, 1200);
        choice.note(Stores::Streaming, 50);
        run(&choice, 3000, ps);
        assert!(run(&choice, 1000, ps) < 10);
    }

    #[test]
    fn what_the_reader_pays_counts() {
        let choice = Choice::new(32);
        run(&choice, 100, times(60, 20));
        assert!(run(&choice, 1000, times(60, 20)) < 10);
    }

    #[test]
    fn one_slow_copy_decides_nothing() {
        let choice = Choice::new(32);
        run(&choice, 300, times(20, 40));
        choice.note(Stores::Ordinary, 10_000_000);
        assert_eq!(choice.best(), Stores::Ordinary);
    }
}
