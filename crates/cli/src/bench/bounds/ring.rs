//! Memory that two processes share: words by which they tell each other how far they are, and a ring of each.

use crate::bench::shared::wait;
use anyhow::Result;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_engine::raw::Segment;

/// Distance of words that different processes write: processors fetch cache lines in pairs.
const LINE: usize = 128;
/// The words' part of the segment.
const WORDS: usize = 4096;
/// A ring has so many chunks of so many bytes. Chunks are long enough that flags cost little: on 2 cores those of 16 KB were
/// slower by 10% one way, and by 25% both ways. The ring is more than a core's own cache holds, and less than the cache
/// that cores share: where the one's lines had to come out of the other's cache, a ring of 4 chunks took 4 times as long.
pub const CHUNK: usize = 64 << 10;
const CHUNKS: usize = 32;

/// What a word says, of which each of the two processes has one.
#[derive(Clone, Copy)]
pub enum Word {
    /// How often it answered.
    Turn,
    /// Chunks that it has written into its ring, and read from the other's.
    Written,
    Read,
    /// Nanoseconds that it took for something.
    Time,
}

/// One process's view.
pub struct Rings {
    rank: usize,
    segment: Segment,
    written: u64,
    read: u64,
}

impl Rings {
    pub const SEGMENT_BYTES: usize = WORDS + 2 * CHUNKS * CHUNK;

    /// Of the process that is `rank` of two, in a zero-filled segment of [`Rings::SEGMENT_BYTES`] that both map.
    pub fn new(segment: Segment, rank: usize) -> Self {
        Self {
            rank,
            segment,
            written: 0,
            read: 0,
        }
    }

    pub fn word(&self, word: Word, rank: usize) -> &AtomicU64 {
        self.segment.word((2 * word as usize + rank) * LINE)
    }

    /// Copies `message`, a chunk, into this process's ring once there is room.
    ///
    /// # Errors
    /// If the other does not make room.
    ///
    /// # Safety
    /// It is readable.
    pub unsafe fn send(&mut self, message: MemoryRange) -> Result<()> {
        let read = self.word(Word::Read, 1 - self.rank);
        wait(|| Ok(self.written < read.load(Ordering::Acquire) + CHUNKS as u64))?;
        // SAFETY: the caller's contract; the other process has read what was in the chunk, and reads it again when
        // the word says so.
        unsafe { message.copy_to(self.chunk(self.rank, self.written)) };
        self.written += 1;
        let written = self.word(Word::Written, self.rank);
        written.store(self.written, Ordering::Release);
        Ok(())
    }

    /// Copies the next chunk of the other's ring to `message` once it is there.
    ///
    /// # Errors
    /// If it does not come.
    ///
    /// # Safety
    /// It is writable.
    pub unsafe fn receive(&mut self, message: MemoryRange) -> Result<()> {
        let written = self.word(Word::Written, 1 - self.rank);
        wait(|| Ok(written.load(Ordering::Acquire) > self.read))?;
        // SAFETY: the caller's contract; the other writes the chunk again when the word says that it was read.
        unsafe { self.chunk(1 - self.rank, self.read).copy_to(message) };
        self.read += 1;
        let read = self.word(Word::Read, self.rank);
        read.store(self.read, Ordering::Release);
        Ok(())
    }

    /// Where chunk number `index` goes that `rank` sends.
    fn chunk(&self, rank: usize, index: u64) -> MemoryRange {
        let place = rank * CHUNKS + index as usize % CHUNKS;
        self.segment.range().slice(WORDS + place * CHUNK, CHUNK)
    }
}
