//! The origin's side: a message in pieces.

use super::places::{HEADER_BYTES, Header, Layout};
use super::transfers::{Answer, StagedTransfers};
use crate::EngineError;
use crate::blocking_wait::Blocked;
use crate::run::Run;
use crate::run::checked::{ATTEMPTS_MAX, damaged};
use crate::run::message::link_to;
use crate::team::state::State;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::Ordering;
use ferrorail_base::{RailId, Rank};
use ferrorail_coll::Slot;
use ferrorail_fabric::stripe::{Stripes, flag_value};
use ferrorail_fabric::{Notification, Op, RAILS_MAX, Tracking};
use zerocopy::FromZeros;

/// A message that goes in pieces.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct StagedRequest {
    pub to: Rank,
    pub slot: Slot,
    /// What its flags hold, besides the number of chunks.
    pub tag: u64,
    /// Its bytes, in user memory.
    pub from: MemoryRange,
    /// Where they go in the memory that `to` announced.
    pub offset: usize,
}

/// How far a request is.
#[derive(Debug)]
pub(in crate::run) struct Outgoing {
    request: StagedRequest,
    /// Bytes that were taken.
    done: usize,
    /// Which try of the present piece this is.
    attempt: u8,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// To ask for the credit.
    Ask,
    /// To ring the doorbell, on the same rail.
    Ring(RailId),
    /// Waiting for the area.
    Asked,
    /// Posting the piece.
    Send(Sending),
    /// Waiting for what becomes of it, and the rails it took.
    Sent(Sending),
}

#[derive(Clone, Copy, Debug)]
struct Sending {
    /// The grant that it has, which its flags hold: other than those of any piece before it.
    grant: u64,
    stripes: Stripes,
    posted: u8,
    /// The rail that carried each chunk.
    rails: [RailId; RAILS_MAX],
}

/// Bits of a doorbell's value that hold the number of the ring.
const RING_BITS: u32 = 36;

/// What `origin` rings the `number`-th time: other than any ring before it. It does not rise, as many
/// origins ring a doorbell, and so proves nothing.
const fn ring(origin: Rank, number: u64) -> u64 {
    (origin.0 as u64) << RING_BITS | number & ((1 << RING_BITS) - 1)
}

impl Outgoing {
    /// Who is to have it.
    pub fn to(&self) -> Rank {
        self.request.to
    }

    fn new(request: StagedRequest, staged: &mut StagedTransfers, ranks: u32) -> Self {
        staged.resize_to(ranks);
        staged.asked[request.to.index()] += 1;
        Self {
            request,
            done: 0,
            attempt: 0,
            phase: Phase::Ask,
        }
    }
}

