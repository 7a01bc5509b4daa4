//! The blocks of a vector form: what the program lists, and the plain bytes that the engine sees.

use super::list::{List, list_blocks, make_room};
use super::plain::overlap;
use super::typed::list_each;
use super::{Buffer, Refusal, Table};
use crate::datatype::{self, Elements, Layout, Packed, is_absent};
use crate::error::CallError;
use crate::session::Session;
use ferrorail_engine::{Block, Team};
use libc::{c_int, c_void};
use std::ops::Range;

impl Table {
    /// Whether an array is missing.
    #[inline]
    pub(super) fn is_absent(&self) -> bool {
        self.counts.is_null() || self.displacements.is_null()
    }

    /// # Safety
    /// The array of counts has an entry `index`.
    #[inline]
    pub(super) unsafe fn count(&self, index: usize) -> i64 {
        // SAFETY: the caller's contract.
        unsafe { entry(self.counts, index, self.large) }
    }

    /// # Safety
    /// The array of displacements has an entry `index`.
    #[inline]
    pub(super) unsafe fn displacement(&self, index: usize) -> i64 {
        // SAFETY: the caller's contract.
        unsafe { entry(self.displacements, index, self.large_displacements) }
    }

    /// Names copies, which are returned, of the first `entries` of its arrays.
    ///
    /// # Safety
    /// They have as many.
    pub(super) unsafe fn detach(&mut self, entries: usize) -> [Vec<i64>; 2] {
        let arrays = [
            (self.counts, self.large),
            (self.displacements, self.large_displacements),
        ];
        let copied = arrays.map(|(array, large)| {
            let all = 0..if array.is_null() { 0 } else { entries };
            // SAFETY: the caller's contract.
            all.map(|index| unsafe { entry(array, index, large) })
                .collect::<Vec<i64>>()
        });
        for (array, copy) in [&mut self.counts, &mut self.displacements]
            .into_iter()
            .zip(&copied)
        {
            if !array.is_null() {
                *array = copy.as_ptr().cast();
            }
        }
        (self.large, self.large_displacements) = (true, true);
        copied
    }
}

/// # Safety
/// `array` has an entry `index`, of 64 bits if `large`.
#[inline]
unsafe fn entry(array: *const c_void, index: usize, large: bool) -> i64 {
    // SAFETY: the caller's contract.
    unsafe {
        match large {
            true => array.cast::<i64>().add(index).read(),
            false => array.cast::<c_int>().add(index).read().into(),
        }
    }
}

/// The program's blocks, an entry per rank of the team, as plain bytes: in the program's memory, or packed
/// one after the other.
pub struct Blocks {
    buffer: Buffer,
    table: Table,
    rows: Rows,
    base: *mut u8,
    list: List,
    /// Addresses of the program that the list's blocks span, if they are plain bytes there.
    range: Range<usize>,
    packed: Option<Packed>,
}

/// What the blocks are of.
enum Rows {
    /// Elements of one type: the first block's type and layout; no elements.
    Alike(Elements),
    /// A type for each.
    Each(Vec<Elements>),
}

impl Rows {
    /// Whether all blocks are plain bytes.
    #[inline]
    fn are_dense(&self) -> bool {
        match self {
            Self::Alike(origin) => origin.layout.dense_at().is_some(),
            Self::Each(each) => each.iter().all(|elements| elements.dense().is_some()),
        }
    }
}

impl Blocks {
    /// A buffer with its table, at which nobody has looked: [`Blocks::check`] follows.
    #[inline]
    pub fn new(session: &Session, buffer: &Buffer, table: &Table) -> Self {
        let origin = Elements {
            address: buffer.address.cast(),
            count: 0,
            datatype: session.host().datatype(buffer.datatype),
            layout: Layout::plain(0),
        };
        Self::with_rows(buffer, table, Rows::Alike(origin))
    }

