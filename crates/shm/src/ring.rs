//! A ring of datagrams with one writer and any number of readers, who lose what they are too slow for.
//!
//! The writer never waits and knows no reader: a datagram costs it one copy, however many read. Each
//! slot is a seqlock: its first word is odd while number `n` is being written into it, and `2n + 2`
//! afterwards, so a reader knows from one word whether its datagram is there, not yet, or overwritten.
//! The words of a datagram are atomics, hence a copy that a writer overtakes is no data race; it is
//! found out by the second look at the first word and thrown away.

use ferrorail_base::sync::{AtomicU64, Ordering, fence};

/// Words before the data of a slot: its number, length and tag, and two words of the caller.
const HEAD: usize = 4;
/// Slots begin on cache lines.
const LINE_WORDS: usize = 8;

/// How a ring is laid out in its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    slots: u32,
    bytes_max: u32,
}

/// What travels with a datagram, in its first cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// For the caller.
    pub word: u32,
    /// For the caller.
    pub stamps: [u64; 2],
}

/// What a reader finds at a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is not written yet.
    Nothing,
    /// The datagram, as long as [`Ring::take`] still gets it.
    Datagram(Tag),
    /// It was overwritten; the next that may be left has this number.
    Lapped(u64),
}

impl RingShape {
    /// A ring of `slots` datagrams of up to `bytes_max` bytes each. `None` if either is 0 or the
    /// ring would not fit the address space.
    pub fn new(slots: u32, bytes_max: u32) -> Option<Self> {
        let shape = Self { slots, bytes_max };
        let fits = (shape.slot_words() as u64).checked_mul(8 * u64::from(slots));
        let fits = fits.is_some_and(|bytes| bytes <= isize::MAX as u64);
        (slots > 0 && bytes_max > 0 && fits).then_some(shape)
    }

    /// Number of slots.
    pub fn slots(self) -> u32 {
        self.slots
    }

    /// Cells of 8 bytes that it needs.
    pub fn words(self) -> usize {
        self.slots as usize * self.slot_words()
    }

    fn slot_words(self) -> usize {
        (HEAD + (self.bytes_max as usize).div_ceil(8)).next_multiple_of(LINE_WORDS)
    }
}

/// A view of zero-filled cells as a ring.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    cells: &'a [AtomicU64],
    shape: RingShape,
}

impl<'a> Ring<'a> {
    /// # Panics
    /// If there are fewer cells than the shape needs.
    pub fn new(cells: &'a [AtomicU64], shape: RingShape) -> Self {
        assert!(cells.len() >= shape.words(), "a ring needs more cells");
        Self { cells, shape }
    }

