//! Copies inside the node that both ends make.
//!
//! A put into the user memory of a rank of this node is a copy by cross-memory attach, which one core makes at half
//! the speed of two. The target of a long one has nothing to do meanwhile: the origin offers it the copy, and both
//! take pieces until none is left, the one writing and the other reading. Who is late, or has lost its core, takes
//! fewer. The offer lies in the cell of the RTR that it answers, which nobody needs any more; the arrival flag
//! says [`OFFERED`] until the last piece is there.
//!
//! Where ranks share cores, and each has something for few others, targets make long copies by themselves, each in one
//! piece: measured to take less time (`docs/design/0075-neighbourhood-collectives.md`).

mod offer;

use super::Run;
use crate::EngineError;
use crate::blocking_wait::Blocked;
use crate::team::map::Map;
use crate::team::state::State;
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_coll::Slot;
use ferrorail_fabric::stripe::flag_value;
use ferrorail_shm::Cma;
use offer::{Message, Offer, Piece, piece_bytes};
use std::io;

/// In place of the number of chunks: the message is offered, not there.
pub(super) const OFFERED: u8 = u8::MAX;

/// Shortest copy that is shared: below, the handshake takes longer than the second core saves.
const SHARED_BYTES_MIN: usize = 32 << 10;

/// Shortest copy that is left to its target, where it is.
const LEFT_BYTES_MIN: usize = 128 << 10;

/// How much of it the target takes at once, as nobody shares it: in shorter pieces it takes longer.
const LEFT_PIECE_BYTES: usize = 4 << 20;

/// Which copies a rank offers to their targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offers {
    /// None: it makes them.
    None,
    /// Those that it makes together with them.
    Shared,
    /// Those that it leaves to them.
    Left,
}

/// An offer of this rank that is not yet copied as a whole.
#[derive(Clone, Copy)]
pub(super) struct Offered<'a> {
    to: Rank,
    /// Of the message at the target.
    slot: Slot,
    tag: u64,
    message: Message,
    offer: Offer<'a>,
}

/// The cell that an RTR to `origin` has used.
fn cell(map: &Map, origin: Rank, channel: u32, slot: Slot) -> Offer<'_> {
    let segment = map.segment();
    Offer::new(segment.rtr(map.topology.node_rank_of(origin), channel, slot))
}

impl<'a> Run<'a> {
    /// Offers the copy of `source` to `address` of `to`, if it is long enough and the RTR of `to` has not served for
    /// another: a target may still be looking for pieces of an offer of which the last piece is there.
    pub(super) fn offer(
        &mut self,
        state: &mut State,
        (to, slot, tag): (Rank, Slot, u64),
        source: MemoryRange,
        address: u64,
    ) -> bool {
        let (shortest, piece) = match self.offers {
            Offers::None => return false,
            Offers::Shared => (
                SHARED_BYTES_MIN,
                piece_bytes(source.bytes, self.map.has_cores),
            ),
            Offers::Left => (LEFT_BYTES_MIN, LEFT_PIECE_BYTES),
        };
        if source.bytes < shortest {
            return false;
        }
        let Some(rtr_slot) = state.rtr[to.index()]
            .as_mut()
            .and_then(|rtr| rtr.cell.take())
        else {
            return false;
        };
        let message = Message {
            source: source.address as u64,
            target: address,
            bytes: source.bytes,
            piece,
        };
        let offer = cell(self.map, self.map.rank, self.channel, rtr_slot);
        offer.make(message);
        self.offered.push(Offered {
            to,
            slot,
            tag,
            message,
            offer,
        });
        self.raise_node(to, slot, flag_value(tag, OFFERED));
        true
    }

    /// Copies pieces of what this rank has offered, one of each message at most. Whether there was one.
    ///
    /// Where ranks share cores, those of targets on this core: while this rank runs they do not, and targets elsewhere
    /// copy for themselves meanwhile. Of theirs only if nothing else is left, and one piece at a time.
    pub(super) fn copy_offered(&mut self) -> Result<bool, EngineError> {
        if self.offers == Offers::Left {
            let copied = self.copy_returned()?;
            self.forget_copied();
            return Ok(copied);
        }
        let cores = (!self.map.has_cores).then(|| self.map.segment().cores());
        let is_near = |to| {
            let local = self.map.topology.node_rank_of(to);
            cores.is_none_or(|cores| cores.is_here(local))
        };
        let mut copied = false;
        for one in self.offered.iter().filter(|one| is_near(one.to)) {
            copied |= self.copy_piece(one)?;
        }
        for one in self.offered.iter().filter(|one| !is_near(one.to)) {
            copied = copied || self.copy_piece(one)?;
        }
        self.forget_copied();
        Ok(copied)
    }

