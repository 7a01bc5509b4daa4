//! Tiny calls on one node: the payload rides in the cache line of the flag that announces it.
//!
//! Those that have something to say publish it in their slot of the operation, those that are to
//! know read it there; `crate::clock` says when a slot may be written again. A call whose lengths
//! all ranks know goes this way as a whole. Of a vector form that goes by length, this is the way of
//! the blocks that fit.

use super::Call;
use crate::EngineError;
use crate::clock::InlineTurn;
use crate::reducer::Reducer;
use crate::run::mark::{Expected, Messages};
use crate::run::{Blocked, Patience};
use crate::team::State;
use crate::team::map::Map;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::{Collective, Order};
use ferrorail_shm::InlineSlot;

/// Largest payload that rides in the flag's cache line.
const BYTES_MAX: usize = InlineSlot::PAYLOAD_BYTES;

/// Payload of one slot. Operations that a program defined expect it to be aligned.
#[repr(C, align(64))]
struct Payload([u8; BYTES_MAX]);

impl Payload {
    const EMPTY: Self = Self([0; BYTES_MAX]);
}

/// Some ranks of a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ranks {
    All,
    Root,
}

/// Who says what to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    publishers: Ranks,
    readers: Ranks,
    /// Whether what is published has a block for each reader.
    block_per_reader: bool,
}

/// The inline form of `collective`, if it has one.
pub(crate) fn form(collective: Collective) -> Option<Form> {
    use Ranks::{All, Root};
    let (publishers, readers, block_per_reader) = match collective {
        Collective::Allgather | Collective::Allgatherv => (All, All, false),
        Collective::Allreduce | Collective::Scan | Collective::Exscan => (All, All, false),
        Collective::Alltoall | Collective::Alltoallv => (All, All, true),
        Collective::ReduceScatterBlock | Collective::ReduceScatter => (All, All, true),
        Collective::Gather | Collective::Gatherv | Collective::Reduce => (All, Root, false),
        Collective::Bcast => (Root, All, false),
        Collective::Scatter | Collective::Scatterv => (Root, All, true),
        _ => return None,
    };
    Some(Form {
        publishers,
        readers,
        block_per_reader,
    })
}

