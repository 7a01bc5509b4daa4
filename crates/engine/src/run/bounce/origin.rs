//! The origin's side: a message in pieces.

use super::places::{HEADER_BYTES, Header, Places};
use super::{ATTEMPTS_MAX, Answer, Bounce};
use crate::EngineError;
use crate::run::message::{Word, link_to};
use crate::run::{Blocked, Run};
use crate::team::State;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::Ordering;
use ferrorail_base::{RailId, Rank};
use ferrorail_coll::Slot;
use ferrorail_fabric::stripe::{Stripes, flag_value};
use ferrorail_fabric::{
    Fabric, FabricError, LocalSlice, Notification, RAILS_MAX, RemoteSlice, Tracking,
};

/// A message that goes in pieces.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct Parcel {
    pub to: Rank,
    pub slot: Slot,
    /// What its flags hold, besides the number of chunks.
    pub mark: u64,
    /// Its bytes, in user memory.
    pub from: MemoryRange,
    /// Where they go in the memory that `to` announced.
    pub offset: usize,
}

/// How far a parcel is.
#[derive(Debug)]
pub(in crate::run) struct Outgoing {
    parcel: Parcel,
    /// Bytes that were taken.
    done: usize,
    /// The turn of the present piece, and which try of it that is.
    turn: u64,
    attempt: u8,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// To ask for the turn.
    Ask,
    /// To ring the bell, on the same rail.
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
    stripes: Stripes,
    posted: u8,
    /// The rail that carried each chunk.
    rails: [RailId; RAILS_MAX],
}

/// The mark of the flags of a piece: other than of any before it in the same area.
pub(super) const fn piece_mark(origin: Rank, turn: u64) -> u64 {
    (origin.0 as u64) << 32 | turn & 0xffff_ffff
}

/// Bits of a bell's value that hold the turn.
const TURN_BITS: u32 = 36;

/// What `origin` rings for `turn`: other than any ring before it.
const fn ring(origin: Rank, turn: u64) -> u64 {
    (origin.0 as u64) << TURN_BITS | turn & ((1 << TURN_BITS) - 1)
}

impl Outgoing {
    /// Who is to have it.
    pub fn to(&self) -> Rank {
        self.parcel.to
    }

    fn new(parcel: Parcel, bounce: &mut Bounce, ranks: u32) -> Self {
        bounce.make_room(ranks);
        Self {
            parcel,
            done: 0,
            turn: bounce.next_turn(parcel.to),
            attempt: 0,
            phase: Phase::Ask,
        }
    }
}

impl Bounce {
    fn next_turn(&mut self, to: Rank) -> u64 {
        let asked = &mut self.asked[to.index()];
        *asked += 1;
        *asked
    }
}

