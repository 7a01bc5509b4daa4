//! Short calls on one node: what a rank has to say is announced by the flag of its slot of the operation.
//!
//! Those that have something to say publish it, those that are to know wait for the flag. A short block rides in the slot,
//! in the cache lines of the flag; a longer one lies in the operation's annex. `crate::sequence` says when both may be
//! written again. A call whose lengths all ranks know goes this way as a whole. Of a vector form that goes by length, this
//! is the way of the blocks that are short enough, and each is published with its length.

pub(crate) mod form;
mod reduction;

use super::Call;
use crate::EngineError;
use crate::blocking_wait::disagreement::{Expected, Messages};
use crate::blocking_wait::{Blocked, BlockingWait};
use crate::tag::{contradicts, tag, with_annex, with_length};
use crate::team::map::Map;
use crate::team::state::State;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::{Collective, place};
use ferrorail_shm::{
    EAGER_SLOTS, EagerSlot, NodeSegment, ScratchKind, copy_into_shared, copy_out_of_shared,
};
use form::{Form, LENGTH, Ranks, Spacing};

/// How many operations ahead of a slot's use its lines are asked for.
const SLOTS_AHEAD: u32 = 2;

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
    unsafe { exchange::<false>(map, state, call, form)? };
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
#[inline]
pub(super) unsafe fn exchange<const BY_LENGTH: bool>(
    map: &Map,
    state: &mut State,
    call: &Call<'_>,
    form: Form,
) -> Result<Option<Rank>, EngineError> {
    let annexed = form.annexed::<BY_LENGTH>(call.bytes);
    if state.sequence.is_full_eager(annexed) {
        super::wait_for_channel(map, state, state.sequence.needed_eager(annexed))?;
    }
    let Place { op, slot, annex } = take_place(state, call, annexed);
    let mut exchange = Exchange::<BY_LENGTH> {
        map,
        call,
        form,
        spacing: form.spacing::<BY_LENGTH>(call.bytes),
        op,
        slot,
        annex,
        differs: None,
        blocking_wait: None,
    };
    let includes = |ranks| ranks == Ranks::All || map.rank == call.root;
    // SAFETY: the caller's contract.
    unsafe {
        if includes(form.publishers) && !exchange.passes_on() {
            exchange.publish();
        }
        match &call.reducer {
            _ if !includes(form.readers) => {}
            None => exchange.collect()?,
            Some(reducer) => exchange.combine(reducer)?,
        }
    }
    Ok(exchange.differs)
}

/// What an operation has.
pub(super) struct Place {
    /// Its tag.
    op: u64,
    /// The slot that carries it.
    slot: u32,
    /// Where its annex begins in a rank's rotating scratch; 0 if it has none.
    annex: usize,
}

/// The next operation, a `call` that takes `annexed` bytes of the annexes. All ranks take it, also those that have nothing
/// to say and nothing to hear.
#[inline(always)]
pub(super) fn take_place(state: &mut State, call: &Call<'_>, annexed: usize) -> Place {
    let (op, slot) = state.sequence.next_eager();
    let annex = match annexed {
        0 => 0,
        bytes => state.sequence.take_annex(bytes),
    };
    let tag = tag(op, call.collective, call.root, call.bytes);
    Place {
        op: with_annex(tag, annexed > 0),
        slot,
        annex,
    }
}

struct Exchange<'a, const BY_LENGTH: bool> {
    map: &'a Map,
    call: &'a Call<'a>,
    form: Form,
    spacing: Spacing,
    /// As in [`Place`].
    op: u64,
    slot: u32,
    annex: usize,
    /// A rank that has a block of another length for this one than that expects.
    differs: Option<Rank>,
    blocking_wait: Option<BlockingWait<'a>>,
}

impl<'a, const BY_LENGTH: bool> Exchange<'a, BY_LENGTH> {
    #[inline]
    fn segment(&self) -> &NodeSegment {
        self.map.segment()
    }

    /// Whether each rank publishes what it has made of what the one before has published.
    #[inline]
    fn passes_on(&self) -> bool {
        matches!(self.call.collective, Collective::Scan | Collective::Exscan)
    }

    #[inline]
    fn takes_part(&self, block: MemoryRange) -> bool {
        !BY_LENGTH || (1..=self.form.longest()).contains(&block.bytes)
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
        let slots = self.segment().eager_slots(self.map.node_rank);
        let (mut any, mut end, mut value) = (false, 0, self.op);
        for index in 0..side.count() {
            let block = side.block(index);
            any |= self.takes_part(block);
            if self.is_read(index) {
                value = self.value(block);
                // SAFETY: the caller vouches for the block.
                end = unsafe { self.write(&slots[self.slot as usize], index, block) };
            }
        }
        if any {
            self.announce(slots, value, end);
        }
    }

    /// What the flag holds of which `block` is the only reader's: its tag says how long that is.
    #[inline]
    fn value(&self, block: MemoryRange) -> u64 {
        match BY_LENGTH && !self.form.has_lengths {
            true => with_length(self.op, block.bytes),
            false => self.op,
        }
    }

