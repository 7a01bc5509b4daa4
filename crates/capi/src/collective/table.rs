//! The blocks of a vector form: what the program lists, and the plain bytes that the engine sees.

use super::side::{collect, overlap};
use super::{Args, Buffer, Refusal, Table};
use crate::datatype::{self, Elements, Packed};
use crate::error::CallError;
use crate::runtime::Session;
use ferrorail_base::memory;
use ferrorail_engine::{Block, Team};
use libc::{c_int, c_void};
use std::cell::Cell;
use std::ops::Range;

thread_local! {
    /// Lists of blocks to use again: at most one per side.
    static LISTS: [Cell<Vec<Block>>; 2] = const { [const { Cell::new(Vec::new()) }; 2] };
}

/// A list from the thread's, cleared, with room for `length` blocks.
fn take_list(length: usize) -> Result<Vec<Block>, CallError> {
    let mut list = LISTS.with(|[first, second]| {
        let mut list = first.take();
        if list.capacity() == 0 {
            list = second.take();
        }
        list.clear();
        list
    });
    memory::reserve(&mut list, length)?;
    Ok(list)
}

fn give_list(list: Vec<Block>) {
    LISTS.with(|[first, second]| {
        let other = first.replace(list);
        if other.capacity() != 0 {
            second.set(other);
        }
    });
}

/// The program's blocks, an entry per rank of the team.
pub struct Rows {
    /// The first block's type and layout; no elements.
    origin: Elements,
    table: Table,
    ranks: usize,
}

impl Rows {
    /// Checks a buffer with its table.
    ///
    /// # Safety
    /// The table's arrays have an entry per rank of `team`.
    pub unsafe fn check(
        session: &Session,
        team: &Team,
        buffer: &Buffer,
        table: &Table,
    ) -> Result<Self, Refusal> {
        let datatype = session.host().datatype(buffer.datatype);
        let layout = datatype::layout(session, datatype).ok_or(Refusal::Invalid)?;
        if table.counts.is_null() || table.displacements.is_null() {
            return Err(Refusal::Invalid);
        }
        let origin = Elements {
            address: buffer.address.cast(),
            count: 0,
            datatype,
            layout,
        };
        let rows = Self {
            origin,
            table: *table,
            ranks: team.size() as usize,
        };
        let mut total = Some(0usize);
        for rank in 0..rows.ranks {
            // SAFETY: the caller's contract.
            let count =
                usize::try_from(unsafe { rows.count(rank) }).map_err(|_| Refusal::Invalid)?;
            let bytes = rows.origin.layout.bytes.checked_mul(count);
            total = total.zip(bytes).and_then(|(a, b)| a.checked_add(b));
        }
        total.ok_or(CallError::TooMuch)?;
        if (0..rows.ranks).any(|rank| rows.row(rank).is_absent()) {
            return Err(Refusal::Invalid);
        }
        Ok(rows)
    }

    /// # Safety
    /// The arrays have an entry for `rank`.
    unsafe fn count(&self, rank: usize) -> i64 {
        // SAFETY: the caller's contract.
        unsafe { entry(self.table.counts, rank, self.table.large) }
    }

    /// The elements of the block of `rank`.
    pub fn row(&self, rank: usize) -> Elements {
        // SAFETY: checked when made: the arrays have an entry per rank.
        let (count, displacement) = unsafe {
            let displacements = self.table.displacements;
            (
                self.count(rank),
                entry(displacements, rank, self.table.large),
            )
        };
        let offset = self
            .origin
            .layout
            .extent()
            .wrapping_mul(displacement as isize);
        Elements {
            address: self.origin.address.wrapping_offset(offset),
            count: count as usize,
            ..self.origin.clone()
        }
    }

    /// Bytes of the block of `rank`.
    pub fn bytes(&self, rank: usize) -> usize {
        // SAFETY: checked when made: the arrays have an entry per rank.
        self.origin.layout.bytes * unsafe { self.count(rank) } as usize
    }

    /// Bytes of all blocks.
    fn total(&self) -> usize {
        (0..self.ranks).map(|rank| self.bytes(rank)).sum()
    }

    /// Where blocks lie as plain bytes: in the program's memory, or one after the other.
    fn blocks(&self, dense: Option<*mut u8>) -> Result<Vec<Block>, CallError> {
        let mut list = take_list(self.ranks)?;
        let mut next = 0;
        list.extend((0..self.ranks).map(|rank| {
            let bytes = self.bytes(rank);
            let offset = match dense.and(self.row(rank).dense()) {
                Some(address) => (address as isize).wrapping_sub(self.origin.address as isize),
                None => next as isize,
            };
            next += bytes;
            Block { offset, bytes }
        }));
        Ok(list)
    }

    /// Addresses that the blocks span, if they are plain bytes in the program's memory.
    fn bounds(&self) -> Range<usize> {
        let rows = (0..self.ranks).map(|rank| self.row(rank));
        let ranges = rows.filter_map(|row| Some(row.range(row.dense()?)));
        let used = ranges.filter(|range| !range.is_empty());
        used.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
            .unwrap_or(0..0)
    }
}

