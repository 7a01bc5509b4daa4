//! The target's side: who has the credit, and what becomes of the pieces.

use super::places::{HEADER_BYTES, Header, Layout};
use super::transfers::{Answer, Incoming, Phase};
use crate::EngineError;
use crate::run::Run;
use crate::run::checked::{ATTEMPTS_MAX, damaged, staged_flag};
use crate::tag::number;
use crate::team::state::State;
use ferrorail_base::Rank;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::Tracking;
use ferrorail_fabric::stripe::{flag_parts, flag_value};

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
                        return Err(damaged(from, self.map.rank));
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
        let (tag, slot) = (header.tag.get(), header.slot.get());
        let bytes = header.bytes.get() as usize;
        let offset = usize::try_from(header.offset.get()).map_err(|_| mismatch())?;
        let inside = offset <= memory.bytes && bytes <= memory.bytes - offset;
        let known = number(tag) == number(self.op) && slot < segment.geometry().slots;
        if !inside || !known {
            return Err(mismatch());
        }
        // SAFETY: the piece has come, and its origin sends nothing more until it is told; the caller
        // vouched for its buffer, and the verified schedule orders this write as the message's.
        unsafe {
            area.slice(HEADER_BYTES, bytes)
                .copy_to(memory.slice(offset, bytes));
        }
        if header.last == 0 {
            // The next credit is asked for as well, and its grant says that this piece was taken.
            state.staged.wanted[from.index()] = credit + 1;
            state.staged.waiting = true;
            return Ok(None);
        }
        let flag = segment.arrival(self.map.node_rank, self.channel, slot, 0);
        let value = flag_value(tag, staged_flag(checked));
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
        let told = self.tell(state, to, (offset, value), tracking)?;
        Ok(told.is_some())
    }
}