    /// Writes `block`, which is for `reader`, to the operation's `slot` of this rank, or its annex; returns how far the slot
    /// is written then.
    ///
    /// # Safety
    /// The block is readable.
    #[inline]
    unsafe fn write(&self, slot: &EagerSlot, reader: u32, block: MemoryRange) -> usize {
        let index = self.index(self.map.rank.0, reader);
        let mut at = index * self.spacing.slot;
        if BY_LENGTH && self.form.has_lengths {
            slot.write_word(at, block.bytes as u64);
            at += LENGTH;
        }
        // SAFETY: the caller's contract.
        unsafe {
            if block.bytes <= self.form.inlined {
                slot.write(at, block.as_ptr(), block.bytes);
                return at + block.bytes;
            }
            if block.bytes <= self.form.longest() {
                let annex = self.annex(self.map.node_rank, index, block.bytes);
                copy_into_shared(block, annex, ScratchKind::Rotating);
            }
        }
        at
    }

    /// Publishes with `value` the `bytes` bytes that were written to the operation's slot, one of this rank's `slots`, and
    /// asks for the lines of a later one, which then need not be waited for. Not of the next: who waits for that already
    /// would take them back.
    #[inline]
    fn announce(&self, slots: &[EagerSlot], value: u64, bytes: usize) {
        slots[self.slot as usize].announce(value);
        self.segment().doorbell().ring();
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
    #[inline]
    fn index(&self, publisher: u32, reader: u32) -> usize {
        match self.form.block_per_reader {
            true => place(reader, publisher) as usize,
            false => 0,
        }
    }

    /// Block `index` in the annex of `rank`.
    #[inline]
    fn annex(&self, rank: NodeRank, index: usize, bytes: usize) -> MemoryRange {
        let start = self.annex + index * self.spacing.annex;
        self.segment().rotating(rank, start, bytes)
    }

    /// Whether `dest` is where this rank's own block for itself lies.
    #[inline]
    fn is_there(&self, rank: u32, dest: MemoryRange) -> bool {
        rank == self.map.rank.0
            && (self.call.collective == Collective::Bcast
                || dest.address == self.call.send.block_of(rank).address)
    }

    /// Waits for the contribution of `rank` and copies what it has for this one.
    ///
    /// # Safety
    /// `into` is writable.
    #[inline]
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
        let (slot, value) = (self.slot_of(rank), self.value(into));
        let mut at = index * self.spacing.slot;
        if BY_LENGTH && self.form.has_lengths {
            self.wait_for_length(rank, at, into.bytes)?;
            at += LENGTH;
        }
        // SAFETY: the caller vouches for `into`.
        while !unsafe { slot.try_read_raw(value, at, into.as_ptr(), into.bytes) } {
            self.idle(Rank(rank), value)?;
        }
        Ok(())
    }

    /// The operation's slot of `rank`.
    #[inline]
    fn slot_of(&self, rank: u32) -> &'a EagerSlot {
        self.map.segment().eager_slot(NodeRank(rank), self.slot)
    }

    /// Waits for what `rank` has published, and finds block `index` of it in the annex.
    #[inline]
    fn wait_for_annex(
        &mut self,
        rank: u32,
        index: usize,
        bytes: usize,
    ) -> Result<MemoryRange, EngineError> {
        let annex = self.annex(NodeRank(rank), index, bytes);
        if BY_LENGTH && self.form.has_lengths {
            self.wait_for_length(rank, index * self.spacing.slot, bytes)?;
            return Ok(annex);
        }
        let (slot, value) = (self.slot_of(rank), self.value(annex));
        while slot.value() != value {
            self.idle(Rank(rank), value)?;
        }
        Ok(annex)
    }

    /// Waits for what `rank` has published, in which the length of this rank's block is at byte `at`: it should be
    /// `expected`.
    #[inline]
    fn wait_for_length(
        &mut self,
        rank: u32,
        at: usize,
        expected: usize,
    ) -> Result<(), EngineError> {
        let slot = self.slot_of(rank);
        while slot.value() != self.op {
            self.idle(Rank(rank), self.op)?;
        }
        match slot.read_word(at) == expected as u64 {
            true => Ok(()),
            false => Err(EngineError::Truncated { rank: Rank(rank) }),
        }
    }

    /// Waits a while for `of` to publish `value`.
    fn idle(&mut self, of: Rank, value: u64) -> Result<(), EngineError> {
        let (map, name) = (self.map, self.call.collective.name());
        let wait = self
            .blocking_wait
            .get_or_insert_with(|| BlockingWait::new(map, name));
        wait.expect(Expected {
            tag: self.op,
            messages: Messages::EagerSlot(NodeRank(of.0), self.slot, value),
        });
        match wait.idle(Blocked::Node, || format!("rank {of}")) {
            Err(EngineError::Mismatch { .. }) if self.is_in_step(of) => {
                Err(EngineError::Truncated { rank: of })
            }
            outcome => outcome.map(drop),
        }
    }

    /// Whether `of`, whose arguments differ, is in an eager call too. If neither takes an annex, each has used one number
    /// and one slot, and said before what it had to say, unless a scan had to pass something on.
    fn is_in_step(&self, of: Rank) -> bool {
        let seen = self.slot_of(of.0).value();
        let inlined = self.op == with_annex(self.op, false) && seen == with_annex(seen, false);
        !BY_LENGTH && inlined && !self.passes_on() && contradicts(seen, self.op)
    }
}