    /// As [`Blocks::new`], of a buffer whose type is the address of an array with a type for each block.
    pub fn typed(buffer: &Buffer, table: &Table) -> Self {
        Self::with_rows(buffer, table, Rows::Each(Vec::new()))
    }

    #[inline]
    fn with_rows(buffer: &Buffer, table: &Table, rows: Rows) -> Self {
        Self {
            buffer: *buffer,
            table: *table,
            rows,
            base: buffer.address.cast(),
            list: List::new(),
            range: 0..0,
            packed: None,
        }
    }

    /// Checks the buffer and its table, and lists the blocks.
    /// [`Blocks::prepare_input`] follows, unless it is [`Blocks::check_output`].
    ///
    /// # Safety
    /// The table's arrays have an entry per rank of `team`, and so has that of types.
    #[inline]
    pub unsafe fn check(&mut self, session: &Session, team: &Team) -> Result<(), Refusal> {
        let (ranks, table) = (team.size(), &self.table);
        let origin = match &mut self.rows {
            Rows::Alike(origin) => origin,
            Rows::Each(each) => {
                // SAFETY: the caller's contract.
                (*each, self.range) =
                    unsafe { list_each(&mut self.list, session, &self.buffer, table, ranks)? };
                return Ok(());
            }
        };
        origin.layout = datatype::layout(session, origin.datatype).ok_or(Refusal::Invalid)?;
        let (address, layout) = (origin.address.cast(), &origin.layout);
        // SAFETY: the caller's contract.
        let listed = unsafe { list_blocks(&mut self.list, address, layout, table, ranks)? };
        if listed.negative {
            return Err(Refusal::Invalid);
        }
        if listed.too_much {
            return Err(Refusal::from(CallError::TooMuch));
        }
        if is_absent(listed.lowest) {
            return Err(Refusal::Invalid);
        }
        self.range = listed.span;
        Ok(())
    }

    /// The elements of the block of `rank`.
    pub fn row(&self, rank: usize) -> Elements {
        assert!(rank < self.list.len(), "a block per rank");
        let origin = match &self.rows {
            Rows::Alike(origin) => origin,
            Rows::Each(each) => return each[rank].clone(),
        };
        // SAFETY: checked: the arrays have an entry per rank.
        let (count, displacement) =
            unsafe { (self.table.count(rank), self.table.displacement(rank)) };
        origin.some(displacement, count as usize)
    }

    /// Bytes of the block of `rank`.
    #[inline]
    pub fn bytes(&self, rank: usize) -> usize {
        self.list[rank].bytes
    }

    /// Whether all blocks are plain bytes where the program has them. They were checked.
    #[inline]
    pub fn are_dense(&self) -> bool {
        self.rows.are_dense()
    }

    /// The block of `rank` has no bytes here: the caller moves its elements.
    pub fn leave_out(&mut self, rank: usize) {
        self.list[rank].bytes = 0;
    }

    /// The ranks whose blocks have bytes here.
    fn ranks(&self) -> impl Iterator<Item = usize> {
        (0..self.list.len()).filter(|&rank| self.list[rank].bytes != 0)
    }

    /// [`Blocks::check`] of what is received into: [`Blocks::finish`] then brings what arrived to the program's
    /// elements.
    ///
    /// # Safety
    /// As [`Blocks::check`].
    #[inline]
    pub unsafe fn check_output(&mut self, session: &Session, team: &Team) -> Result<(), Refusal> {
        // SAFETY: the caller's contract.
        unsafe { self.check(session, team)? };
        match self.are_dense() {
            true => Ok(()),
            false => Ok(self.pack()?),
        }
    }

    /// Before they are sent. They are copied if they have gaps or lie in `output`, which is wrong, but hosts
    /// that do not check send what was there before.
    ///
    /// # Safety
    /// The elements are readable.
    #[inline]
    pub unsafe fn prepare_input(
        &mut self,
        session: &Session,
        output: &Range<usize>,
    ) -> Result<(), CallError> {
        match self.are_dense() {
            true if !overlap(&self.range, output) => Ok(()),
            // SAFETY: the caller's contract.
            _ => unsafe { self.copy(session) },
        }
    }

