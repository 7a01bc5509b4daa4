//! Copies inside the node that both ends make.
//!
//! A put into the user memory of a rank of this node is a copy by cross-memory attach, which one core makes at half
//! the speed of two. The target of a long one has nothing to do meanwhile: the origin offers it the copy, and both
//! take pieces until none is left, the one writing and the other reading. Who is late, or has lost its core, takes
//! fewer. The offer lies in the cell of the RTR that it answers, which nobody needs any more; the arrival flag
//! says [`OFFERED`] until the last piece is there.

use super::Run;
use crate::EngineError;
use crate::blocking_wait::Blocked;
use crate::team::map::Map;
use crate::team::state::State;
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_coll::Slot;
use ferrorail_fabric::stripe::flag_value;
use ferrorail_shm::Cma;
use std::io;

/// In place of the number of chunks: the message is offered, not there.
pub(super) const OFFERED: u8 = u8::MAX;

/// Shortest copy that is shared: below, the handshake takes longer than the second core saves.
const SHARED_BYTES_MIN: usize = 32 << 10;

/// How much of a copy of `bytes` bytes is taken at once. Each piece costs a system call and what the kernel does to find
/// the pages: 64 KB take 1.6 times as long as 32 KB.
///
/// Where ranks have a core each, pieces are a half of short copies, so that both ends have one, and a quarter of long
/// ones, up to a limit: who has to wait for the other's last one waits for no more than that. Where they share cores
/// nobody's is idle meanwhile, so a copy is not divided for the sake of its two ends.
fn piece_bytes(bytes: usize, has_cores: bool) -> usize {
    let (part, longest) = match (has_cores, bytes <= 128 << 10) {
        (true, true) => (2, PIECE_BYTES_MAX),
        (true, false) => (4, PIECE_BYTES_MAX),
        (false, _) => (1, PIECE_BYTES_MAX_SHARING),
    };
    (bytes / part)
        .clamp(PIECE_BYTES_MIN, longest)
        .next_multiple_of(PAGE)
}

const PIECE_BYTES_MIN: usize = 8 << 10;
const PIECE_BYTES_MAX: usize = 128 << 10;
/// The longest piece where ranks share cores.
const PIECE_BYTES_MAX_SHARING: usize = 256 << 10;
const PAGE: usize = 4096;

/// The words of a cell of an RTR while it holds an offer. Bytes are counted from the first of the message.
#[derive(Clone, Copy)]
struct Offer<'a>(&'a [AtomicU64]);

/// What is copied: an address in the origin's memory, one in the target's, a length and that of its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    source: u64,
    target: u64,
    bytes: usize,
    piece: usize,
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    start: usize,
    bytes: usize,
}

