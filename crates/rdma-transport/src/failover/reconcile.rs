//! What a failed lane owes: read back what arrived, and do the rest again.

use super::control_block::{Field, LANDINGS};
use super::journal::Entry;
use super::pair::{Pair, Phase, Recovery, Search, Stage, Unacknowledged};
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
            Stage::Searching(search) => {
                let via = pair.usable(rail);
                let mut reads = search.reads.iter();
                // A lane's reads land in their order: those under way are overtaken by none.
                if peer_ended
                    && !search.ended
                    && reads.all(|(_, _, read)| Some(read.rail.index()) == via)
                {
                    search.begin_anew();
                }
                if self.search(pair, recovery, rail, &mut owed.pending, search) {
                    let before = owed.pending.len();
                    owed.conclude();
                    if matches!(owed.stage, Stage::Resending) {
                        let (name, left) = (&self.rails()[rail].name, owed.pending.len());
                        let arrived = before - left;
                        tracing::debug!(
                            "rail {name} to {}: {arrived} operations had arrived, {left} had not",
                            pair.name()
                        );
                    }
                }
            }
            Stage::Resending => self.resend(pair, recovery, rail, &mut owed),
        }
        let sent = matches!(owed.stage, Stage::Resending) && owed.pending.is_empty();
        let reconciled = sent && self.all_complete(pair, recovery, rail, &mut owed.resent);
        (owed, reconciled)
    }

    /// Goes on with `search` in `pending`; whether it is over: the operations up to `search.arrived` have arrived,
    /// though what they read may not have come back.
    fn search(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        pending: &mut VecDeque<Entry>,
        search: &mut Search,
    ) -> bool {
        for &(sequence, _, read) in &search.reads {
            match read.outcome(&*self.inner) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(_) => {
                    let via = read.lane();
                    let broken = self.breakage(via);
                    if broken.is_some_and(|broken| broken.refused == Some(read.sequence))
                        && let Some(gone) = proof_of(pending, sequence)
                    {
                        // The owner has given that memory back: nobody waits for what is in it.
                        pending.retain(|entry| !entry.ends_with(&gone));
                    }
                    // Ended, it writes to no landing word any more.
                    self.mark_down_if_broken(pair, recovery, via.rail.index());
                    search.reads.clear();
                    return false;
                }
            }
        }
        let plane = self.plane(rail);
        for (place, (sequence, value, _)) in
            std::mem::take(&mut search.reads).into_iter().enumerate()
        {
            let seen = pair.word(Field::Landing(place), plane);
            search.found(sequence, seen.load(Ordering::Acquire) >= value);
        }
        self.read_proofs(pair, recovery, rail, pending, search)
    }

    /// Reads as many proofs of arrival as there are landing words, evenly spread over those that `search` has not
    /// decided, the last one among them; whether there is none.
    fn read_proofs(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        pending: &VecDeque<Entry>,
        search: &mut Search,
    ) -> bool {
        let undecided = pending
            .iter()
            .filter(|entry| search.is_open(entry.sequence));
        let proofs = undecided.filter_map(|entry| Some((entry.sequence, entry.proof()?)));
        let proofs: Vec<_> = proofs.collect();
        let Some(via) = pair.usable(rail) else {
            return proofs.is_empty();
        };
        for (place, chosen) in spread(proofs.len()).enumerate() {
            let (sequence, (word, value)) = &proofs[chosen];
            let from = RemoteSlice {
                region: word,
                offset: 0,
            };
            let into = pair.slice(Field::Landing(place), self.plane(rail));
            let (via_rail, op) = (RailId(via as u8), Op::get(from, into));
            // SAFETY: the landing word is this lane's and read only when the ticket is complete; the
            // peer holds its flags as long as it may be written to.
            match unsafe { self.inner.post(pair.id, via_rail, &op, Tracking::Tracked) } {
                Ok(ticket) => search.reads.push((*sequence, *value, ticket)),
                Err(_) => {
                    self.mark_down_if_broken(pair, recovery, via);
                    break;
                }
            }
        }
        proofs.is_empty()
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
                    pair.keep(error);
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

/// The word that proves the arrival of operation `sequence`, if that is `pending`.
fn proof_of(pending: &VecDeque<Entry>, sequence: u64) -> Option<RemoteRegion> {
    let entry = pending.iter().find(|entry| entry.sequence == sequence)?;
    Some(entry.proof()?.0)
}

/// Indexes below `count` to be read together, evenly spread, the last one among them.
fn spread(count: usize) -> impl Iterator<Item = usize> {
    let reads = count.min(LANDINGS);
    (1..=reads).map(move |read| read * count / reads - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last of thousands of operations to have arrived is found in a few rounds of reads, and where the last one
    /// has arrived in one.
    #[test]
    fn a_search_takes_few_rounds() {
        for count in [1, 2, 8, 9, 80, 5000_u64] {
            for arrived in [0, 1, count / 2, count - 1, count] {
                let mut search = Search::new(0);
                let mut rounds = 0;
                loop {
                    let open = (1..=count).filter(|&sequence| search.is_open(sequence));
                    let open: Vec<u64> = open.collect();
                    if open.is_empty() {
                        break;
                    }
                    for index in spread(open.len()) {
                        search.found(open[index], open[index] <= arrived);
                    }
                    rounds += 1;
                }
                assert_eq!(search.arrived, arrived);
                let most = if arrived == count { 1 } else { 5 };
                assert!(rounds <= most, "{arrived} of {count}: {rounds} rounds");
            }
        }
    }
}