    /// Has a copy sent.
    ///
    /// # Safety
    /// The elements are readable.
    #[cold]
    pub unsafe fn copy(&mut self, session: &Session) -> Result<(), CallError> {
        self.pack()?;
        for rank in self.ranks() {
            // SAFETY: the caller's contract; the copy has room.
            unsafe { self.row(rank).pack(session, self.address(rank))? };
        }
        Ok(())
    }

    /// Has the blocks lie one after the other in memory of their own.
    #[cold]
    fn pack(&mut self) -> Result<(), CallError> {
        let mut next = 0;
        for block in &mut self.list {
            block.offset = next as isize;
            next += block.bytes;
        }
        let packed = self.packed.insert(Packed::new(next)?);
        self.base = packed.as_mut_ptr();
        self.range = 0..0;
        Ok(())
    }

    /// What offsets count from.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Where the blocks lie.
    #[inline]
    pub fn list(&self) -> &[Block] {
        &self.list
    }

    /// First byte of the block of `rank`.
    #[inline]
    pub fn address(&self, rank: usize) -> *mut u8 {
        self.base.wrapping_offset(self.list[rank].offset)
    }

    /// Where the program's bytes will be written during the call.
    #[inline]
    pub fn range(&self) -> &Range<usize> {
        &self.range
    }

    /// Makes the data that is in the program's block of `rank` part of the bytes.
    ///
    /// # Safety
    /// The block is readable.
    pub unsafe fn keep(&self, session: &Session, rank: usize) -> Result<(), CallError> {
        if self.packed.is_some() {
            // SAFETY: the caller's contract; the block has room.
            unsafe { self.row(rank).pack(session, self.address(rank))? };
        }
        Ok(())
    }

    /// Brings what was received to the program's elements; gaps keep their bytes.
    ///
    /// # Safety
    /// The elements are writable, all bytes were received.
    #[inline]
    pub unsafe fn finish(&self, session: &Session) -> Result<(), CallError> {
        match self.packed {
            // SAFETY: the caller's contract.
            Some(_) => unsafe { self.unpack(session) },
            None => Ok(()),
        }
    }

    /// # Safety
    /// As [`Blocks::finish`].
    #[cold]
    unsafe fn unpack(&self, session: &Session) -> Result<(), CallError> {
        for rank in self.ranks() {
            // SAFETY: the caller's contract.
            unsafe { self.row(rank).unpack(session, self.address(rank))? };
        }
        Ok(())
    }
}

/// Lengths of blocks that lie one after another, as plain bytes from offset 0 on.
pub struct Consecutive {
    list: List,
    elements: usize,
}

impl Consecutive {
    /// Checks the counts of `table`, of elements of `bytes` bytes.
    ///
    /// # Safety
    /// The array has an entry per rank of `team`.
    pub unsafe fn check(team: &Team, table: &Table, bytes: usize) -> Result<Self, Refusal> {
        if table.counts.is_null() {
            return Err(Refusal::Invalid);
        }
        let mut all = Self {
            list: List::new(),
            elements: 0,
        };
        make_room(&mut all.list, team.size() as usize)?;
        for rank in 0..team.size() as usize {
            // SAFETY: the caller's contract.
            let count = unsafe { table.count(rank) };
            let count = usize::try_from(count).map_err(|_| Refusal::Invalid)?;
            let end = all.elements.checked_add(count);
            let end = end.filter(|&end| {
                let reach = bytes.checked_mul(end);
                reach.is_some_and(|reach| isize::try_from(reach).is_ok())
            });
            let end = end.ok_or(CallError::TooMuch)?;
            all.list.push(Block {
                offset: (all.elements * bytes) as isize,
                bytes: count * bytes,
            });
            all.elements = end;
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
