//! Short calls on one node: what a rank has to say is announced by the flag of its slot of the operation.
//!
//! Those that have something to say publish it, those that are to know wait for the flag. A short block rides in the slot,
//! in the cache lines of the flag; a longer one lies in the operation's annex. `crate::sequence` says when both may be
//! written again. A call whose lengths all ranks know goes this way as a whole. Of a vector form that goes by length, this
//! is the way of the blocks that are short enough, and each is published with its length.

pub(crate) mod form;
mod groups;
mod place;
mod reduction;
mod wait;

use super::Call;
use crate::EngineError;
use crate::blocking_wait::disagreement::EagerMessage;
use crate::run::BlockList;
use crate::sequence::EagerSlots;
use crate::tag::with_length;
use crate::team::map::Map;
use crate::team::state::State;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::{Collective, place};
use ferrorail_shm::{EagerSlot, NodeSegment, ScratchKind, copy_out_of_shared};
use form::{Entry, Form, Ranks, Shape, Spacing, passes_on};
use place::Place;
pub(super) use place::{requested, take_place};
use wait::{Awaited, wait};

/// More than the length of any block in an annex has.
const LENGTH_BITS: u32 = 20;

/// How many operations ahead of a slot's use its lines are asked for.
const SLOTS_AHEAD: u32 = 2;

/// Runs a call whose blocks fit, on a team of one node.
///
/// # Safety
/// The buffers are the entry's, whose caller vouches for them.
#[inline(always)]
pub(super) unsafe fn run<S: BlockList, R: BlockList>(
    map: &Map,
    state: &mut State,
    call: Call<'_, S, R>,
    form: Form,
) -> Result<(), EngineError> {
    // SAFETY: the caller's contract.
    unsafe { exchange::<S, R, false>(map, state, call, form)? };
    if call.collective.synchronising() {
        state.sequence.synchronised();
    }
    Ok(())
}

/// Exchanges blocks that fit: all, or of a form that goes `BY_LENGTH` those that have bytes and are short enough. Returns
/// a rank that has a block of another length for this one than that expects, if there is one.
///
/// # Safety
/// As [`run`].
#[inline(always)]
pub(super) unsafe fn exchange<S: BlockList, R: BlockList, const BY_LENGTH: bool>(
    map: &Map,
    state: &mut State,
    call: Call<'_, S, R>,
    form: Form,
) -> Result<Option<Rank>, EngineError> {
    let request = requested::<S, R, BY_LENGTH>(map, state, &call, form);
    if state.sequence.is_full_eager(&request) {
        super::wait_for_room(map, state, state.sequence.half_an_eager_ring(&request))?;
    }
    let place = take_place(state, &call, request);
    let mut exchange = Exchange::<S, R, BY_LENGTH> {
        map,
        call,
        form,
        spacing: form.spacing::<BY_LENGTH>(call.bytes),
        place,
        differs: None,
    };
    let shape = Shape::of(call.collective);
    let includes = |ranks| ranks == Ranks::All || map.rank == call.root;
    // SAFETY: the caller's contract.
    unsafe {
        if let Some(reducer) = call.reducer
            && call.collective == Collective::Allreduce
            && form.is_grouped(call.bytes)
        {
            exchange.reduce_in_groups(reducer)?;
            return Ok(None);
        }
        if includes(shape.publishers) && !passes_on(call.collective) {
            exchange.publish();
        }
        match call.reducer {
            _ if !includes(shape.readers) => {}
            None => exchange.collect()?,
            Some(reducer) => exchange.combine(reducer)?,
        }
    }
    Ok(exchange.differs)
}

struct Exchange<'a, S, R, const BY_LENGTH: bool> {
    map: &'a Map,
    call: Call<'a, S, R>,
    form: Form,
    spacing: Spacing,
    place: Place,
    /// A rank that has a block of another length for this one than that expects.
    differs: Option<Rank>,
}

impl<'a, S: BlockList, R: BlockList, const BY_LENGTH: bool> Exchange<'a, S, R, BY_LENGTH> {
    #[inline(always)]
    fn shape(&self) -> Shape {
        Shape::of(self.call.collective)
    }

    #[inline(always)]
    fn segment(&self) -> &NodeSegment {
        self.map.segment()
    }

    #[inline(always)]
    fn takes_part(&self, block: MemoryRange) -> bool {
        !BY_LENGTH || (1..=self.form.longest()).contains(&block.bytes)
    }