impl Form {
    /// Longest block that fits in a team of `size`.
    #[inline]
    pub fn share(self, size: u32) -> usize {
        match self.block_per_reader {
            true => BYTES_MAX / size as usize,
            false => BYTES_MAX,
        }
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
    unsafe { exchange(map, state, call, form, call.bytes, false)? };
    if call.collective.synchronising() {
        state.clock.synchronised();
    }
    Ok(())
}

/// Exchanges those blocks of a vector form that have bytes and fit.
///
/// # Safety
/// As [`run`].
pub(super) unsafe fn run_short_blocks(
    map: &Map,
    state: &mut State,
    call: &Call<'_>,
    form: Form,
) -> Result<(), EngineError> {
    // SAFETY: the caller's contract.
    unsafe {
        exchange(
            map,
            state,
            call,
            form,
            form.share(map.topology.size()),
            true,
        )
    }
}

/// # Safety
/// As [`run`].
#[inline]
unsafe fn exchange(
    map: &Map,
    state: &mut State,
    call: &Call<'_>,
    form: Form,
    share: usize,
    by_length: bool,
) -> Result<(), EngineError> {
    if state.clock.must_synchronise_inline() {
        super::barrier::synchronise(map, state)?;
    }
    let mut exchange = Exchange {
        map,
        call,
        form,
        share,
        by_length,
        turn: state
            .clock
            .next_inline()
            .marked(call.collective, call.root, call.bytes),
        own: Payload::EMPTY,
        patience: None,
    };
    let includes = |ranks| ranks == Ranks::All || map.rank == call.root;
    // SAFETY: the caller's contract.
    unsafe {
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
    turn: InlineTurn,
    own: Payload,
    patience: Option<Patience<'a>>,
}

impl Exchange<'_> {
    #[inline]
    fn takes_part(&self, block: MemoryRange) -> bool {
        !self.by_length || (1..=self.share).contains(&block.bytes)
    }

    /// # Safety
    /// The contribution is readable.
    #[inline]
    unsafe fn publish(&mut self) {
        let side = match self.call.collective {
            Collective::Bcast => &self.call.recv,
            _ => &self.call.send,
        };
        let mut end = None;
        for index in 0..side.count() {
            let block = side.block(index);
            if self.takes_part(block) {
                let at = index as usize * self.share;
                let room = &mut self.own.0[at..at + block.bytes];
                // SAFETY: the caller vouches for the block; the lengths are the same.
                unsafe {
                    let from = block.as_ptr();
                    core::ptr::copy_nonoverlapping(from, room.as_mut_ptr(), block.bytes);
                }
                end = Some(at + block.bytes);
            }
        }
        let Some(end) = end else { return };
        let segment = self.map.segment();
        segment
            .inline_slot(self.map.node_rank, self.turn.slot)
            .publish(self.turn.op, &self.own.0[..end]);
        segment.doorbell().ring();
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
        let first = self.offset();
        for rank in publishers {
            let dest = self.call.recv.block_of(rank);
            if !self.takes_part(dest) || self.is_there(rank, dest) {
                continue;
            }
            let mut theirs = Payload::EMPTY;
            let from = self.read(rank, first + dest.bytes, &mut theirs)?;
            // SAFETY: the caller vouches for `recv`; the payload is private.
            unsafe {
                let from = from.wrapping_add(first);
                core::ptr::copy_nonoverlapping(from, dest.as_ptr(), dest.bytes);
            }
        }
        Ok(())
    }

    /// Where in a payload this rank's block begins.
    #[inline]
    fn offset(&self) -> usize {
        match self.form.block_per_reader {
            true => self.map.rank.index() * self.share,
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

    /// Vectors of all ranks, or of those up to this one, reduced in rank order; of vectors with a
    /// block for each reader, this rank's.
    ///
    /// # Safety
    /// The result is writable.
    #[inline]
    unsafe fn reduce(&mut self, reducer: &Reducer<'_>) -> Result<(), EngineError> {
        let end = match self.call.collective {
            Collective::Scan => self.map.rank.0 + 1,
            Collective::Exscan => self.map.rank.0,
            _ => self.map.topology.size(),
        };
        if end == 0 {
            return Ok(());
        }
        let dest = self.call.recv.block(0);
        let first = self.offset();
        let mut result = Payload::EMPTY;
        for rank in 0..end {
            let mut theirs = Payload::EMPTY;
            let from = self.read(rank, first + dest.bytes, &mut theirs)?;
            let (from, into) = (from.wrapping_add(first), result.0.as_mut_ptr());
            // SAFETY: both are private and hold a block.
            unsafe {
                match rank {
                    0 => core::ptr::copy_nonoverlapping(from, into, dest.bytes),
                    _ => reducer.run(from, into, dest.bytes, Order::IntoFirst)?,
                }
            }
        }
        // SAFETY: the caller vouches for `recv`.
        unsafe {
            core::ptr::copy_nonoverlapping(result.0.as_ptr(), dest.as_ptr(), dest.bytes);
        }
        Ok(())
    }

    /// Waits for the contribution of `rank`: `bytes` bytes, in `theirs` or this rank's own.
    #[inline]
    fn read(
        &mut self,
        rank: u32,
        bytes: usize,
        theirs: &mut Payload,
    ) -> Result<*const u8, EngineError> {
        if rank == self.map.rank.0 {
            return Ok(self.own.0.as_ptr());
        }
        let segment = self.map.segment();
        let slot = segment.inline_slot(NodeRank(rank), self.turn.slot);
        while !slot.try_read(self.turn.op, &mut theirs.0[..bytes]) {
            self.idle(Rank(rank))?;
        }
        Ok(theirs.0.as_ptr())
    }

    fn idle(&mut self, of: Rank) -> Result<(), EngineError> {
        let (map, name) = (self.map, self.call.collective.name());
        self.patience
            .get_or_insert_with(|| {
                Patience::new(map, name).expecting(Expected {
                    mark: self.turn.op,
                    messages: Messages::None,
                })
            })
            .idle(Blocked::Node, || format!("rank {of}"))?;
        Ok(())
    }
}
