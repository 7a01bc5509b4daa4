//! What a collective of two ranks has to copy, by a plain loop: how long it takes at least.

use super::ring::{CHUNK, Rings};
use crate::bench::buffers::{Buffers, Pool};
use crate::bench::mode::Reuse;
use anyhow::{Context, Result};
use ferrorail_base::memory::MemoryRange;
use ferrorail_engine::raw::Cma;
use std::time::{Duration, Instant};

/// Lengths of messages, in bytes.
pub const SIZES: [usize; 2] = [1 << 20, 4 << 20];

/// The messages of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Of one.
    pub bytes: usize,
    /// Whether each is another one, as in cells with [`Reuse::Rotating`], or the same every time.
    pub rotate: bool,
}

impl Messages {
    /// The longest of [`SIZES`] that are no longer than `bytes`, in buffers like those of a cell with `reuse`.
    pub fn like(bytes: usize, reuse: Reuse) -> Option<Self> {
        Some(Self {
            bytes: SIZES.into_iter().rfind(|&size| size <= bytes)?,
            rotate: reuse != Reuse::Warm,
        })
    }

    /// As `--buffers` names them.
    pub fn buffers(self) -> &'static str {
        match self.rotate {
            true => "rotating",
            false => "warm",
        }
    }
}

/// A collective of two ranks, and how data gets from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// Rank 0 copies into its ring, rank 1 out of it.
    BcastRing,
    /// Each has the system copy one half out of the other's memory.
    BcastAttach,
    /// Both copy into their rings, and the other's out, and their own block to its place.
    AllgatherRings,
    /// Both have the system copy the other's block out of its memory, and copy their own to its place.
    AllgatherAttach,
    /// As an all-gather, with a block for the other that is not their own.
    AlltoallRings,
    /// Likewise.
    AlltoallAttach,
}

impl Loop {
    pub const ALL: [Self; 6] = [
        Self::BcastRing,
        Self::BcastAttach,
        Self::AllgatherRings,
        Self::AllgatherAttach,
        Self::AlltoallRings,
        Self::AlltoallAttach,
    ];

    /// In JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::BcastRing => "bcast_ring",
            Self::BcastAttach => "bcast_cross_memory",
            Self::AllgatherRings => "allgather_rings",
            Self::AllgatherAttach => "allgather_cross_memory",
            Self::AlltoallRings => "alltoall_rings",
            Self::AlltoallAttach => "alltoall_cross_memory",
        }
    }

    /// For readers.
    pub fn what(self) -> &'static str {
        match self {
            Self::BcastRing => "broadcast through a ring",
            Self::BcastAttach => "broadcast by cross-memory attach",
            Self::AllgatherRings => "all-gather through rings",
            Self::AllgatherAttach => "all-gather by cross-memory attach",
            Self::AlltoallRings => "all-to-all through rings",
            Self::AlltoallAttach => "all-to-all by cross-memory attach",
        }
    }

    /// Whether it needs to read the other's memory.
    pub fn attaches(self) -> bool {
        matches!(
            self,
            Self::BcastAttach | Self::AllgatherAttach | Self::AlltoallAttach
        )
    }

    /// The collective that has to copy as much.
    pub fn collective(self) -> &'static str {
        match self {
            Self::BcastRing | Self::BcastAttach => "bcast",
            Self::AllgatherRings | Self::AllgatherAttach => "allgather",
            Self::AlltoallRings | Self::AlltoallAttach => "alltoall",
        }
    }

    /// Of a call's buffers, as the benchmark's cells have them.
    fn lengths(self, bytes: usize) -> (usize, usize) {
        match self {
            Self::BcastRing | Self::BcastAttach => (0, bytes),
            Self::AllgatherRings | Self::AllgatherAttach => (bytes, 2 * bytes),
            Self::AlltoallRings | Self::AlltoallAttach => (2 * bytes, 2 * bytes),
        }
    }
}

/// One rank's messages.
pub struct Memory {
    pool: Pool,
    rank: usize,
    /// The other's, once it is known that they can be read: where its pool begins.
    remote: Option<(Cma, usize)>,
    /// Messages so far.
    turns: usize,
}

impl Memory {
    /// All bytes of rank 0 are 1, those of rank 1 are 2.
    pub fn new(rank: usize) -> Self {
        let longest = SIZES[SIZES.len() - 1];
        let mut pool = Pool::new(Loop::AlltoallRings.lengths(longest));
        pool.fill(Self::byte(rank));
        Self {
            pool,
            rank,
            remote: None,
            turns: 0,
        }
    }

    fn byte(rank: usize) -> u8 {
        rank as u8 + 1
    }

    /// Where the messages begin.
    pub fn start(&mut self) -> usize {
        self.pool.buffers((0, 0)).pair(0).0 as usize
    }