    /// Whether somebody reads block `index` of what this rank publishes: it has its own block for itself
    /// at hand. That it has come is announced all the same, to those whose arguments differ.
    #[inline(always)]
    fn is_read(&self, index: u32) -> bool {
        match self.shape().block_per_reader {
            true => index != self.map.rank.0,
            false => self.shape().readers == Ranks::All || self.map.rank != self.call.root,
        }
    }

    /// # Safety
    /// The contribution is readable.
    #[inline(always)]
    unsafe fn publish(&mut self) {
        // SAFETY: the caller's contract.
        unsafe {
            match self.call.collective {
                Collective::Bcast => self.publish_blocks(self.call.recv),
                _ => self.publish_blocks(self.call.send),
            }
        }
    }

    /// # Safety
    /// The blocks are readable.
    #[inline(always)]
    unsafe fn publish_blocks(&self, blocks: impl BlockList) {
        let slots = self.segment().eager_slots(self.map.node_rank);
        let (mut any, mut end, mut value) =
            (false, self.form.directory::<BY_LENGTH>(), self.place.op);
        let published = match BY_LENGTH && self.form.of_pair && blocks.count() == 2 {
            true => 1 - self.map.rank.0..2 - self.map.rank.0,
            false => 0..blocks.count(),
        };
        for index in published {
            let block = blocks.block(index);
            any |= self.takes_part(block);
            if self.is_read(index) {
                value = self.value(block);
                // SAFETY: the caller vouches for the block.
                end = unsafe { self.write(&slots[self.place.slot as usize], index, block, end) };
            }
        }
        if any {
            self.announce(slots, value, end);
        }
    }

    /// What the flag holds of which `block` is the only reader's: its tag says how long that is and where it lies, which
    /// differs where the two ranks have had different lengths before.
    #[inline(always)]
    fn value(&self, block: MemoryRange) -> u64 {
        match BY_LENGTH && !self.form.has_lengths {
            true if block.bytes > self.form.inlined => {
                with_length(self.place.op, block.bytes | self.place.annex << LENGTH_BITS)
            }
            true => with_length(self.place.op, block.bytes),
            false => self.place.op,
        }
    }

    /// Writes `block`, which is for `reader`, to the operation's `slot` of this rank, which is written up to `end`, or to its
    /// annex; returns how far the slot is written then.
    ///
    /// # Safety
    /// The block is readable.
    #[inline(always)]
    unsafe fn write(&self, slot: &EagerSlot, reader: u32, block: MemoryRange, end: usize) -> usize {
        let index = self.index(self.map.rank.0, reader);
        let at = match BY_LENGTH && self.form.has_lengths {
            true => {
                let at = end.next_multiple_of(EagerSlot::PART_ALIGNMENT);
                slot.write_word(index * Entry::BYTES, Entry::new(block.bytes, at).0);
                at
            }
            false => index * self.spacing.slot,
        };
        // SAFETY: the caller's contract.
        unsafe {
            if block.bytes <= self.form.inlined {
                slot.write(at, block.as_ptr(), block.bytes);
                return at + block.bytes;
            }
            if block.bytes <= self.form.longest() {
                let annex = self.annex(self.map.node_rank, index, block.bytes);
                (self.segment()).copy_in(block, annex, ScratchKind::Rotating);
            }
        }
        at
    }

    /// Publishes with `value` the `bytes` bytes that were written to the operation's slot, one of this rank's `slots`, and
    /// asks for the lines of a later one, which then need not be waited for. Not of the next: who waits for that already
    /// would take them back.
    #[inline(always)]
    fn announce(&self, slots: &[EagerSlot], value: u64, bytes: usize) {
        slots[self.place.slot as usize].announce(value);
        self.segment().doorbell().ring();
        let ahead = EagerSlots::of(self.call.collective).ahead_of(self.place.slot, SLOTS_AHEAD);
        slots[ahead as usize].prepare(bytes);
    }

    /// The block that each publisher has for this rank.
    ///
    /// # Safety
    /// The result is writable.
    #[inline(always)]
    unsafe fn collect(&mut self) -> Result<(), EngineError> {
        let publishers = match self.shape().publishers {
            Ranks::All => 0..self.map.topology.size(),
            Ranks::Root => self.call.root.0..self.call.root.0 + 1,
        };
        for rank in publishers {
            let dest = self.call.recv.block_of(rank);
            if self.takes_part(dest) && !self.is_there(rank, dest) {
                // SAFETY: the caller vouches for `recv`.
                match unsafe { self.read(rank, dest) } {
                    // What others have is read all the same, as they have done nothing wrong.
                    Err(EngineError::Truncated { rank }) if BY_LENGTH => self.differs = Some(rank),
                    outcome => outcome?,
                }
            }
        }
        Ok(())
    }