impl Offer<'_> {
    const SOURCE: usize = 0;
    const TARGET: usize = 1;
    const BYTES: usize = 2;
    /// First byte that nobody has taken.
    const NEXT: usize = 3;
    /// Number of bytes that are there.
    const DONE: usize = 4;
    /// Where the piece begins that the target could not read, plus one.
    const RETURNED: usize = 5;
    const PIECE: usize = 6;

    /// Lays out the offer of `message`; the flag that is raised next publishes it.
    fn make(self, message: Message) {
        let words = [
            message.source,
            message.target,
            message.bytes as u64,
            0,
            0,
            0,
            message.piece as u64,
        ];
        for (word, value) in self.0.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
    }

    fn message(self) -> Message {
        Message {
            source: self.0[Self::SOURCE].load(Ordering::Relaxed),
            target: self.0[Self::TARGET].load(Ordering::Relaxed),
            bytes: self.0[Self::BYTES].load(Ordering::Relaxed) as usize,
            piece: self.0[Self::PIECE].load(Ordering::Relaxed) as usize,
        }
    }

    /// The next piece of `message`.
    fn take(self, Message { bytes, piece, .. }: Message) -> Option<Piece> {
        let next = &self.0[Self::NEXT];
        // Who finds nothing left looks often; it is not to grow.
        if next.load(Ordering::Relaxed) >= bytes as u64 {
            return None;
        }
        let start = next.fetch_add(piece as u64, Ordering::AcqRel) as usize;
        (start < bytes).then(|| Piece {
            start,
            bytes: piece.min(bytes - start),
        })
    }

    /// Gives back what the target took and could not read. It takes nothing after that, so that there is one at most.
    fn give_back(self, piece: Piece) {
        self.0[Self::RETURNED].store(piece.start as u64 + 1, Ordering::Release);
    }

    /// What was given back of `message`, for the origin.
    fn returned(self, Message { bytes, piece, .. }: Message) -> Option<Piece> {
        let returned = &self.0[Self::RETURNED];
        let start = returned.load(Ordering::Acquire).checked_sub(1)? as usize;
        returned.store(0, Ordering::Relaxed);
        Some(Piece {
            start,
            bytes: piece.min(bytes - start),
        })
    }

    /// Counts `piece` as there; whether all of the message is.
    fn finish(self, piece: Piece, bytes: usize) -> bool {
        let done = self.0[Self::DONE].fetch_add(piece.bytes as u64, Ordering::AcqRel);
        done as usize + piece.bytes == bytes
    }

    fn is_done(self, bytes: usize) -> bool {
        self.0[Self::DONE].load(Ordering::Acquire) as usize == bytes
    }

    /// Leaves nothing to take.
    fn withdraw(self, bytes: usize) {
        self.0[Self::NEXT].store(bytes as u64, Ordering::Release);
    }
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
    Offer(segment.rtr(map.topology.node_rank_of(origin), channel, slot))
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
        if !self.offers || source.bytes < SHARED_BYTES_MIN {
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
            piece: piece_bytes(source.bytes, self.map.has_cores),
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
        self.offered
            .retain(|one| !one.offer.is_done(one.message.bytes));
        Ok(copied)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize, has_cores: bool) -> Message {
        Message {
            source: 1,
            target: 2,
            bytes,
            piece: piece_bytes(bytes, has_cores),
        }
    }

    fn pieces_cover_once(message: Message) {
        let words: [AtomicU64; 8] = Default::default();
        let offer = Offer(&words);
        offer.make(message);
        assert_eq!(offer.message(), message);
        let (mut end, mut given_back) = (0, None);
        while let Some(piece) = offer.take(message) {
            assert_eq!(piece.start, end);
            end += piece.bytes;
            match given_back {
                None => given_back = Some(piece),
                Some(_) => assert!(!offer.finish(piece, message.bytes)),
            }
        }
        assert_eq!(end, message.bytes);
        let first = given_back.expect("a piece");
        assert_eq!(offer.returned(message), None);
        offer.give_back(first);
        assert_eq!(offer.returned(message), Some(first));
        assert_eq!(offer.returned(message), None);
        assert!(offer.finish(first, message.bytes) && offer.is_done(message.bytes));
    }

    #[test]
    fn pieces_cover_a_message_once() {
        for bytes in [SHARED_BYTES_MIN, 20_001, 100_000, 1 << 20, (5 << 20) + 1] {
            pieces_cover_once(message(bytes, true));
            pieces_cover_once(message(bytes, false));
        }
    }

    #[test]
    fn both_ends_have_pieces_where_both_have_cores() {
        let pieces = |bytes, has_cores| bytes as f64 / piece_bytes(bytes, has_cores) as f64;
        assert_eq!(pieces(64 << 10, true), 2.0);
        assert_eq!(pieces(1 << 20, true), 8.0);
        assert_eq!(pieces(64 << 10, false), 1.0);
        assert_eq!(pieces(1 << 20, false), 4.0);
    }

    #[test]
    fn nothing_is_taken_after_a_withdrawal() {
        let words: [AtomicU64; 8] = Default::default();
        let offer = Offer(&words);
        let message = message(1 << 20, true);
        offer.make(message);
        assert!(offer.take(message).is_some());
        offer.withdraw(message.bytes);
        assert_eq!(offer.take(message), None);
    }
}
