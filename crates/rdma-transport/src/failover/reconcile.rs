//! What a failed lane owes: read back what arrived, and do the rest again.

use super::control_block::Field;
use super::journal::Entry;
use super::pair::{Pair, Phase, Recovery, Stage, Unacknowledged, retain};
use super::{Failover, UNKNOWN};
use ferrorail_base::RailId;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::{FabricError, Op, RemoteRegion, RemoteSlice, Ticket, Tracking};
use std::collections::VecDeque;

impl Failover {
    /// One pass over what a failed lane owes; whether nothing is owed any more.
    pub(super) fn reconcile(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        peer_ended: bool,
        mut owed: Unacknowledged,
    ) -> (Unacknowledged, bool) {
        match &mut owed.stage {
            Stage::Reading {
                next,
                ticket,
                ended,
            } => match self.read_back(pair, recovery, rail, &mut owed.pending, (next, ticket)) {
                None => {}
                Some(arrived) => {
                    let ended = *ended;
                    let (before, mut place) = (owed.pending.len(), 0);
                    owed.pending.retain(|entry| {
                        place += 1;
                        place > arrived || entry.has_result()
                    });
                    let (name, left) = (&self.rails()[rail].name, owed.pending.len());
                    let arrived = before - left;
                    tracing::debug!(
                        "rail {name} to {}: {arrived} operations had arrived, {left} had not",
                        pair.name()
                    );
                    let harmless = owed.pending.iter().all(Entry::is_harmless);
                    owed.stage = match ended || harmless {
                        true => Stage::Resending,
                        false => Stage::Waiting,
                    };
                }
            },
            Stage::Waiting if peer_ended => {
                owed.stage = Stage::Reading {
                    next: owed.pending.len(),
                    ticket: None,
                    ended: true,
                };
            }
            Stage::Waiting => {}
            Stage::Resending => self.resend(pair, recovery, rail, &mut owed),
        }
        let sent = matches!(owed.stage, Stage::Resending) && owed.pending.is_empty();
        let reconciled = sent && self.all_complete(pair, recovery, rail, &mut owed.resent);
        (owed, reconciled)
    }

    /// Reads the proofs of arrival from the last entry backwards: operations of a lane take effect
    /// in order, so the last one that has arrived proves all before it. `Some(n)`: the first n have, though what
    /// they read may not have come back.
    fn read_back(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        pending: &mut VecDeque<Entry>,
        (next, ticket): (&mut usize, &mut Option<Ticket>),
    ) -> Option<usize> {
        let plane = self.plane(rail);
        while *next > 0 {
            let Some((word, value)) = pending[*next - 1].proof() else {
                *next -= 1;
                continue;
            };
            let Some(reading) = *ticket else {
                *ticket = self.read(pair, recovery, rail, &word);
                return None;
            };
            match reading.outcome(&*self.inner) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(_) => {
                    *ticket = None;
                    let via = reading.lane();
                    let broken = self.breakage(via);
                    if broken.is_some_and(|broken| broken.refused == Some(reading.sequence)) {
                        // The owner has given that memory back: nobody waits for what is in it.
                        retain(pending, next, |entry| !entry.ends_with(&word));
                    }
                    self.mark_down_if_broken(pair, recovery, via.rail.index());
                    return None;
                }
            }
            *ticket = None;
            let seen = pair.word(Field::Landing, plane).load(Ordering::Acquire);
            if seen >= value {
                return Some(*next);
            }
            *next -= 1;
        }
        Some(0)
    }

    fn read(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        word: &RemoteRegion,
    ) -> Option<Ticket> {
        let via = pair.usable(rail)?;
        let from = RemoteSlice {
            region: word,
            offset: 0,
        };
        let into = pair.slice(Field::Landing, self.plane(rail));
        let (rail, op) = (RailId(via as u8), Op::get(from, into));
        // SAFETY: the landing word is this lane's and read only when the ticket is complete; the
        // peer holds its flags as long as it may be written to.
        match unsafe { self.inner.post(pair.id, rail, &op, Tracking::Tracked) } {
            Ok(ticket) => Some(ticket),
            Err(_) => {
                self.mark_down_if_broken(pair, recovery, via);
                None
            }
        }
    }

    /// Does the pending operations again, in order, all on one rail.
    fn resend(&self, pair: &Pair, recovery: &mut Recovery, rail: usize, owed: &mut Unacknowledged) {
        while let Some(entry) = owed.pending.front() {
            if entry.is_atomic() {
                pair.note_failed(recovery, rail, entry.sequence, UNKNOWN);
                owed.pending.pop_front();
                continue;
            }
            let Some(via) = pair.usable(rail) else { return };
            let lane = self.lane(pair, via);
            let mut journal = pair.journals[via].lock();
            // SAFETY: the operation has not completed, so its memory is still the fabric's.
            match unsafe { entry.post(self.inner(), lane) } {
                Ok(ticket) => {
                    let again = entry.numbered(ticket.sequence);
                    journal.record(again, self.completed(lane));
                    owed.resent.push((entry.sequence, ticket));
                    owed.pending.pop_front();
                    self.events[rail].resent.fetch_add(1, Ordering::Relaxed);
                }
                Err(FabricError::WouldBlock) => return,
                Err(error) if self.is_broken(lane, &error) => {
                    drop(journal);
                    self.mark_down_if_broken(pair, recovery, via);
                    return;
                }
                Err(error) => {
                    pair.note_failed(recovery, rail, entry.sequence, &error.to_string());
                    owed.pending.pop_front();
                    self.keep(error);
                }
            }
        }
    }

    /// Whether everything in `resent` is complete, also if another failure came in between.
    fn all_complete(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        resent: &mut Vec<(u64, Ticket)>,
    ) -> bool {
        while let Some(&(sequence, ticket)) = resent.last() {
            let via = ticket.rail.index();
            let failure = recovery.lanes[via].failure(ticket.sequence);
            let complete = if let Some(status) = failure.map(str::to_owned) {
                pair.note_failed(recovery, rail, sequence, &status);
                true
            } else if pair.is_up(via) {
                match ticket.outcome(&*self.inner) {
                    Ok(complete) => complete,
                    Err(_) => {
                        self.mark_down_if_broken(pair, recovery, via);
                        false
                    }
                }
            } else {
                let state = &recovery.lanes[via];
                !matches!(state.phase, Phase::Failed(_)) || ticket.sequence <= state.completed
            };
            if !complete {
                return false;
            }
            resent.pop();
        }
        true
    }
}