    fn forget_copied(&mut self) {
        let is_open = |one: &Offered<'_>| !one.offer.is_done(one.message.bytes);
        self.offered.retain(is_open);
    }

    /// Copies a piece that its target could not read, if there is one.
    pub(super) fn copy_returned(&self) -> Result<bool, EngineError> {
        let mut returned = self.offered.iter();
        let returned = returned.find_map(|one| Some((one, one.offer.returned(one.message)?)));
        returned.map_or(Ok(false), |(one, piece)| self.copy(one, piece))
    }

    /// Copies a piece of what is offered, if there is one to take.
    fn copy_piece(&self, one: &Offered<'_>) -> Result<bool, EngineError> {
        let taken = one.offer.take(one.message);
        let piece = taken.or_else(|| one.offer.returned(one.message));
        piece.map_or(Ok(false), |piece| self.copy(one, piece))
    }

    fn copy(&self, one: &Offered<'_>, piece: Piece) -> Result<bool, EngineError> {
        let (rank, message) = (one.to, one.message);
        let process = Cma::of(self.map.processes[rank.index()]);
        let source = (message.source as usize + piece.start) as *const u8;
        let source = MemoryRange::new(source, piece.bytes);
        // SAFETY: the peer announced this memory for this operation and waits for our flag; nobody else took this
        // piece.
        unsafe { process.write(source, message.target + piece.start as u64) }
            .map_err(|source| EngineError::CrossMemory { rank, source })?;
        self.finish_piece(one.offer, piece, (rank, one.slot, one.tag), message.bytes);
        Ok(true)
    }

    /// Whether others may still read what this rank has offered.
    pub(super) fn has_offers(&self) -> bool {
        !self.offered.is_empty()
    }

    /// Copies pieces of the message that `from` has offered until none is left to take; then waits for those that
    /// `from` has.
    pub(super) fn help(
        &mut self,
        state: &State,
        from: Rank,
        slot: Slot,
        tag: u64,
    ) -> Result<Option<Blocked>, EngineError> {
        let offer = cell(self.map, from, self.channel, state.sent_rtrs[from.index()]);
        let message = offer.message();
        let memory = self.rtr_memory(from);
        let start = (message.target as usize).wrapping_sub(memory.address);
        if start
            .checked_add(message.bytes)
            .is_none_or(|end| end > memory.bytes)
        {
            return Err(EngineError::Mismatch { rank: Some(from) });
        }
        let process = Cma::of(self.map.processes[from.index()]);
        while self.reads_offers {
            let Some(piece) = offer.take(message) else {
                break;
            };
            let into = memory.slice(start + piece.start, piece.bytes);
            // SAFETY: this is the caller's receive buffer, and nobody else took this piece of it.
            match unsafe { process.read(message.source + piece.start as u64, into) } {
                Ok(()) => {
                    let target = (self.map.rank, slot, tag);
                    self.finish_piece(offer, piece, target, message.bytes);
                }
                // Memory that only its owner reaches, such as a device's registers. A peer that ended shows otherwise.
                Err(error) => self.leave_to_origin(offer, piece, &error),
            }
        }
        Ok(match self.arrived(slot, 0, tag) {
            Some(OFFERED) => Some(Blocked::Node),
            _ => None,
        })
    }

    fn finish_piece(
        &self,
        offer: Offer<'_>,
        piece: Piece,
        (to, slot, tag): (Rank, Slot, u64),
        bytes: usize,
    ) {
        if offer.finish(piece, bytes) {
            self.raise_node(to, slot, flag_value(tag, 1));
        }
    }

    #[cold]
    fn leave_to_origin(&mut self, offer: Offer<'_>, piece: Piece, error: &io::Error) {
        tracing::debug!(%error, "an offered message cannot be read: left to its origin");
        self.reads_offers = false;
        offer.give_back(piece);
        self.map.segment().doorbell().ring();
    }

    /// Has nobody begin to read memory that this rank is about to give back to its caller.
    pub(super) fn withdraw_offers(&mut self) {
        for Offered { message, offer, .. } in self.offered.drain(..) {
            offer.withdraw(message.bytes);
        }
    }
}
