//! The target's side: who has the credit, and what becomes of the pieces.

use super::places::{HEADER_BYTES, Header, Layout};
use super::{ATTEMPTS_MAX, Answer, StagedTransfers};
use crate::EngineError;
use crate::run::Run;
use crate::run::checked::staged_flag;
use crate::run::message::Word;
use crate::run::tag::number;
use crate::team::State;
use ferrorail_base::Rank;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::Tracking;
use ferrorail_fabric::stripe::{flag_parts, flag_value};

/// The origin that has the area.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    from: Rank,
    /// Its credit, as it asked for it.
    credit: u64,
    /// Number of the grant: higher than any before it, to whomever.
    grant: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// To be told that it has the credit.
    Grant,
    /// Its piece is on the way.
    Granted,
    /// To be told what became of it.
    Tell(Answer),
}

impl Incoming {
    /// Whose piece it is.
    pub fn from(&self) -> Rank {
        self.from
    }
}

impl StagedTransfers {
    /// Who has the credit: who has the area, or else the next that has asked.
    fn present(&mut self) -> Option<Incoming> {
        if self.incoming.is_none() {
            let (from, credit) = self.next()?;
            self.grants += 1;
            self.incoming = Some(Incoming {
                from,
                credit,
                grant: self.grants,
                phase: Phase::Grant,
            });
        }
        self.incoming
    }

    /// The next rank that has asked, and its credit.
    fn next(&mut self) -> Option<(Rank, u64)> {
        let ranks = self.wanted.len() as u32;
        let after = |step| (self.last + step) % ranks;
        let asks = |rank: &u32| self.wanted[*rank as usize] > self.served[*rank as usize];
        let next = (1..=ranks).map(after).find(asks);
        self.waiting = next.is_some();
        let next = next?;
        self.last = next;
        Some((Rank(next), self.wanted[next as usize]))
    }
}