    /// Whether the messages can be read that begin at `start` in the other's memory.
    pub fn reach(&mut self, cma: Cma, start: usize) -> bool {
        let expected = u64::from_ne_bytes([Self::byte(1 - self.rank); size_of::<u64>()]);
        let reaches = cma.reads(start as u64, expected);
        self.remote = reaches.then_some((cma, start));
        reaches
    }

    /// The buffers of messages as `which` has them.
    fn buffers(&mut self, which: Loop, messages: Messages) -> Buffers<'_> {
        let buffers = self.pool.buffers(which.lengths(messages.bytes));
        match messages.rotate {
            true => buffers,
            false => buffers.first(),
        }
    }

    /// Runs `which` `times` times, while the other does.
    ///
    /// # Errors
    /// The system's; if the other's memory is needed and not known to be readable.
    pub fn copy(
        &mut self,
        rings: &mut Rings,
        (which, messages): (Loop, Messages),
        times: usize,
    ) -> Result<Duration> {
        let (rank, bytes, remote) = (self.rank, messages.bytes, self.remote);
        let (first, own_start) = (self.turns, self.start());
        self.turns += times;
        let mut buffers = self.buffers(which, messages);
        let start = Instant::now();
        for turn in first..first + times {
            let (sent, received) = ranges(&mut buffers, turn, which.lengths(bytes));
            let block = |range: MemoryRange, of: usize| range.slice(of * bytes, bytes);
            // An all-gather has one block for both.
            let sent_to = |to: usize| block(sent, if sent.bytes > bytes { to } else { 0 });
            let exchange = || Exchange {
                own: sent_to(rank),
                sent: sent_to(1 - rank),
                kept: block(received, rank),
                received: block(received, 1 - rank),
            };
            // Of what lies at `there` in this rank's pool, or did if it were the other's.
            let read = |there: MemoryRange, into: MemoryRange| {
                let (cma, start) = remote.context("the other's memory")?;
                let address = start + (there.address - own_start);
                // SAFETY: nobody else has this process's buffer.
                unsafe { cma.read(address as u64, into) }.map_err(anyhow::Error::from)
            };
            match which {
                Loop::BcastRing => through_ring(rings, rank, received)?,
                Loop::BcastAttach => {
                    let half = received.slice((1 - rank) * (bytes / 2), bytes / 2);
                    read(half, half)?;
                }
                // SAFETY: the blocks lie apart in this process's buffers.
                Loop::AllgatherRings | Loop::AlltoallRings => unsafe {
                    through_rings(rings, exchange())?;
                },
                Loop::AllgatherAttach | Loop::AlltoallAttach => {
                    let exchange = exchange();
                    // SAFETY: as above.
                    unsafe { exchange.own.copy_to(exchange.kept) };
                    // What the other has for this rank lies where this rank has its own.
                    read(exchange.own, exchange.received)?;
                }
            }
        }
        Ok(start.elapsed())
    }

    /// What each call's buffer has received, as runs of equal bytes: the byte, and how many.
    #[cfg(test)]
    pub fn runs(&mut self, which: Loop, messages: Messages) -> Vec<Vec<(u8, usize)>> {
        let mut buffers = self.buffers(which, messages);
        let of_call = |call| {
            let (_, received) = buffers.slices(call);
            let runs = received.chunk_by(|a, b| a == b);
            runs.map(|run| (run[0], run.len())).collect()
        };
        (0..3).map(of_call).collect()
    }
}

/// The buffers of call number `turn`.
fn ranges(
    buffers: &mut Buffers<'_>,
    turn: usize,
    (send, recv): (usize, usize),
) -> (MemoryRange, MemoryRange) {
    let (sent, received) = buffers.pair(turn);
    (
        MemoryRange::new(sent, send),
        MemoryRange::new(received, recv),
    )
}

fn through_ring(rings: &mut Rings, rank: usize, message: MemoryRange) -> Result<()> {
    for offset in (0..message.bytes).step_by(CHUNK) {
        let chunk = message.slice(offset, CHUNK);
        // SAFETY: a chunk of this process's buffer.
        unsafe {
            match rank {
                0 => rings.send(chunk)?,
                _ => rings.receive(chunk)?,
            }
        }
    }
    Ok(())
}

/// The blocks of a rank in an exchange of two.
struct Exchange {
    /// Its own, and the place for it.
    own: MemoryRange,
    kept: MemoryRange,
    /// The one for the other, and the place for the other's.
    sent: MemoryRange,
    received: MemoryRange,
}

/// # Safety
/// What it sends is readable, what it receives writable and apart from that.
unsafe fn through_rings(rings: &mut Rings, exchange: Exchange) -> Result<()> {
    for offset in (0..exchange.sent.bytes).step_by(CHUNK) {
        let chunk = |block: MemoryRange| block.slice(offset, CHUNK);
        // SAFETY: the caller's contract.
        unsafe {
            rings.send(chunk(exchange.sent))?;
            chunk(exchange.own).copy_to(chunk(exchange.kept));
            rings.receive(chunk(exchange.received))?;
        }
    }
    Ok(())
}
