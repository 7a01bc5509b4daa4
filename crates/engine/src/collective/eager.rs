//! Tiny calls on one node: the payload rides in the cache lines of the flag that announces it.
//!
//! Those that have something to say publish it in their slot of the operation, those that are to
//! know read it there; `crate::sequence` says when a slot may be written again. A call whose lengths
//! all ranks know goes this way as a whole. Of a vector form that goes by length, this is the way of
//! the blocks that fit.

use super::Call;
use super::form::{BYTES_MAX, Form, Ranks};
use crate::EngineError;
use crate::blocking_wait::disagreement::{Expected, Messages};
use crate::blocking_wait::{Blocked, BlockingWait};
use crate::reducer::Reducer;
use crate::tag::{contradicts, tag};
use crate::team::map::Map;
use crate::team::state::State;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::{Collective, place};
use ferrorail_shm::{EAGER_SLOTS, EagerSlot};
use std::mem::MaybeUninit;

/// How many operations ahead of a slot's use its lines are asked for.
const SLOTS_AHEAD: u32 = 2;

/// A block out of a slot. Operations that a program defined expect it to be aligned.
#[repr(C, align(64))]
struct Block(MaybeUninit<[u8; BYTES_MAX]>);

impl Block {
    const EMPTY: Self = Self(MaybeUninit::uninit());

    #[inline]
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    /// Its first `bytes` bytes.
    #[inline]
    fn range(&mut self, bytes: usize) -> MemoryRange {
        MemoryRange::new(self.as_mut_ptr(), bytes)
    }
}

/// Runs a call whose blocks fit, on a team of one node.
///
/// # Safety
/// The buffers are the entry's, whose caller vouches for them.
#[inline]
pub(super) unsafe fn run(
    map: &Map,
    state: &mut State,
    call: &Call<'_>,
    form: Form,
) -> Result<(), EngineError> {
    // SAFETY: the caller's contract.
    unsafe { exchange(map, state, call, form, form.capacity(call.bytes), false)? };
    if call.collective.synchronising() {
        state.sequence.synchronised();
    }
    Ok(())
}

/// Exchanges blocks that have room in `share` bytes: all, or where lengths differ `by_length` those that have bytes and
/// fit.
///
/// # Safety
/// As [`run`].
#[inline]
pub(super) unsafe fn exchange(
    map: &Map,
    state: &mut State,
    call: &Call<'_>,
    form: Form,
    share: usize,
    by_length: bool,
) -> Result<(), EngineError> {
    if state.sequence.is_full_eager() {
        super::wait_for_channel(map, state, state.sequence.needed_eager())?;
    }
    let (op, slot) = state.sequence.next_eager();
    let mut exchange = Exchange {
        map,
        call,
        form,
        share,
        by_length,
        op: tag(op, call.collective, call.root, call.bytes),
        slot,
        blocking_wait: None,
    };
    let includes = |ranks| ranks == Ranks::All || map.rank == call.root;
    // SAFETY: the caller's contract.
    unsafe {
        if let (Some(reducer), Collective::Scan | Collective::Exscan) =
            (&call.reducer, call.collective)
        {
            return exchange.pass_on(reducer);
        }
        if includes(form.publishers) {
            exchange.publish();
        }
        match &call.reducer {
            _ if !includes(form.readers) => Ok(()),
            None => exchange.collect(),
            Some(reducer) => exchange.reduce(reducer),
        }
    }
}

struct Exchange<'a> {
    map: &'a Map,
    call: &'a Call<'a>,
    form: Form,
    /// Room for each block of what is published.
    share: usize,
    /// Whether only blocks that have bytes and fit are exchanged.
    by_length: bool,
    /// The operation's tag, and the slot that carries it.
    op: u64,
    slot: u32,
    blocking_wait: Option<BlockingWait<'a>>,
}

