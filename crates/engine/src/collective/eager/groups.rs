//! All-reduces of ranks that share cores: the last of a group to come reduces the vectors of all of it, and each rank reduces
//! one vector of each group. So nobody but one reads what a rank has published, most often on the same core.

use super::Exchange;
use super::reduction::{Room, reduce_in_order};
use super::wait::wait_until;
use crate::EngineError;
use crate::reducer::Reducer;
use crate::run::BlockList;
use crate::tag::group_values;
use ferrorail_base::NodeRank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_coll::EvenParts;
use ferrorail_shm::layout::LINE;
use ferrorail_shm::{EagerGroup, ScratchKind, copy_out_of_shared};
use std::ops::Range;

impl<S: BlockList, R: BlockList, const BY_LENGTH: bool> Exchange<'_, S, R, BY_LENGTH> {
    /// An all-reduce of vectors that have room in annexes. Out of line: where each rank has a core it is not called.
    ///
    /// # Safety
    /// The contribution is readable, the result writable.
    #[inline(never)]
    pub(super) unsafe fn reduce_in_groups(
        &mut self,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        self.place.op = group_values(self.place.op).published;
        let rank = self.map.rank.0;
        let groups = EvenParts {
            items: self.map.topology.size(),
            parts: self.form.groups,
        };
        let own = groups.part_of(rank);
        let members = groups.range(own);
        let is_last = (self.group(&members)).is_last((rank - members.start) as usize);
        // SAFETY: the caller's contract; of a group's annexes nobody reads the first before its result is there, nor any other
        // afterwards.
        unsafe {
            match is_last {
                true => self.reduce_group(&members, true, reducer)?,
                false => self.publish(),
            }
            let dest = self.call.recv.block(0);
            self.fold(0..groups.parts, dest, reducer, |group| {
                let members = groups.range(group);
                self.await_group(&members, group == own, reducer)?;
                Ok(self.annex_of(members.start))
            })
        }
    }

    /// The slots of `members` in this operation.
    #[inline]
    fn group(&self, members: &Range<u32>) -> EagerGroup<'_> {
        let ranks = (NodeRank(members.start), members.end - members.start);
        let values = group_values(self.place.op);
        self.segment().eager_group(ranks, self.place.slot, values)
    }

    fn annex_of(&self, rank: u32) -> MemoryRange {
        self.annex(NodeRank(rank), 0, self.call.bytes)
    }

    /// Waits for the result of a group. If it `is_own`, this rank reduces what members have published at once, so that none
    /// found itself the last.
    ///
    /// # Safety
    /// As [`Exchange::reduce_in_groups`].
    #[inline]
    unsafe fn await_group(
        &self,
        members: &Range<u32>,
        is_own: bool,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let group = self.group(members);
        while !group.is_reduced() {
            if is_own && group.is_left() && group.claim() {
                // SAFETY: the caller's contract.
                return unsafe { self.reduce_group(members, false, reducer) };
            }
            let reduced = group_values(self.place.op).reduced;
            let of = NodeRank(members.start);
            let awaited = self.awaited(of, members.end - members.start, reduced);
            wait_until(self.map, awaited, || {
                group.is_reduced() || is_own && group.is_left()
            })?;
        }
        Ok(())
    }

    /// Reduces the vectors of `members`, which all have published theirs, but for this rank if it `is_last`.
    ///
    /// # Safety
    /// As [`Exchange::reduce_in_groups`].
    unsafe fn reduce_group(
        &self,
        members: &Range<u32>,
        is_last: bool,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let (rank, first) = (self.map.rank.0, members.start);
        // SAFETY: the caller's contract.
        unsafe {
            self.fold(members.clone(), self.annex_of(first), reducer, |member| {
                Ok(match is_last && member == rank {
                    true => self.call.send.block_of(rank).slice(0, self.call.bytes),
                    false => self.annex_of(member),
                })
            })?;
        }
        self.group(members).announce();
        if is_last && rank != first {
            let slot = self.segment().eager_slot(NodeRank(rank), self.place.slot);
            slot.announce(self.place.op);
        }
        self.segment().doorbell().ring();
        Ok(())
    }

    /// Reduces what `operands` are, in their order, into `dest`, which is the first of them or apart from all. Operations of the
    /// program have all in aligned memory of this rank.
    ///
    /// # Safety
    /// Each lies where `operand` says, and all are accessible.
    #[inline(always)]
    unsafe fn fold(
        &self,
        operands: Range<u32>,
        dest: MemoryRange,
        reducer: &Reducer<'_>,
        operand: impl Fn(u32) -> Result<MemoryRange, EngineError>,
    ) -> Result<(), EngineError> {
        // SAFETY: the caller's contract; rooms are private.
        unsafe {
            if reducer.is_kernel() {
                return reduce_in_order(operands, dest, [dest; 2], reducer, |index, _| {
                    operand(index)
                });
            }
            let mut rooms = [(); 2].map(|()| vec_of_lines(dest.bytes));
            let rooms = rooms
                .each_mut()
                .map(|room| MemoryRange::new(room.as_mut_ptr().cast(), dest.bytes));
            reduce_in_order(operands, dest, rooms, reducer, |index, room| {
                copy_out_of_shared(operand(index)?, room, ScratchKind::Rotating);
                Ok(room)
            })
        }
    }
}

/// Memory for `bytes` bytes, aligned as operations of a program expect it.
fn vec_of_lines(bytes: usize) -> Vec<Room<LINE>> {
    let lines = bytes.div_ceil(LINE);
    (0..lines).map(|_| Room::EMPTY).collect()
}