impl Run<'_> {
    /// Lets peers stage what they have for this rank, if one has asked. Does not wait.
    #[inline]
    pub(in crate::run) fn serve(&self, state: &mut State) -> Result<(), EngineError> {
        let own = Layout::of(self.map, self.map.rank);
        let doorbell = self.map.segment().segment().word(own.doorbell());
        let doorbell = doorbell.load(Ordering::Acquire);
        if doorbell == state.staged.doorbell && state.staged.is_idle() {
            return Ok(());
        }
        self.serve_in_turn(state, own, doorbell)
    }

    #[cold]
    fn serve_in_turn(
        &self,
        state: &mut State,
        own: Layout,
        doorbell: u64,
    ) -> Result<(), EngineError> {
        if doorbell != state.staged.doorbell {
            state.staged.doorbell = doorbell;
            self.read_requests(state, own);
        }
        while let Some(incoming) = state.staged.present() {
            let Incoming { from, grant, .. } = incoming;
            let over = match incoming.phase {
                Phase::Grant => {
                    if !self.answer(state, from, Answer::Granted.about(grant), Tracking::Silent)? {
                        return Ok(());
                    }
                    Some(Phase::Granted)
                }
                Phase::Granted if !self.piece_has_come(own, grant) => return Ok(()),
                Phase::Granted => self.take_piece(state, own, &incoming)?.map(Phase::Tell),
                Phase::Tell(answer) => {
                    // The origin has to know before this rank goes its own way.
                    if !self.answer(state, from, answer.about(grant), Tracking::Tracked)? {
                        return Ok(());
                    }
                    if state.staged.damaged[from.index()] == ATTEMPTS_MAX {
                        return Err(EngineError::Damaged {
                            from,
                            to: self.map.rank,
                            attempts: ATTEMPTS_MAX,
                        });
                    }
                    None
                }
            };
            state.staged.incoming = over.map(|phase| Incoming { phase, ..incoming });
            if over.is_none() {
                state.staged.served[from.index()] = incoming.credit;
            }
        }
        Ok(())
    }

    /// Takes note of who asks.
    fn read_requests(&self, state: &mut State, own: Layout) {
        let topology = &self.map.topology;
        state.staged.resize_to(topology.size());
        let segment = self.map.segment().segment();
        for rank in (0..topology.size()).map(Rank) {
            let asked = segment.word(own.request(rank)).load(Ordering::Acquire);
            let wanted = &mut state.staged.wanted[rank.index()];
            *wanted = asked.max(*wanted);
        }
        state.staged.waiting = true;
    }

    fn piece_has_come(&self, own: Layout, grant: u64) -> bool {
        let flag = |chunk| {
            let flag = self.map.segment().segment().word(own.flag(chunk));
            flag_parts(flag.load(Ordering::Acquire))
        };
        let (tag, chunks) = flag(0);
        tag == grant && (1..chunks).all(|chunk| flag(chunk).0 == grant)
    }

    /// Copies a piece to where it belongs. What is to be told; nothing if the next credit tells it.
    fn take_piece(
        &self,
        state: &mut State,
        own: Layout,
        incoming: &Incoming,
    ) -> Result<Option<Answer>, EngineError> {
        let &Incoming {
            from,
            credit,
            grant,
            ..
        } = incoming;
        state.staged.moved += 1;
        let checked = self.map.settings.reliable;
        let mismatch = || EngineError::Mismatch { rank: Some(from) };
        let segment = self.map.segment();
        let area = HEADER_BYTES + own.piece_bytes();
        let area = segment.segment().range().slice(own.incoming(), area);
        let Some(header) = Header::read(area, grant, checked) else {
            return match checked {
                true => {
                    state.staged.damaged[from.index()] += 1;
                    Ok(Some(Answer::Damaged))
                }
                false => Err(mismatch()),
            };
        };
        state.staged.damaged[from.index()] = 0;
        let memory = self.rtr_memory(from);
        let bytes = header.bytes as usize;
        let offset = usize::try_from(header.offset).map_err(|_| mismatch())?;
        let inside = offset <= memory.bytes && bytes <= memory.bytes - offset;
        let known = number(header.tag) == number(self.op) && header.slot < segment.layout().slots;
        if !inside || !known {
            return Err(mismatch());
        }
        // SAFETY: the piece has come, and its origin sends nothing more until it is told; the caller
        // vouched for its buffer, and the verified schedule orders this write as the message's.
        unsafe {
            area.slice(HEADER_BYTES, bytes)
                .copy_to(memory.slice(offset, bytes));
        }
        if !header.last {
            // The next credit is asked for as well, and its grant says that this piece was taken.
            state.staged.wanted[from.index()] = credit + 1;
            state.staged.waiting = true;
            return Ok(None);
        }
        let flag = segment.arrival(self.map.node_rank, self.channel, header.slot, 0);
        let value = flag_value(header.tag, staged_flag(checked));
        flag.raise(value);
        Ok(Some(Answer::Taken))
    }

    /// Puts an answer to `to`; false if there is no room for it yet.
    fn answer(
        &self,
        state: &mut State,
        to: Rank,
        value: u64,
        tracking: Tracking,
    ) -> Result<bool, EngineError> {
        let offset = Layout::of(self.map, to).answer(self.map.rank);
        let rail = self.next_rail(state, to);
        let word = Word { to, offset, value };
        let ticket = self.post_word(state, rail, word, tracking)?;
        if tracking == Tracking::Tracked {
            state.tickets.extend(ticket);
        }
        Ok(ticket.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_served_in_turn() {
        let mut staged = StagedTransfers::default();
        staged.resize_to(4);
        assert_eq!(staged.next(), None);
        staged.wanted = vec![0, 3, 0, 1];
        assert_eq!(staged.next(), Some((Rank(1), 3)));
        staged.served[1] = 3;
        staged.wanted[1] = 4;
        assert_eq!(staged.next(), Some((Rank(3), 1)), "the others first");
        staged.served[3] = 1;
        assert_eq!(staged.next(), Some((Rank(1), 4)));
        staged.served[1] = 4;
        assert!(!staged.is_idle());
        assert!(staged.present().is_none());
        assert!(staged.is_idle());
    }
}