    /// Which of the blocks that `publisher` publishes is that of another rank, `reader`.
    #[inline(always)]
    fn index(&self, publisher: u32, reader: u32) -> usize {
        match self.shape().block_per_reader {
            true => place(reader, publisher) as usize,
            false => 0,
        }
    }

    /// Block `index` in the annex of `rank`.
    #[inline(always)]
    fn annex(&self, rank: NodeRank, index: usize, bytes: usize) -> MemoryRange {
        let start = self.place.annex + index * self.spacing.annex;
        self.segment().rotating(rank, start, bytes)
    }

    /// Whether `dest` is where this rank's own block for itself lies.
    #[inline(always)]
    fn is_there(&self, rank: u32, dest: MemoryRange) -> bool {
        rank == self.map.rank.0
            && (self.call.collective == Collective::Bcast
                || dest.address == self.call.send.block_of(rank).address)
    }

    /// Waits for the contribution of `rank` and copies what it has for this one.
    ///
    /// # Safety
    /// `into` is writable.
    #[inline(always)]
    unsafe fn read(&mut self, rank: u32, into: MemoryRange) -> Result<(), EngineError> {
        if rank == self.map.rank.0 {
            let own = self.call.send.block_of(rank).slice(0, into.bytes);
            // SAFETY: the caller vouches for both.
            unsafe { own.copy_to(into) };
            return Ok(());
        }
        let index = self.index(rank, self.map.rank.0);
        if into.bytes > self.form.inlined {
            let annex = self.wait_for_annex(rank, index, into.bytes)?;
            // SAFETY: the caller vouches for `into`; what lies in the annex stays until this rank has finished.
            unsafe { copy_out_of_shared(annex, into, ScratchKind::Rotating) };
            return Ok(());
        }
        let slot = self.published(rank, self.value(into))?;
        let at = match BY_LENGTH && self.form.has_lengths {
            true => self.find(rank, slot, index, into.bytes)?,
            false => index * self.spacing.slot,
        };
        // SAFETY: the caller vouches for `into`; it has been published.
        unsafe { slot.read(at, into.as_ptr(), into.bytes) };
        Ok(())
    }

    /// The operation's slot of `rank`, once that has published `value` there.
    #[inline(always)]
    fn published(&self, rank: u32, value: u64) -> Result<&'a EagerSlot, EngineError> {
        let slot = self
            .map
            .segment()
            .eager_slot(NodeRank(rank), self.place.slot);
        if slot.value() != value {
            wait(self.map, slot, self.awaited(NodeRank(rank), 1, value))?;
        }
        Ok(slot)
    }

    /// What this rank waits for that awaits `value` in the slot of rank `of`, where it depends on so many `ranks`.
    #[inline(always)]
    fn awaited(&self, of: NodeRank, ranks: u32, value: u64) -> Awaited {
        Awaited {
            collective: self.call.collective,
            by_length: BY_LENGTH,
            op: self.place.op,
            message: EagerMessage {
                of,
                ranks,
                slot: self.place.slot,
                value,
            },
        }
    }

    /// Waits for what `rank` has published, and finds block `index` of it in the annex.
    #[inline(always)]
    fn wait_for_annex(
        &self,
        rank: u32,
        index: usize,
        bytes: usize,
    ) -> Result<MemoryRange, EngineError> {
        let annex = self.annex(NodeRank(rank), index, bytes);
        let slot = self.published(rank, self.value(annex))?;
        if BY_LENGTH && self.form.has_lengths {
            self.find(rank, slot, index, bytes)?;
        }
        Ok(annex)
    }

    /// Where block `index` of `rank` lies in its `slot`, if not in its annex. Refuses one that is not as long as `expected`.
    #[inline(always)]
    fn find(
        &self,
        rank: u32,
        slot: &EagerSlot,
        index: usize,
        expected: usize,
    ) -> Result<usize, EngineError> {
        let entry = Entry(slot.read_word(index * Entry::BYTES));
        match entry.is_of(expected) {
            true => Ok(entry.at()),
            false => Err(EngineError::Truncated { rank: Rank(rank) }),
        }
    }
}
