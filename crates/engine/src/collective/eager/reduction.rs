//! Eager reductions: vectors that are published, reduced by who is to have the result.

use super::Exchange;
use super::form::{BYTES_MAX, REDUCED_MAX, passes_on};
use crate::EngineError;
use crate::reducer::Reducer;
use crate::run::BlockList;
use ferrorail_base::memory::MemoryRange;
use ferrorail_coll::Collective;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Room for a vector. Operations that a program defined expect it to be aligned.
#[repr(C, align(64))]
pub(super) struct Room<const BYTES: usize>(MaybeUninit<[u8; BYTES]>);

impl<const BYTES: usize> Room<BYTES> {
    pub const EMPTY: Self = Self(MaybeUninit::uninit());

    /// Its first `bytes` bytes.
    #[inline(always)]
    pub fn range(&mut self, bytes: usize) -> MemoryRange {
        assert!(bytes <= BYTES, "room for a vector");
        MemoryRange::new(self.0.as_mut_ptr().cast::<u8>(), bytes)
    }
}

/// Reduces what `operands` are into `dest`, in their order. What operand `index` is `operand` says, which may put it into the
/// room that it is given: one is for the results in between as well, the other for operands behind the first.
///
/// # Safety
/// Operands are readable until the next but one is asked for, `dest` and the rooms writable; `dest` is the first operand or
/// room, or apart from all that is read before the last.
#[inline(always)]
pub(super) unsafe fn reduce_in_order(
    operands: Range<u32>,
    dest: MemoryRange,
    [result, theirs]: [MemoryRange; 2],
    reducer: &Reducer<'_>,
    mut operand: impl FnMut(u32, MemoryRange) -> Result<MemoryRange, EngineError>,
) -> Result<(), EngineError> {
    let last = operands.end - 1;
    // SAFETY: the caller's contract.
    unsafe {
        let mut left = operand(operands.start, result)?;
        for index in operands.start + 1..=last {
            let right = operand(index, theirs)?;
            let into = match index == last && reducer.is_kernel() {
                true => dest,
                false => result,
            };
            reducer.run(left.as_ptr(), right.as_ptr(), into)?;
            left = into;
        }
        if left.address != dest.address {
            left.copy_to(dest);
        }
    }
    Ok(())
}

impl<S: BlockList, R: BlockList, const BY_LENGTH: bool> Exchange<'_, S, R, BY_LENGTH> {
    /// Reduces what is published, or scans.
    ///
    /// # Safety
    /// The contribution is readable, the result writable.
    #[inline(always)]
    pub(super) unsafe fn combine(&mut self, reducer: &Reducer<'_>) -> Result<(), EngineError> {
        // SAFETY: the caller's contract.
        unsafe {
            match self.call.bytes > self.form.inlined {
                true => self.combine_annexed(reducer),
                false => self.combine_in::<BYTES_MAX>(reducer),
            }
        }
    }

    /// As [`Exchange::combine`], with room on the stack that short vectors do without.
    ///
    /// # Safety
    /// As [`Exchange::combine`].
    #[inline(never)]
    unsafe fn combine_annexed(&mut self, reducer: &Reducer<'_>) -> Result<(), EngineError> {
        // SAFETY: the caller's contract.
        unsafe { self.combine_in::<REDUCED_MAX>(reducer) }
    }

    /// # Safety
    /// As [`Exchange::combine`].
    #[inline(always)]
    unsafe fn combine_in<const BYTES: usize>(
        &mut self,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        // SAFETY: the caller's contract.
        unsafe {
            match passes_on(self.call.collective) {
                true => self.scan::<BYTES>(reducer),
                false => self.reduce::<BYTES>(reducer),
            }
        }
    }

    /// Vectors of all ranks reduced in rank order; of vectors with a block for each reader, this
    /// rank's.
    ///
    /// # Safety
    /// As [`Exchange::combine`].
    #[inline(always)]
    unsafe fn reduce<const BYTES: usize>(
        &mut self,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let dest = self.call.recv.block(0);
        let (mut result, mut theirs) = (Room::<BYTES>::EMPTY, Room::<BYTES>::EMPTY);
        let rooms = [result.range(dest.bytes), theirs.range(dest.bytes)];
        let ranks = 0..self.map.topology.size();
        // SAFETY: the rooms are private; the caller vouches for `recv`, which is apart from this rank's contribution or where
        // that is.
        unsafe {
            reduce_in_order(ranks, dest, rooms, reducer, |rank, room| {
                self.operand(rank, room, reducer)
            })
        }
    }

    /// The vector of `rank`: where it is, if it is this rank's or in an annex, else in `room`. Operations of the program
    /// have all in aligned memory of this rank.
    ///
    /// # Safety
    /// `room` is writable.
    #[inline(always)]
    unsafe fn operand(
        &mut self,
        rank: u32,
        room: MemoryRange,
        reducer: &Reducer<'_>,
    ) -> Result<MemoryRange, EngineError> {
        if reducer.is_kernel() {
            if rank == self.map.rank.0 {
                let own = self.call.send.block_of(rank);
                return Ok(own.slice(0, room.bytes));
            }
            if room.bytes > self.form.inlined {
                let index = self.index(rank, self.map.rank.0);
                return self.wait_for_annex(rank, index, room.bytes);
            }
        }
        // SAFETY: the caller's contract.
        unsafe { self.read(rank, room)? };
        Ok(room)
    }

    /// A scan: adds this rank's vector to the reduction of those before and publishes that. The ranks
    /// of a node together read one slot each, where all of those before would be half of them each.
    ///
    /// # Safety
    /// As [`Exchange::combine`].
    #[inline(always)]
    unsafe fn scan<const BYTES: usize>(
        &mut self,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let (rank, size) = (self.map.rank.0, self.map.topology.size());
        let (own, dest) = (self.call.send.block(0), self.call.recv.block(0));
        let (mut before, mut total) = (Room::<BYTES>::EMPTY, Room::<BYTES>::EMPTY);
        let (before, total) = (before.range(dest.bytes), total.range(dest.bytes));
        let is_scan = self.call.collective == Collective::Scan;
        let mut sum = own;
        // SAFETY: the rooms are private; the caller vouches for the others.
        unsafe {
            if rank > 0 {
                self.read(rank - 1, before)?;
                // The last rank of an exclusive scan has nobody to tell.
                if is_scan || rank + 1 < size {
                    reducer.run(before.as_ptr(), own.as_ptr(), total)?;
                    sum = total;
                }
            }
            if rank + 1 < size {
                let slots = self.map.segment().eager_slots(self.map.node_rank);
                let end = self.write(&slots[self.place.slot as usize], rank + 1, sum, 0);
                self.announce(slots, self.place.op, end);
            }
            match is_scan {
                true if sum.address != dest.address => sum.copy_to(dest),
                false if rank > 0 => before.copy_to(dest),
                _ => {}
            }
        }
        Ok(())
    }
}