impl Run<'_> {
    /// Sends `request`, or goes on sending it: `None` when it has been taken.
    pub(in crate::run) fn staged(
        &mut self,
        state: &mut State,
        request: StagedRequest,
    ) -> Result<Option<Blocked>, EngineError> {
        let begun = self.staging.take();
        let ranks = self.map.topology.size();
        let mut outgoing =
            begun.unwrap_or_else(|| Box::new(Outgoing::new(request, &mut state.staged, ranks)));
        if self.push(state, &mut outgoing)? {
            let stats = self.map.context.stats();
            stats.staged(request.from.bytes as u64);
            if self.map.settings.reliable {
                stats.checked.add(1);
            }
            return Ok(None);
        }
        self.staging = Some(outgoing);
        Ok(Some(Blocked::Rail))
    }

    /// Goes on as far as possible; true when all has been taken.
    fn push(&self, state: &mut State, outgoing: &mut Outgoing) -> Result<bool, EngineError> {
        let to = outgoing.request.to;
        let own = Layout::of(self.map, self.map.rank);
        let answer = self.map.segment().segment().word(own.answer(to));
        loop {
            let answer = answer.load(Ordering::Acquire);
            let granted = Answer::granted(answer);
            outgoing.phase = match (&mut outgoing.phase, granted) {
                (Phase::Ask, _) => match self.ask(state, to)? {
                    Some(rail) => Phase::Ring(rail),
                    None => return Ok(false),
                },
                (Phase::Ring(rail), _) => match self.ring(state, to, *rail)? {
                    true => Phase::Asked,
                    false => return Ok(false),
                },
                // What was answered before was no grant.
                (Phase::Asked, Some(grant)) => Phase::Send(self.lay_out(state, outgoing, grant)),
                (Phase::Send(sending), _) => match self.post_piece(state, to, sending)? {
                    true => Phase::Sent(*sending),
                    false => return Ok(false),
                },
                (Phase::Sent(sending), _) if answer == Answer::Taken.about(sending.grant) => {
                    state.staged.moved += 1;
                    return Ok(true);
                }
                (Phase::Sent(sending), Some(grant)) if grant > sending.grant => {
                    state.staged.moved += 1;
                    outgoing.done += self.piece(outgoing).bytes;
                    state.staged.asked[to.index()] += 1;
                    outgoing.attempt = 0;
                    Phase::Send(self.lay_out(state, outgoing, grant))
                }
                (Phase::Sent(sending), _) if answer == Answer::Damaged.about(sending.grant) => {
                    self.note_damage(sending.rails[0], to);
                    outgoing.attempt += 1;
                    if outgoing.attempt == ATTEMPTS_MAX {
                        return Err(damaged(self.map.rank, to));
                    }
                    state.staged.asked[to.index()] += 1;
                    Phase::Ask
                }
                (Phase::Asked | Phase::Sent(_), _) => return Ok(false),
            }
        }
    }

    /// Asks for a credit; the rail that says so, or `None` if there is no room for it yet.
    fn ask(&self, state: &mut State, to: Rank) -> Result<Option<RailId>, EngineError> {
        let offset = Layout::of(self.map, to).request(self.map.rank);
        let credit = state.staged.asked[to.index()];
        self.tell(state, to, (offset, credit), Tracking::Silent)
    }

    /// Rings the doorbell of `to`, behind what was asked; false if there is no room for it yet. No notification: a
    /// word that many raise cannot prove what has arrived.
    fn ring(&self, state: &mut State, to: Rank, rail: RailId) -> Result<bool, EngineError> {
        let rails = self.rails();
        let own = Layout::of(self.map, self.map.rank).ring();
        let number = state.staged.rings + 1;
        let word = self.map.segment().segment().word(own);
        // A rail that has not read the last value yet takes this one, which is as new to its target.
        word.store(ring(self.map.rank, number), Ordering::Release);
        let link = link_to(&mut state.links, to);
        let doorbell = link.at(Layout::of(self.map, to).doorbell());
        let op = Op::ordered(rails.slice(own, size_of::<u64>()), doorbell);
        // SAFETY: both words belong to registered segments, and only atomics touch them.
        let posted = unsafe { rails.post(link, rail, &op, Tracking::Silent) }?;
        if posted.is_some() {
            state.staged.rings = number;
        }
        Ok(posted.is_some())
    }

    /// The present piece, in user memory.
    fn piece(&self, outgoing: &Outgoing) -> MemoryRange {
        let most = Layout::of(self.map, self.map.rank).piece_bytes();
        let Outgoing { request, done, .. } = outgoing;
        request
            .from
            .slice(*done, most.min(request.from.bytes - done))
    }

    /// Lays the present piece out where rails can read it. Where pieces are checked it is one chunk,
    /// so that what damages it has a name; it takes another rail each time.
    fn lay_out(&self, state: &mut State, outgoing: &Outgoing, grant: u64) -> Sending {
        let own = Layout::of(self.map, self.map.rank);
        let checked = self.map.settings.reliable;
        let (request, piece) = (&outgoing.request, self.piece(outgoing));
        let segment = self.map.segment().segment().range();
        let area = segment.slice(own.outgoing(), HEADER_BYTES + piece.bytes);
        // SAFETY: the caller vouched for its buffer; nobody else writes the area, and the rails have
        // read what was in it, as that was taken.
        unsafe { piece.copy_to(area.slice(HEADER_BYTES, piece.bytes)) }
        let header = Header {
            tag: request.tag.into(),
            offset: ((request.offset + outgoing.done) as u64).into(),
            bytes: (piece.bytes as u64).into(),
            slot: request.slot.into(),
            last: (outgoing.done + piece.bytes == request.from.bytes).into(),
            ..Header::new_zeroed()
        };
        header.write(area, grant, checked);
        let rails = self.rails();
        let stripes = if checked {
            let rail = self.next_rail(state, request.to).index() + usize::from(outgoing.attempt);
            Stripes::whole(RailId((rail % rails.local.len()) as u8), area.bytes as u64)
        } else {
            let link = link_to(&mut state.links, request.to);
            rails.plan(&mut state.rail_turn, link, area.bytes as u64)
        };
        Sending {
            grant,
            stripes,
            posted: 0,
            rails: [RailId(0); RAILS_MAX],
        }
    }

    /// Posts what is left of a piece; true when that is all.
    fn post_piece(
        &self,
        state: &mut State,
        to: Rank,
        sending: &mut Sending,
    ) -> Result<bool, EngineError> {
        let own = Layout::of(self.map, self.map.rank);
        let theirs = Layout::of(self.map, to);
        let rails = self.rails();
        let link = &*link_to(&mut state.links, to);
        let count = sending.stripes.count();
        while sending.posted < count {
            let index = sending.posted;
            let chunk = sending.stripes.chunks()[usize::from(index)];
            let offset = chunk.offset as usize;
            let from = rails.slice(own.outgoing() + offset, chunk.bytes as usize);
            let notification = Notification {
                word: link.at(theirs.flag(index)),
                value: flag_value(sending.grant, count),
            };
            let op = Op::notify(from, link.at(theirs.incoming() + offset), notification);
            // SAFETY: the area is not written before the piece is taken; the target granted its own.
            let posted = unsafe { rails.post(link, chunk.rail, &op, Tracking::Silent) }?;
            let Some(ticket) = posted else {
                return Ok(false);
            };
            // Not always the rail it was posted to: that may have failed.
            sending.rails[usize::from(index)] = ticket.rail;
            sending.posted += 1;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_differ() {
        let ranks = [0, 1, 70_000].map(Rank);
        let ring = |rank| [1, 2, 1 << 31].map(|number| ring(rank, number));
        let mut rings: Vec<u64> = ranks.into_iter().flat_map(ring).collect();
        let all = rings.len();
        rings.sort_unstable();
        rings.dedup();
        assert!(
            rings.len() == all && rings[0] > 0,
            "fresh memory says nothing"
        );
    }
}
