//! Token memory that remembers who may still be reading or writing each block.

use super::{Fault, Place, StepId};
use crate::schedule::Buffer;
use ferrorail_base::Rank;

/// What a rank knows: for every rank, how many of its steps happened before.
pub(super) type Clock = Vec<u32>;

/// Makes `clock` know all that `other` knows.
pub(super) fn join(clock: &mut Clock, other: &Clock) {
    for (mine, &theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(theirs);
    }
}

/// One access to a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// The step that began it.
    pub rank: u32,
    /// See `rank`.
    pub step: u32,
    /// Index in [`Puts`], or [`LOCAL`].
    pub put: u32,
}

/// [`Access::put`] of what ends with the step that began it.
pub(super) const LOCAL: u32 = u32::MAX;

/// For each put, the (rank, step) that awaited it.
pub(super) type Puts = Vec<Option<(u32, u32)>>;

impl Access {
    /// Whether its end happened before a step that knows `clock`.
    fn ended(&self, clock: &Clock, puts: &Puts) -> bool {
        let end = match self.put {
            LOCAL => Some((self.rank, self.step)),
            put => puts[put as usize],
        };
        end.is_some_and(|(rank, step)| clock[rank as usize] > step)
    }

    fn id(&self) -> StepId {
        StepId {
            rank: Rank(self.rank),
            step: self.step as usize,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Cell {
    token: Option<u32>,
    writer: Option<Access>,
    /// Reads since that write.
    readers: Vec<Access>,
}

/// One buffer of one rank.
#[derive(Debug)]
pub(super) struct Memory {
    rank: Rank,
    buffer: Buffer,
    cells: Vec<Cell>,
}

impl Memory {
    /// `blocks` undefined blocks.
    pub fn undefined(rank: Rank, buffer: Buffer, blocks: u32) -> Self {
        Self {
            rank,
            buffer,
            cells: vec![Cell::default(); blocks as usize],
        }
    }

    /// Blocks that hold `tokens` from the beginning.
    pub fn defined(rank: Rank, buffer: Buffer, tokens: &[u32]) -> Self {
        let mut memory = Self::undefined(rank, buffer, tokens.len() as u32);
        memory.define(0, tokens);
        memory
    }

    /// Lets the blocks from `first` hold `tokens` from the beginning.
    pub fn define(&mut self, first: u32, tokens: &[u32]) {
        for (cell, &token) in self.cells[first as usize..].iter_mut().zip(tokens) {
            cell.token = Some(token);
        }
    }

    fn place(&self, block: u32) -> Place {
        Place {
            rank: self.rank,
            buffer: self.buffer,
            block,
        }
    }

    /// Its owner.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Begins a read of `block` by a step that knows `clock`.
    pub fn read(
        &mut self,
        block: u32,
        access: Access,
        clock: &Clock,
        puts: &Puts,
    ) -> Result<u32, Fault> {
        let token = self.look(block, clock, puts)?;
        self.cells[block as usize].readers.push(access);
        Ok(token)
    }

    /// What a step that knows `clock` finds in `block`, and is about to overwrite.
    pub fn look(&self, block: u32, clock: &Clock, puts: &Puts) -> Result<u32, Fault> {
        let place = self.place(block);
        let cell = &self.cells[block as usize];
        if let Some(writer) = cell.writer.filter(|writer| !writer.ended(clock, puts)) {
            return Err(Fault::ReadInFlight {
                place,
                writer: writer.id(),
            });
        }
        cell.token.ok_or(Fault::Undefined(place))
    }

    /// Begins a write of `token` by a step that knows `clock`.
    pub fn write(
        &mut self,
        block: u32,
        token: u32,
        access: Access,
        clock: &Clock,
        puts: &Puts,
    ) -> Result<(), Fault> {
        let place = self.place(block);
        let cell = &mut self.cells[block as usize];
        if let Some(writer) = cell.writer.filter(|writer| !writer.ended(clock, puts)) {
            return Err(Fault::WriteWhileWritten {
                place,
                writer: writer.id(),
            });
        }
        if let Some(reader) = cell.readers.iter().find(|r| !r.ended(clock, puts)) {
            return Err(Fault::WriteWhileRead {
                place,
                reader: reader.id(),
            });
        }
        cell.readers.clear();
        cell.token = Some(token);
        cell.writer = Some(access);
        Ok(())
    }

    /// What `block` holds.
    pub fn token(&self, block: u32) -> Option<u32> {
        self.cells[block as usize].token
    }
}
