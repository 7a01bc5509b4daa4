//! Memory that the ranks of a plain program share: words of each rank, and slots that it writes and others read.

use super::LINE;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_engine::raw::Segment;

/// Distance of words that different processes write: processors fetch cache lines in pairs.
const WORD_STRIDE: usize = 128;
/// Bytes of a message that has room behind its flag, in the same line.
const INLINED: usize = LINE - size_of::<u64>();
/// Slots of a rank at most.
const SLOTS: usize = 64;
/// A rank's memory for messages that have no room beside their flag.
const RING: usize = 4 << 20;

/// Words that each rank writes, but for `Arrived` and `Combined`, which those of a group write.
#[derive(Clone, Copy)]
pub enum Word {
    /// The last operation whose buffers it has announced; then the addresses of both.
    Ready,
    Send,
    Receive,
    /// The last operation that it has finished.
    Done,
    /// The core on which it waited last, counted from 1.
    Core,
    /// How many ranks of a group have come, in all operations.
    Arrived,
    /// The last operation whose vectors of a group are combined.
    Combined,
}

const WORDS: usize = 7;

/// One rank's view.
pub struct Shared {
    segment: Segment,
    size: usize,
    /// Slots that are used by turns, and the memory of each.
    slots: usize,
    stride: usize,
}

impl Shared {
    /// Bytes for `size` ranks.
    pub fn bytes(size: usize) -> usize {
        size * (WORDS * WORD_STRIDE + SLOTS * LINE + RING)
    }

    /// Of `size` ranks in a zero-filled segment of [`Shared::bytes`].
    pub fn new(segment: Segment, size: usize) -> Self {
        Self {
            segment,
            size,
            slots: SLOTS,
            stride: LINE,
        }
    }

    /// Messages of up to `bytes` from now on, which go in `few` slots or in as many as there is room for. All ranks do so
    /// at the same operation, when none of those before is under way.
    pub fn divide(&mut self, bytes: usize, few: bool) {
        self.stride = bytes.next_multiple_of(LINE).max(LINE);
        let most = (RING / self.stride).min(SLOTS);
        self.slots = match few {
            true => most.min(2),
            false => most,
        };
    }

    /// How many operations may be under way.
    pub fn slots(&self) -> u64 {
        self.slots as u64
    }

    pub fn word(&self, word: Word, rank: usize) -> &AtomicU64 {
        let index = word as usize * self.size + rank;
        self.segment.word(index * WORD_STRIDE)
    }

    pub fn has(&self, word: Word, rank: usize, value: u64) -> bool {
        self.word(word, rank).load(Ordering::Acquire) >= value
    }

    pub fn say(&self, word: Word, rank: usize, value: u64) {
        self.word(word, rank).store(value, Ordering::Release);
    }

    /// What says that the message of `rank` in operation `op` is there.
    pub fn flag(&self, rank: usize, op: u64) -> &AtomicU64 {
        self.segment.word(self.line(rank, op))
    }

    pub fn is_raised(&self, rank: usize, op: u64) -> bool {
        self.flag(rank, op).load(Ordering::Acquire) >= op
    }

    /// Where that message of `bytes` bytes lies.
    pub fn message(&self, rank: usize, op: u64, bytes: usize) -> MemoryRange {
        let slot = op as usize % self.slots;
        let start = match bytes <= INLINED {
            true => self.line(rank, op) + size_of::<u64>(),
            false => self.rings() + rank * RING + slot * self.stride,
        };
        self.segment.range().slice(start, bytes)
    }

    fn line(&self, rank: usize, op: u64) -> usize {
        let slot = op as usize % self.slots;
        self.size * WORDS * WORD_STRIDE + (rank * SLOTS + slot) * LINE
    }

    fn rings(&self) -> usize {
        self.size * (WORDS * WORD_STRIDE + SLOTS * LINE)
    }
}
