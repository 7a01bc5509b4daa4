//! What a lost lane owes: read back what arrived, and do the rest again.

use super::Failover;
use super::board::Line;
use super::journal::Entry;
use super::pair::{Loss, Pair, Phase, Recovery, Stage};
use ferrorail_base::RailId;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::{FabricError, Lanes, RemoteRegion, RemoteSlice, Ticket};
use std::collections::VecDeque;

impl<F: Lanes> Failover<F> {
    /// One pass over what a lost lane owes; whether nothing is owed any more.
    pub(super) fn settle(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        peer_ended: bool,
        mut loss: Loss,
    ) -> (Loss, bool) {
        match &mut loss.stage {
            Stage::Reading {
                next,
                ticket,
                ended,
            } => match self.read_back(pair, recovery, rail, &loss.pending, (next, ticket)) {
                None => {}
                Some(arrived) => {
                    let ended = *ended;
                    loss.pending.drain(..arrived);
                    let (name, left) = (&self.inner.rails()[rail].name, loss.pending.len());
                    tracing::debug!(
                        "rail {name} to {}: {arrived} operations had arrived, {left} had not",
                        pair.name
                    );
                    let harmless = loss.pending.iter().all(Entry::is_harmless);
                    loss.stage = match ended || harmless {
                        true => Stage::Resending,
                        false => Stage::Waiting,
                    };
                }
            },
            Stage::Waiting if peer_ended => {
                loss.stage = Stage::Reading {
                    next: loss.pending.len(),
                    ticket: None,
                    ended: true,
                };
            }
            Stage::Waiting => {}
            Stage::Resending => self.resend(pair, recovery, rail, &mut loss),
        }
        let sent = matches!(loss.stage, Stage::Resending) && loss.pending.is_empty();
        let settled = sent && self.all_complete(pair, recovery, &mut loss.resent);
        (loss, settled)
    }

    /// Reads the proofs of arrival from the last entry backwards: operations of a lane take effect
    /// in order, so the last one that has arrived proves all before it. `Some(n)`: the first n have.
    fn read_back(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        pending: &VecDeque<Entry>,
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
            match self.inner.is_complete(reading) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(_) => {
                    *ticket = None;
                    self.lose_if_broken(pair, recovery, reading.rail.index());
                    return None;
                }
            }
            *ticket = None;
            let seen = pair.word(Line::Landing, plane).load(Ordering::Acquire);
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
        let into = pair.slice(Line::Landing, self.plane(rail));
        // SAFETY: the landing word is this lane's and read only when the ticket is complete; the
        // peer holds its flags as long as it may be written to.
        match unsafe { self.inner.get(pair.id, RailId(via as u8), from, into) } {
            Ok(ticket) => Some(ticket),
            Err(FabricError::LaneDown { .. }) => {
                self.lose_if_broken(pair, recovery, via);
                None
            }
            Err(_) => None,
        }
    }

    /// Does the pending operations again, in order, all on one rail.
    fn resend(&self, pair: &Pair, recovery: &mut Recovery, rail: usize, loss: &mut Loss) {
        while let Some(entry) = loss.pending.front() {
            if entry.is_atomic() {
                pair.note_unknown(recovery, rail, entry.sequence);
                loss.pending.pop_front();
                continue;
            }
            let Some(via) = pair.usable(rail) else { return };
            let lane = self.lane(pair, via);
            let mut journal = pair.journal(via);
            // SAFETY: the operation has not completed, so its memory is still the fabric's.
            match unsafe { entry.post(&self.inner, lane) } {
                Ok(ticket) => {
                    journal.record(*entry, ticket.sequence, self.inner.completed(lane));
                    loss.resent.push(ticket);
                    loss.pending.pop_front();
                    self.events[rail].resent.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    drop(journal);
                    if let FabricError::LaneDown { .. } = error {
                        self.lose_if_broken(pair, recovery, via);
                    }
                    return;
                }
            }
        }
    }

    /// Whether everything in `tickets` is complete, also if another failure came in between.
    fn all_complete(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        tickets: &mut Vec<Ticket>,
    ) -> bool {
        while let Some(&ticket) = tickets.last() {
            let rail = ticket.rail.index();
            let complete = if pair.is_up(rail) {
                match self.inner.is_complete(ticket) {
                    Ok(complete) => complete,
                    Err(_) => {
                        self.lose_if_broken(pair, recovery, rail);
                        false
                    }
                }
            } else {
                let life = &recovery.lanes[rail];
                !matches!(life.phase, Phase::Lost(_)) || ticket.sequence <= life.completed
            };
            if !complete {
                return false;
            }
            tickets.pop();
        }
        true
    }
}