impl Exchange<'_> {
    #[inline]
    fn takes_part(&self, block: MemoryRange) -> bool {
        !self.by_length || (1..=self.share).contains(&block.bytes)
    }

    /// Whether somebody reads block `index` of what this rank publishes: it has its own block for itself
    /// at hand. That it has come is announced all the same, to those whose arguments differ.
    #[inline]
    fn is_read(&self, index: u32) -> bool {
        match self.form.block_per_reader {
            true => index != self.map.rank.0,
            false => self.form.readers == Ranks::All || self.map.rank != self.call.root,
        }
    }

    /// # Safety
    /// The contribution is readable.
    #[inline]
    unsafe fn publish(&mut self) {
        let side = match self.call.collective {
            Collective::Bcast => &self.call.recv,
            _ => &self.call.send,
        };
        let segment = self.map.segment();
        let slots = segment.eager_slots(self.map.node_rank);
        let slot = &slots[self.slot as usize];
        let (mut any, mut end) = (false, 0);
        for index in 0..side.count() {
            let block = side.block(index);
            if self.takes_part(block) {
                any = true;
                if self.is_read(index) {
                    let at = self.offset(self.map.rank.0, index);
                    // SAFETY: the caller vouches for the block.
                    unsafe { slot.write(at, block.as_ptr(), block.bytes) };
                    end = at + block.bytes;
                }
            }
        }
        if any {
            self.announce(slots, end);
        }
    }

    /// Publishes the `bytes` bytes that were written to the operation's slot, one of this rank's `slots`, and asks for
    /// the lines of a later one, which then need not be waited for. Not of the next: who waits for that already would
    /// take them back.
    #[inline]
    fn announce(&self, slots: &[EagerSlot], bytes: usize) {
        slots[self.slot as usize].announce(self.op);
        self.map.segment().doorbell().ring();
        slots[((self.slot + SLOTS_AHEAD) % EAGER_SLOTS) as usize].prepare(bytes);
    }

    /// The block that each publisher has for this rank.
    ///
    /// # Safety
    /// The result is writable.
    #[inline]
    unsafe fn collect(&mut self) -> Result<(), EngineError> {
        let publishers = match self.form.publishers {
            Ranks::All => 0..self.map.topology.size(),
            Ranks::Root => self.call.root.0..self.call.root.0 + 1,
        };
        for rank in publishers {
            let dest = self.call.recv.block_of(rank);
            if self.takes_part(dest) && !self.is_there(rank, dest) {
                // SAFETY: the caller vouches for `recv`.
                unsafe { self.read(rank, dest)? };
            }
        }
        Ok(())
    }

    /// Where in the payload of `publisher` the block of another rank, `reader`, begins.
    #[inline]
    fn offset(&self, publisher: u32, reader: u32) -> usize {
        match self.form.block_per_reader {
            true => place(reader, publisher) as usize * self.share,
            false => 0,
        }
    }

    /// Whether `dest` is where this rank's own block for itself lies.
    #[inline]
    fn is_there(&self, rank: u32, dest: MemoryRange) -> bool {
        rank == self.map.rank.0
            && (self.call.collective == Collective::Bcast
                || dest.address == self.call.send.block_of(rank).address)
    }

    /// Vectors of all ranks reduced in rank order; of vectors with a block for each reader, this
    /// rank's.
    ///
    /// # Safety
    /// The result is writable.
    #[inline]
    unsafe fn reduce(&mut self, reducer: &Reducer<'_>) -> Result<(), EngineError> {
        let dest = self.call.recv.block(0);
        let (mut result, mut theirs) = (Block::EMPTY, Block::EMPTY);
        let (result, theirs) = (result.range(dest.bytes), theirs.range(dest.bytes));
        let last = self.map.topology.size() - 1;
        // SAFETY: both are private and have room for a block; the caller vouches for `recv`, which is apart from this
        // rank's contribution or where that is.
        unsafe {
            let mut left = self.operand(0, result, reducer)?;
            for rank in 1..=last {
                let right = self.operand(rank, theirs, reducer)?;
                let into = match rank == last && reducer.is_kernel() {
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

    /// The vector of `rank`: where it is, if it is this rank's, else in `room`. Operations of the program have all in
    /// aligned memory.
    ///
    /// # Safety
    /// `room` is writable.
    #[inline]
    unsafe fn operand(
        &mut self,
        rank: u32,
        room: MemoryRange,
        reducer: &Reducer<'_>,
    ) -> Result<MemoryRange, EngineError> {
        if rank == self.map.rank.0 && reducer.is_kernel() {
            let own = self.call.send.block_of(rank);
            return Ok(own.slice(0, room.bytes));
        }
        // SAFETY: the caller's contract.
        unsafe { self.read(rank, room)? };
        Ok(room)
    }

    /// A scan: adds this rank's vector to the reduction of those before and publishes that. The ranks
    /// of a node together read one slot each, where all of those before would be half of them each.
    ///
    /// # Safety
    /// The contribution is readable, the result writable.
    unsafe fn pass_on(&mut self, reducer: &Reducer<'_>) -> Result<(), EngineError> {
        let (rank, size) = (self.map.rank.0, self.map.topology.size());
        let (own, dest) = (self.call.send.block(0), self.call.recv.block(0));
        let (mut before, mut total) = (Block::EMPTY, Block::EMPTY);
        let (before, total) = (before.range(dest.bytes), total.range(dest.bytes));
        let is_scan = self.call.collective == Collective::Scan;
        let mut sum = own;
        // SAFETY: the blocks are private and have room; the caller vouches for the others.
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
                self.publish_block(sum);
            }
            match is_scan {
                true if sum.address != dest.address => sum.copy_to(dest),
                false if rank > 0 => before.copy_to(dest),
                _ => {}
            }
        }
        Ok(())
    }

    /// Publishes one block that all readers are to have.
    ///
    /// # Safety
    /// The block is readable.
    unsafe fn publish_block(&self, block: MemoryRange) {
        let segment = self.map.segment();
        let slots = segment.eager_slots(self.map.node_rank);
        // SAFETY: the caller's contract.
        unsafe { slots[self.slot as usize].write(0, block.as_ptr(), block.bytes) };
        self.announce(slots, block.bytes);
    }

    /// Waits for the contribution of `rank` and copies what it has for this one.
    ///
    /// # Safety
    /// `into` is writable.
    #[inline]
    unsafe fn read(&mut self, rank: u32, into: MemoryRange) -> Result<(), EngineError> {
        if rank == self.map.rank.0 {
            let own = self.call.send.block_of(rank);
            // SAFETY: the caller vouches for both.
            unsafe {
                MemoryRange {
                    bytes: into.bytes,
                    ..own
                }
                .copy_to(into)
            };
            return Ok(());
        }
        let segment = self.map.segment();
        let slot = segment.eager_slot(NodeRank(rank), self.slot);
        let at = self.offset(rank, self.map.rank.0);
        // SAFETY: the caller vouches for `into`.
        while !unsafe { slot.try_read_raw(self.op, at, into.as_ptr(), into.bytes) } {
            self.idle(Rank(rank))?;
        }
        Ok(())
    }

    fn idle(&mut self, of: Rank) -> Result<(), EngineError> {
        let (map, name) = (self.map, self.call.collective.name());
        let wait = self
            .blocking_wait
            .get_or_insert_with(|| BlockingWait::new(map, name));
        wait.expect(Expected {
            tag: self.op,
            messages: Messages::EagerSlot(NodeRank(of.0), self.slot),
        });
        match wait.idle(Blocked::Node, || format!("rank {of}")) {
            Err(EngineError::Mismatch { .. }) if self.is_in_step(of) => {
                Err(EngineError::Truncated { rank: of })
            }
            outcome => outcome.map(drop),
        }
    }

    /// Whether `of`, whose arguments differ, is in an eager call too. Each has then used one number and one slot,
    /// and said before what it had to say, unless a scan had to pass something on.
    fn is_in_step(&self, of: Rank) -> bool {
        let slot = self.map.segment().eager_slot(NodeRank(of.0), self.slot);
        let passes_on = matches!(self.call.collective, Collective::Scan | Collective::Exscan);
        !self.by_length && !passes_on && contradicts(slot.value(), self.op)
    }
}