impl Run<'_> {
    /// Sends `parcel`, or goes on sending it: `None` when it has been taken.
    pub(in crate::run) fn bounce(
        &mut self,
        state: &mut State,
        parcel: Parcel,
    ) -> Result<Option<Blocked>, EngineError> {
        let begun = self.bouncing.take();
        let ranks = self.map.topology.size();
        let mut outgoing =
            begun.unwrap_or_else(|| Box::new(Outgoing::new(parcel, &mut state.bounce, ranks)));
        if self.push(state, &mut outgoing)? {
            let stats = self.map.context.stats();
            stats.bounced(parcel.from.bytes as u64);
            if self.map.settings.reliable {
                stats.checked();
            }
            return Ok(None);
        }
        self.bouncing = Some(outgoing);
        Ok(Some(Blocked::Rail))
    }

    /// Goes on as far as possible; true when all has been taken.
    fn push(&self, state: &mut State, outgoing: &mut Outgoing) -> Result<bool, EngineError> {
        let to = outgoing.parcel.to;
        let own = Places::of(self.map, self.map.rank);
        let answer = self.map.segment().segment().word(own.answer(to));
        loop {
            let turn = outgoing.turn;
            let answer = answer.load(Ordering::Acquire);
            outgoing.phase = match &mut outgoing.phase {
                Phase::Ask | Phase::Ring(_) => match self.ask(state, outgoing)? {
                    Some(phase) => phase,
                    None => return Ok(false),
                },
                Phase::Asked if answer == Answer::Granted.about(turn) => {
                    Phase::Send(self.lay_out(state, outgoing))
                }
                Phase::Send(sending) => match self.post_piece(state, to, turn, sending)? {
                    true => Phase::Sent(*sending),
                    false => return Ok(false),
                },
                Phase::Sent(_) if answer == Answer::Taken.about(turn) => {
                    state.bounce.moved += 1;
                    return Ok(true);
                }
                Phase::Sent(_) if answer == Answer::Granted.about(turn + 1) => {
                    state.bounce.moved += 1;
                    outgoing.done += self.piece(outgoing).bytes;
                    outgoing.turn = state.bounce.next_turn(to);
                    outgoing.attempt = 0;
                    Phase::Send(self.lay_out(state, outgoing))
                }
                Phase::Sent(sending) if answer == Answer::Damaged.about(turn) => {
                    self.note_damage(sending.rails[0], to);
                    outgoing.attempt += 1;
                    if outgoing.attempt == ATTEMPTS_MAX {
                        return Err(EngineError::Damaged {
                            from: self.map.rank,
                            to,
                            attempts: ATTEMPTS_MAX,
                        });
                    }
                    outgoing.turn = state.bounce.next_turn(to);
                    Phase::Ask
                }
                Phase::Asked | Phase::Sent(_) => return Ok(false),
            }
        }
    }

    /// Asks for the turn, and then rings; what comes next, or `None` if there is no room for it yet.
    fn ask(&self, state: &mut State, outgoing: &Outgoing) -> Result<Option<Phase>, EngineError> {
        let Outgoing { turn, parcel, .. } = *outgoing;
        let theirs = Places::of(self.map, parcel.to);
        let (rail, offset, value, next) = match outgoing.phase {
            Phase::Ring(rail) => {
                let value = ring(self.map.rank, turn);
                (rail, theirs.bell(), value, Phase::Asked)
            }
            _ => {
                let rail = self.next_rail(state, parcel.to);
                let offset = theirs.request(self.map.rank);
                (rail, offset, turn, Phase::Ring(rail))
            }
        };
        let to = parcel.to;
        let word = Word { to, offset, value };
        let posted = self.post_word(state, rail, word, Tracking::Silent)?;
        Ok(posted.map(|_| next))
    }

    /// The present piece, in user memory.
    fn piece(&self, outgoing: &Outgoing) -> MemoryRange {
        let most = Places::of(self.map, self.map.rank).piece_bytes();
        let Outgoing { parcel, done, .. } = outgoing;
        parcel.from.slice(*done, most.min(parcel.from.bytes - done))
    }

    /// Lays the present piece out where rails can read it. Where pieces are checked it is one chunk,
    /// so that what damages it has a name; it takes another rail each time.
    fn lay_out(&self, state: &mut State, outgoing: &Outgoing) -> Sending {
        let own = Places::of(self.map, self.map.rank);
        let checked = self.map.settings.reliable;
        let (parcel, piece) = (&outgoing.parcel, self.piece(outgoing));
        let segment = self.map.segment().segment().range();
        let area = segment.slice(own.outgoing(), HEADER_BYTES + piece.bytes);
        // SAFETY: the caller vouched for its buffer; nobody else writes the area, and the rails have
        // read what was in it, as that was taken.
        unsafe { piece.copy_to(area.slice(HEADER_BYTES, piece.bytes)) }
        let header = Header {
            mark: parcel.mark,
            offset: (parcel.offset + outgoing.done) as u64,
            bytes: piece.bytes as u64,
            slot: parcel.slot,
            last: outgoing.done + piece.bytes == parcel.from.bytes,
        };
        header.write(area, outgoing.turn, checked);
        let rails = self.rails();
        let stripes = if checked {
            let rail = self.next_rail(state, parcel.to).index() + usize::from(outgoing.attempt);
            Stripes::whole(RailId((rail % rails.local.len()) as u8), area.bytes as u64)
        } else {
            let link = link_to(&mut state.links, parcel.to);
            rails.plan(link, area.bytes as u64)
        };
        Sending {
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
        turn: u64,
        sending: &mut Sending,
    ) -> Result<bool, EngineError> {
        let own = Places::of(self.map, self.map.rank);
        let theirs = Places::of(self.map, to);
        let rails = self.rails();
        let link = *link_to(&mut state.links, to);
        let count = sending.stripes.count();
        while sending.posted < count {
            let index = sending.posted;
            let chunk = sending.stripes.chunks()[usize::from(index)];
            let from = LocalSlice {
                region: rails.region(),
                offset: own.outgoing() + chunk.offset as usize,
                bytes: chunk.bytes as usize,
            };
            let at = |offset| RemoteSlice {
                region: &link.segment,
                offset,
            };
            let into = at(theirs.incoming() + chunk.offset as usize);
            let notification = Notification {
                word: at(theirs.flag(index)),
                value: flag_value(piece_mark(self.map.rank, turn), count),
            };
            let rail = rails.local(chunk.rail);
            // SAFETY: the area is not written before the piece is taken; the target granted its own.
            let posted = unsafe {
                let fabric = &rails.fabric;
                fabric.put_notify(link.peer, rail, from, into, notification, Tracking::Silent)
            };
            match posted {
                // Not always the rail it was posted to: that may have failed.
                Ok(ticket) => sending.rails[usize::from(index)] = ticket.rail,
                Err(FabricError::WouldBlock) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            sending.posted += 1;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_and_flags_differ() {
        let mut rings = Vec::new();
        for rank in [0, 1, 70_000].map(Rank) {
            for turn in [1, 2, 1 << 31] {
                rings.push((ring(rank, turn), piece_mark(rank, turn)));
                assert!(
                    piece_mark(rank, turn) < 1 << 56,
                    "room for the number of chunks"
                );
            }
        }
        let all = rings.len();
        let (rings, marks): (Vec<u64>, Vec<u64>) = rings.into_iter().unzip();
        for mut part in [rings, marks] {
            part.sort_unstable();
            part.dedup();
            assert!(
                part.len() == all && part[0] > 0,
                "fresh memory says nothing"
            );
        }
    }
}
