//! What a lost lane owes: read back what arrived, and do the rest again.

use super::board::Line;
use super::journal::Entry;
use super::pair::{Loss, Pair, Phase, Recovery, Stage};
use super::{Failover, UNKNOWN};
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
            } => match self.read_back(pair, recovery, rail, &mut loss.pending, (next, ticket)) {
                None => {}
                Some(arrived) => {
                    let ended = *ended;
                    loss.pending.drain(..arrived);
                    let (name, left) = (&self.inner.rails()[rail].name, loss.pending.len());
                    tracing::debug!(
                        "rail {name} to {}: {arrived} operations had arrived, {left} had not",
                        pair.name()
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
        let settled = sent && self.all_complete(pair, recovery, rail, &mut loss.resent);
        (loss, settled)
    }

    /// Reads the proofs of arrival from the last entry backwards: operations of a lane take effect
    /// in order, so the last one that has arrived proves all before it. `Some(n)`: the first n have.
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
            match self.inner.is_complete(reading) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(_) => {
                    *ticket = None;
                    let via = reading.lane();
                    let broken = self.inner.breakage(via);
                    if broken.is_some_and(|broken| broken.refused == Some(reading.sequence)) {
                        // The owner has given that memory back: nobody waits for what is in it.
                        let held = |entry: &Entry| !entry.ends_with(&word);
                        *next = pending
                            .iter()
                            .take(*next)
                            .filter(|&entry| held(entry))
                            .count();
                        pending.retain(held);
                    }
                    self.lose_if_broken(pair, recovery, via.rail.index());
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
            Err(_) => {
                self.lose_if_broken(pair, recovery, via);
                None
            }
        }
    }

    /// Does the pending operations again, in order, all on one rail.
    fn resend(&self, pair: &Pair, recovery: &mut Recovery, rail: usize, loss: &mut Loss) {
        while let Some(entry) = loss.pending.front() {
            if entry.is_atomic() {
                pair.note_failed(recovery, rail, entry.sequence, UNKNOWN);
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
                    loss.resent.push((entry.sequence, ticket));
                    loss.pending.pop_front();
                    self.events[rail].resent.fetch_add(1, Ordering::Relaxed);
                }
                Err(FabricError::WouldBlock) => return,
                Err(error) if self.is_broken(lane, &error) => {
                    drop(journal);
                    self.lose_if_broken(pair, recovery, via);
                    return;
                }
                Err(error) => {
                    pair.note_failed(recovery, rail, entry.sequence, &error.to_string());
                    loss.pending.pop_front();
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
                match self.inner.is_complete(ticket) {
                    Ok(complete) => complete,
                    Err(_) => {
                        self.lose_if_broken(pair, recovery, via);
                        false
                    }
                }
            } else {
                let life = &recovery.lanes[via];
                !matches!(life.phase, Phase::Lost(_)) || ticket.sequence <= life.completed
            };
            if !complete {
                return false;
            }
            resent.pop();
        }
        true
    }
}
