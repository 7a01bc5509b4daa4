//! Tiny calls on one node: the payload rides in the cache line of the flag that announces it.
//!
//! Everyone publishes its contribution in its slot of the operation's parity, then reads those it
//! needs. One way to do that, and per collective what becomes of what is read. `crate::clock` says
//! when a slot may be written again.

use super::Call;
use crate::EngineError;
use crate::clock::{InlineTurn, Readers};
use crate::reducer::Reducer;
use crate::run::{Blocked, Patience};
use crate::team::State;
use crate::team::map::Map;
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::{Collective, Order};
use ferrorail_shm::InlineSlot;

/// Largest contribution that rides in the flag's cache line.
const BYTES_MAX: usize = InlineSlot::PAYLOAD_BYTES;

/// Payload of one slot. Operations that a program defined expect it to be aligned.
#[repr(C, align(64))]
struct Payload([u8; BYTES_MAX]);

impl Payload {
    const EMPTY: Self = Self([0; BYTES_MAX]);
}

/// Whether calls of `collective` have an inline form.
pub(crate) fn has_form(collective: Collective) -> bool {
    matches!(
        collective,
        Collective::Allgather
            | Collective::Allgatherv
            | Collective::Allreduce
            | Collective::Reduce
            | Collective::ReduceScatterBlock
    )
}

/// Whether the contributions of `call` fit; the same on all ranks.
#[inline]
pub(super) fn fits(call: &Call<'_>) -> bool {
    let blocks = match call.collective {
        Collective::ReduceScatterBlock => call.send.count() as usize,
        _ => 1,
    };
    call.bytes <= BYTES_MAX && blocks * call.bytes <= BYTES_MAX
}

/// Runs a call that [`fits`], on a team of one node.
///
/// # Safety
/// The buffers are the entry's, whose caller vouches for them.
#[inline]
pub(super) unsafe fn run(map: &Map, state: &mut State, call: &Call<'_>) -> Result<(), EngineError> {
    let readers = match call.collective {
        Collective::Reduce => Readers::One(map.topology.node_rank_of(call.root)),
        _ => Readers::All,
    };
    let turn = state.clock.next_inline(readers);
    let mut exchange = Exchange {
        map,
        call,
        turn,
        own: Payload::EMPTY,
        patience: None,
    };
    exchange.await_readers()?;
    // SAFETY: the caller vouches for the buffers.
    unsafe {
        exchange.publish();
        match &call.reducer {
            None => exchange.gather()?,
            Some(reducer) if readers.include(map.node_rank) => exchange.reduce(reducer)?,
            Some(_) => {}
        }
    }
    if readers == Readers::All {
        state.clock.synchronised();
    }
    Ok(())
}

struct Exchange<'a> {
    map: &'a Map,
    call: &'a Call<'a>,
    turn: InlineTurn,
    own: Payload,
    patience: Option<Patience<'a>>,
}

impl<'a> Exchange<'a> {
    /// Waits until the slot about to be written has been read by all who had to.
    #[inline]
    fn await_readers(&mut self) -> Result<(), EngineError> {
        let Some((readers, value)) = self.turn.after else {
            return Ok(());
        };
        for rank in 0..self.map.topology.size() {
            if !readers.include(NodeRank(rank)) || rank == self.map.rank.0 {
                continue;
            }
            let other = 1 - self.turn.parity;
            let slot = self.map.segment().inline_slot(NodeRank(rank), other);
            while !slot.has_reached(value) {
                self.idle(Rank(rank))?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// The contribution is readable.
    #[inline]
    unsafe fn publish(&mut self) {
        // Blocks of a contribution lie one after another.
        let first = self.call.send.block(0);
        let bytes = first.bytes * self.call.send.count() as usize;
        let own = &mut self.own.0[..bytes];
        // SAFETY: the caller vouches for `send`; the length is that of `own`.
        unsafe { core::ptr::copy_nonoverlapping(first.as_ptr(), own.as_mut_ptr(), bytes) }
        let segment = self.map.segment();
        segment
            .inline_slot(self.map.node_rank, self.turn.parity)
            .publish(self.turn.op, own);
        segment.doorbell().ring();
    }

    /// Everyone's block, by rank.
    ///
    /// # Safety
    /// The result is writable.
    #[inline]
    unsafe fn gather(&mut self) -> Result<(), EngineError> {
        for rank in 0..self.map.topology.size() {
            let dest = self.call.recv.block(rank);
            let mut theirs = Payload::EMPTY;
            let from = self.read(rank, dest.bytes, &mut theirs)?;
            // SAFETY: the caller vouches for `recv`; the payload is private.
            unsafe { core::ptr::copy_nonoverlapping(from, dest.as_ptr(), dest.bytes) }
        }
        Ok(())
    }

    /// Everyone's vectors, reduced in rank order; of vectors with a block for each, the own block.
    ///
    /// # Safety
    /// The result is writable.
    #[inline]
    unsafe fn reduce(&mut self, reducer: &Reducer<'_>) -> Result<(), EngineError> {
        let dest = self.call.recv.block(0);
        let all = dest.bytes * self.call.send.count() as usize;
        let first = match self.call.send.count() {
            1 => 0,
            _ => self.map.rank.index() * dest.bytes,
        };
        let mut result = Payload::EMPTY;
        for rank in 0..self.map.topology.size() {
            let mut theirs = Payload::EMPTY;
            let from = self.read(rank, all, &mut theirs)?.wrapping_add(first);
            let into = result.0.as_mut_ptr();
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
        let slot = segment.inline_slot(NodeRank(rank), self.turn.parity);
        while !slot.try_read(self.turn.op, &mut theirs.0[..bytes]) {
            self.idle(Rank(rank))?;
        }
        Ok(theirs.0.as_ptr())
    }

    fn idle(&mut self, of: Rank) -> Result<(), EngineError> {
        let (map, name) = (self.map, self.call.collective.name());
        self.patience
            .get_or_insert_with(|| Patience::new(map, name))
            .idle(Blocked::Node, || format!("rank {of}"))
    }
}