/// # Safety
/// `array` has an entry `index`, of 64 bits if `large`.
unsafe fn entry(array: *const c_void, index: usize, large: bool) -> i64 {
    // SAFETY: the caller's contract.
    unsafe {
        match large {
            true => array.cast::<i64>().add(index).read(),
            false => array.cast::<c_int>().add(index).read().into(),
        }
    }
}

/// Plain bytes of a table's blocks: the program's own memory, or packed one after the other.
pub struct Blocks {
    base: *mut u8,
    list: Vec<Block>,
    packed: Option<Packed>,
}

impl Blocks {
    /// To be received into: [`Blocks::finish`] brings what arrived to the program's elements.
    pub fn to_receive(rows: &Rows) -> Result<Self, CallError> {
        match rows.origin.dense() {
            Some(address) => Ok(Self {
                base: rows.origin.address,
                list: rows.blocks(Some(address))?,
                packed: None,
            }),
            None => Self::packed(rows),
        }
    }

    fn packed(rows: &Rows) -> Result<Self, CallError> {
        let mut packed = Packed::new(rows.total())?;
        Ok(Self {
            base: packed.as_mut_ptr(),
            list: rows.blocks(None)?,
            packed: Some(packed),
        })
    }

    /// To be sent. They are copied if they have gaps or lie in `output`, which is wrong, but hosts
    /// that do not check send what was there before.
    ///
    /// # Safety
    /// The elements are readable.
    pub unsafe fn to_send(
        session: &Session,
        rows: &Rows,
        output: Range<usize>,
    ) -> Result<Self, CallError> {
        match rows.origin.dense() {
            Some(_) if !overlap(&rows.bounds(), &output) => Self::to_receive(rows),
            // SAFETY: the caller's contract.
            _ => unsafe { Self::copied(session, rows) },
        }
    }

    /// A copy, to be sent.
    ///
    /// # Safety
    /// The elements are readable.
    pub unsafe fn copied(session: &Session, rows: &Rows) -> Result<Self, CallError> {
        let copy = Self::packed(rows)?;
        for rank in 0..rows.ranks {
            // SAFETY: the caller's contract; the copy has room.
            unsafe { collect(session, &rows.row(rank), copy.address(rank))? };
        }
        Ok(copy)
    }

    /// What offsets count from.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Where the blocks lie.
    pub fn list(&self) -> &[Block] {
        &self.list
    }

    /// First byte of the block of `rank`.
    pub fn address(&self, rank: usize) -> *mut u8 {
        self.base.wrapping_offset(self.list[rank].offset)
    }

    /// Where the program's bytes will be written during the call.
    pub fn range(&self, rows: &Rows) -> Range<usize> {
        match self.packed {
            None => rows.bounds(),
            Some(_) => 0..0,
        }
    }

    /// Makes the data that is in the program's block of `rank` part of the bytes.
    ///
    /// # Safety
    /// The block is readable.
    pub unsafe fn keep(
        &self,
        session: &Session,
        rows: &Rows,
        rank: usize,
    ) -> Result<(), CallError> {
        if self.packed.is_some() {
            // SAFETY: the caller's contract; the block has room.
            unsafe { collect(session, &rows.row(rank), self.address(rank))? };
        }
        Ok(())
    }

    /// Brings what was received to the program's elements; gaps keep their bytes.
    ///
    /// # Safety
    /// The elements are writable, all bytes were received.
    pub unsafe fn finish(self, session: &Session, rows: &Rows) -> Result<(), CallError> {
        if self.packed.is_some() {
            for rank in 0..rows.ranks {
                // SAFETY: the caller's contract.
                unsafe { rows.row(rank).unpack(session, self.address(rank))? };
            }
        }
        Ok(())
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        give_list(std::mem::take(&mut self.list));
    }
}

/// Lengths of blocks that lie one after another, as plain bytes from offset 0 on.
pub struct Consecutive {
    list: Vec<Block>,
    elements: usize,
}

impl Consecutive {
    /// Checks the counts of `args.recv_table`, of elements of `bytes` bytes.
    ///
    /// # Safety
    /// The array has an entry per rank of `team`.
    pub unsafe fn check(team: &Team, args: &Args, bytes: usize) -> Result<Self, Refusal> {
        let table = &args.recv_table;
        if table.counts.is_null() {
            return Err(Refusal::Invalid);
        }
        let mut all = Self {
            list: take_list(team.size() as usize)?,
            elements: 0,
        };
        for rank in 0..team.size() as usize {
            // SAFETY: the caller's contract.
            let count = unsafe { entry(table.counts, rank, table.large) };
            let count = usize::try_from(count).map_err(|_| Refusal::Invalid)?;
            let end = all.elements.checked_add(count);
            let end = end.filter(|&end| {
                let reach = bytes.checked_mul(end);
                reach.is_some_and(|reach| isize::try_from(reach).is_ok())
            });
            all.list.push(Block {
                offset: (all.elements * bytes) as isize,
                bytes: count.wrapping_mul(bytes),
            });
            all.elements = end.ok_or(CallError::TooMuch)?;
        }
        Ok(all)
    }

    /// Where the blocks lie.
    pub fn list(&self) -> &[Block] {
        &self.list
    }

    /// Elements of all blocks.
    pub fn elements(&self) -> usize {
        self.elements
    }
}

impl Drop for Consecutive {
    fn drop(&mut self) {
        give_list(std::mem::take(&mut self.list));
    }
}