    fn slot(&self, number: u64) -> &'a [AtomicU64] {
        let words = self.shape.slot_words();
        let at = (number % u64::from(self.shape.slots)) as usize * words;
        &self.cells[at..at + words]
    }

    /// Writes datagram `number`; numbers count from 0 and are written in order, by one writer.
    ///
    /// # Panics
    /// If it is longer than the shape says.
    pub fn put(&self, number: u64, tag: Tag, data: &[u8]) {
        assert!(data.len() <= self.shape.bytes_max as usize, "too long");
        let slot = self.slot(number);
        slot[0].store(2 * number + 1, Ordering::Relaxed);
        // Whoever sees a word stored below sees the slot as being written in its second look.
        fence(Ordering::Release);
        let length = (data.len() as u64) << 32 | u64::from(tag.word);
        let head = [length, tag.stamps[0], tag.stamps[1]];
        for (cell, word) in slot[1..HEAD].iter().zip(head) {
            cell.store(word, Ordering::Relaxed);
        }
        let (whole, rest) = data.as_chunks::<8>();
        for (cell, bytes) in slot[HEAD..].iter().zip(whole) {
            cell.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            slot[HEAD + whole.len()].store(u64::from_le_bytes(last), Ordering::Relaxed);
        }
        slot[0].store(2 * number + 2, Ordering::Release);
    }

    /// Looks for datagram `number`.
    pub fn look(&self, number: u64) -> Found {
        let slot = self.slot(number);
        let seen = slot[0].load(Ordering::Acquire);
        if seen < 2 * number + 2 {
            return Found::Nothing;
        }
        if seen == 2 * number + 2 {
            let tag = Tag {
                word: slot[1].load(Ordering::Relaxed) as u32,
                stamps: [2, 3].map(|at: usize| slot[at].load(Ordering::Relaxed)),
            };
            if self.holds(slot, number) {
                return Found::Datagram(tag);
            }
        }
        // What the slot holds now, or will in a moment; the oldest of the ring came a round before.
        let newest = (slot[0].load(Ordering::Relaxed) - 1) / 2;
        Found::Lapped(newest + 1 - u64::from(self.shape.slots))
    }

    /// Copies datagram `number`, which [`Ring::look`] has found; its length, or `None` if it was
    /// overwritten before all of it was copied.
    ///
    /// # Panics
    /// If `into` is shorter than the longest datagram.
    pub fn take(&self, number: u64, into: &mut [u8]) -> Option<usize> {
        assert!(into.len() >= self.shape.bytes_max as usize, "too short");
        let slot = self.slot(number);
        if slot[0].load(Ordering::Acquire) != 2 * number + 2 {
            return None;
        }
        let bytes = (slot[1].load(Ordering::Relaxed) >> 32) as usize;
        if bytes > self.shape.bytes_max as usize {
            // Half of an old and half of a new datagram, or a writer that is none of ours.
            return None;
        }
        let (whole, rest) = into[..bytes].as_chunks_mut::<8>();
        for (cell, bytes) in slot[HEAD..].iter().zip(whole.iter_mut()) {
            *bytes = cell.load(Ordering::Relaxed).to_le_bytes();
        }
        if !rest.is_empty() {
            let last = slot[HEAD + whole.len()].load(Ordering::Relaxed);
            rest.copy_from_slice(&last.to_le_bytes()[..rest.len()]);
        }
        self.holds(slot, number).then_some(bytes)
    }

    /// The second look of a reader that has loaded words of `slot`.
    fn holds(&self, slot: &[AtomicU64], number: u64) -> bool {
        fence(Ordering::Acquire);
        slot[0].load(Ordering::Relaxed) == 2 * number + 2
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use ferrorail_base::sync::{AtomicBool, yield_now};

    fn cells(shape: RingShape) -> Vec<AtomicU64> {
        (0..shape.words()).map(|_| AtomicU64::new(0)).collect()
    }

    fn tag(number: u64) -> Tag {
        Tag {
            word: number as u32,
            stamps: [number, !number],
        }
    }

    #[test]
    fn datagrams_of_every_length_come_as_they_were() {
        let shape = RingShape::new(4, 77).unwrap();
        let (cells, mut into) = (cells(shape), [0xee; 77]);
        let ring = Ring::new(&cells, shape);
        for number in 0..=77 {
            assert_eq!(ring.look(number), Found::Nothing);
            let data: Vec<u8> = (0..number as u8).map(|i| i ^ 0x5a).collect();
            ring.put(number, tag(number), &data);
            assert_eq!(ring.look(number), Found::Datagram(tag(number)));
            assert_eq!(ring.take(number, &mut into), Some(data.len()));
            assert_eq!(into[..data.len()], data);
        }
    }

    #[test]
    fn who_is_lapped_goes_on_with_the_oldest() {
        let shape = RingShape::new(3, 8).unwrap();
        let (cells, mut into) = (cells(shape), [0; 8]);
        let ring = Ring::new(&cells, shape);
        for number in 0..10 {
            ring.put(number, tag(number), &[number as u8]);
        }
        // Slot 0 holds number 9, so 7 is the oldest.
        assert_eq!(ring.look(0), Found::Lapped(7));
        assert_eq!(ring.take(0, &mut into), None);
        let left: Vec<u64> = (7..12)
            .filter(|&number| ring.take(number, &mut into).is_some())
            .collect();
        assert_eq!(left, [7, 8, 9]);
        assert_eq!(ring.look(10), Found::Nothing);
        // From any number that is gone, a few looks lead to one that is there.
        assert_eq!(ring.look(1), Found::Lapped(5));
        assert_eq!(ring.look(5), Found::Lapped(6));
        assert_eq!(ring.look(6), Found::Lapped(7));
    }

    #[test]
    fn numbers_go_on_beyond_what_32_bits_hold() {
        let shape = RingShape::new(3, 8).unwrap();
        let (cells, mut into) = (cells(shape), [0; 8]);
        let ring = Ring::new(&cells, shape);
        let first = (1 << 32) - 4;
        for number in first..first + 8 {
            ring.put(number, tag(number), &[number as u8; 3]);
            for number in number.saturating_sub(2).max(first)..=number {
                assert_eq!(ring.look(number), Found::Datagram(tag(number)));
                assert_eq!(ring.take(number, &mut into), Some(3), "{number}");
                assert_eq!(into[..3], [number as u8; 3]);
            }
        }
        assert_eq!(ring.look(first), Found::Lapped(1 << 32));
    }

    #[test]
    fn shapes_without_room_are_refused() {
        assert_eq!(RingShape::new(0, 8), None);
        assert_eq!(RingShape::new(8, 0), None);
        assert!(RingShape::new(u32::MAX, u32::MAX).is_none());
    }

    /// A writer in full flight: readers lose datagrams and never see half of one.
    #[test]
    fn nothing_torn_is_ever_taken() {
        const LAST: u64 = 20_000;
        let shape = RingShape::new(4, 256).unwrap();
        let (cells, done) = (cells(shape), AtomicBool::new(false));
        let ring = Ring::new(&cells, shape);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let (mut next, mut taken, mut into) = (0, 0, [0; 256]);
                    while next <= LAST {
                        match ring.look(next) {
                            Found::Nothing => yield_now(),
                            Found::Lapped(oldest) => next = oldest.max(next + 1),
                            Found::Datagram(found) => {
                                assert_eq!(found, tag(next));
                                if let Some(bytes) = ring.take(next, &mut into) {
                                    assert_eq!(bytes, 1 + next as usize % 256);
                                    assert!(into[..bytes].iter().all(|&b| b == next as u8));
                                    taken += 1;
                                }
                                next += 1;
                            }
                        }
                    }
                    assert!(taken > 0);
                });
            }
            scope.spawn(|| {
                for number in 0..=LAST {
                    let bytes = 1 + number as usize % 256;
                    ring.put(number, tag(number), &vec![number as u8; bytes]);
                    if number % 16 == 0 {
                        yield_now();
                    }
                }
                done.store(true, Ordering::Release);
            });
        });
        assert!(done.load(Ordering::Acquire));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Number `n` overwrites `n - 1` while `read` reads them.
    fn overwrite_while(read: fn(&Ring<'_>, u64, Tag)) {
        let shape = RingShape::new(1, 8).unwrap();
        let tag = |number| Tag {
            word: number as u32,
            stamps: [number; 2],
        };
        loom::model(move || {
            let cells: Arc<Vec<AtomicU64>> =
                Arc::new((0..shape.words()).map(|_| AtomicU64::new(0)).collect());
            let writer = {
                let cells = Arc::clone(&cells);
                thread::spawn(move || {
                    let ring = Ring::new(&cells, shape);
                    for number in 0..2 {
                        ring.put(number, tag(number), &[number as u8; 8]);
                    }
                })
            };
            let ring = Ring::new(&cells, shape);
            for number in 0..2 {
                read(&ring, number, tag(number));
            }
            writer.join().unwrap();
        });
    }

    /// A reader gets all of a datagram or nothing.
    #[test]
    fn loom_a_datagram_is_whole_or_lost() {
        overwrite_while(|ring, number, _| {
            let mut into = [0xee; 8];
            if ring.take(number, &mut into).is_some() {
                assert_eq!(into, [number as u8; 8]);
            }
        });
    }

    /// In a model of its own: what reads twice as much takes many times as long to search.
    #[test]
    fn loom_the_tag_of_a_datagram_is_whole_or_lost() {
        overwrite_while(|ring, number, tag| {
            if let Found::Datagram(found) = ring.look(number) {
                assert_eq!(found, tag);
            }
        });
    }
}
