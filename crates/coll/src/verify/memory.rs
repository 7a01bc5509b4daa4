//! Token memory that remembers who may still be reading or writing each block.

use super::{Fault, Place, StepId};
use crate::schedule::Buffer;
use ferrorail_base::Rank;

/// One access to a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// The step that began it.
    pub rank: u32,
    /// See `rank`.
    pub step: u32,
    /// One of [`Puts`], or [`LOCAL`].
    pub put: u32,
}

/// [`Access::put`] of what ends with the step that began it.
pub(super) const LOCAL: u32 = u32::MAX;

/// The access that wrote what was there from the beginning.
const BEGINNING: Access = Access {
    rank: 0,
    step: 0,
    put: LOCAL - 1,
};

/// For each put, the (rank, step) that awaited it; no rank ever has done step [`NEVER`].
#[derive(Default)]
pub(super) struct Puts(Vec<(u32, u32)>);

const NEVER: u32 = u32::MAX;

impl Puts {
    /// A put that is not awaited yet.
    pub fn begin(&mut self) -> u32 {
        self.0.push((0, NEVER));
        self.0.len() as u32 - 1
    }

    /// Step `step` of `rank` has awaited `put`.
    pub fn end(&mut self, put: u32, rank: Rank, step: u32) {
        self.0[put as usize] = (rank.0, step);
    }
}

/// What a step knows when it runs.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    /// Its rank's clock.
    pub clock: &'a [u32],
    /// Where puts ended.
    pub puts: &'a Puts,
}

impl Access {
    /// What step `step` of `rank` begins.
    pub fn new(rank: Rank, step: u32, put: u32) -> Self {
        let rank = rank.0;
        Self { rank, step, put }
    }

    /// Whether its end happened before a step that knows `known`.
    fn ended(&self, known: &Known<'_>) -> bool {
        let (rank, step) = match self.put {
            LOCAL => (self.rank, self.step),
            put if put == BEGINNING.put => return true,
            put => known.puts.0[put as usize],
        };
        known.clock[rank as usize] > step
    }

    fn id(&self) -> StepId {
        StepId {
            rank: Rank(self.rank),
            step: self.step as usize,
        }
    }
}

/// One block. Reads since its last write are a list in [`Memory::reads`].
#[derive(Clone, Copy)]
struct Cell {
    token: u32,
    writer: Access,
    /// The latest read, or [`NONE`].
    read: u32,
}

struct Read {
    access: Access,
    /// The one before it, or [`NONE`].
    earlier: u32,
}

/// No token, no read.
const NONE: u32 = u32::MAX;

/// All buffers of all ranks.
#[derive(Default)]
pub(super) struct Memory {
    cells: Vec<Cell>,
    reads: Vec<Read>,
}

/// One buffer of one rank.
#[derive(Clone, Copy)]
pub(super) struct Region {
    rank: Rank,
    buffer: Buffer,
    first: u32,
    blocks: u32,
}

impl Region {
    /// Its owner.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Number of the cell of `block`, which no other block of any region has.
    pub fn cell(&self, block: u32) -> usize {
        assert!(block < self.blocks, "a span lies in its buffer");
        (self.first + block) as usize
    }

    fn place(&self, block: u32) -> Place {
        Place {
            rank: self.rank,
            buffer: self.buffer,
            block,
        }
    }
}

impl Memory {
    /// A buffer of `blocks` undefined blocks.
    pub fn add(&mut self, rank: Rank, buffer: Buffer, blocks: u32) -> Region {
        let first = self.cells.len();
        let undefined = Cell {
            token: NONE,
            writer: BEGINNING,
            read: NONE,
        };
        self.cells.resize(first + blocks as usize, undefined);
        Region {
            rank,
            buffer,
            first: first as u32,
            blocks,
        }
    }

    /// Lets the blocks of `region` from `first` hold `tokens` from the beginning.
    pub fn define(&mut self, region: Region, first: u32, tokens: &[u32]) {
        for (block, &token) in (first..region.blocks).zip(tokens) {
            self.cells[region.cell(block)].token = token;
        }
    }

    /// Begins a read of `block` by a step that knows `known`.
    pub fn read(
        &mut self,
        region: Region,
        block: u32,
        access: Access,
        known: &Known<'_>,
    ) -> Result<u32, Fault> {
        let token = self.look(region, block, known)?;
        let cell = &mut self.cells[region.cell(block)];
        let earlier = std::mem::replace(&mut cell.read, self.reads.len() as u32);
        self.reads.push(Read { access, earlier });
        Ok(token)
    }

    /// What a step that knows `known` finds in `block`, and is about to overwrite.
    pub fn look(&self, region: Region, block: u32, known: &Known<'_>) -> Result<u32, Fault> {
        let cell = &self.cells[region.cell(block)];
        if !cell.writer.ended(known) {
            return Err(Fault::ReadInFlight {
                place: region.place(block),
                writer: cell.writer.id(),
            });
        }
        if cell.token == NONE {
            return Err(Fault::Undefined(region.place(block)));
        }
        Ok(cell.token)
    }

    /// Begins a write of `token` by a step that knows `known`.
    pub fn write(
        &mut self,
        region: Region,
        block: u32,
        token: u32,
        access: Access,
        known: &Known<'_>,
    ) -> Result<(), Fault> {
        let cell = &mut self.cells[region.cell(block)];
        if !cell.writer.ended(known) {
            return Err(Fault::WriteWhileWritten {
                place: region.place(block),
                writer: cell.writer.id(),
            });
        }
        let (mut first, mut next) = (None, cell.read);
        while next != NONE {
            let read = &self.reads[next as usize];
            if !read.access.ended(known) {
                first = Some(read.access.id());
            }
            next = read.earlier;
        }
        if let Some(reader) = first {
            let place = region.place(block);
            return Err(Fault::WriteWhileRead { place, reader });
        }
        *cell = Cell {
            token,
            writer: access,
            read: NONE,
        };
        Ok(())
    }

    /// What `block` holds.
    pub fn token(&self, region: Region, block: u32) -> Option<u32> {
        let token = self.cells[region.cell(block)].token;
        (token != NONE).then_some(token)
    }
}
