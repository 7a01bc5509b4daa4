//! Leaving a team.
//!
//! A rank that frees a communicator may be far ahead of others: what they still send it, or read of
//! its memory, must find that. So a team between nodes that was retired stays until every rank has said
//! that it is done with it, and each says so when all that it sent has arrived. Nobody waits for that
//! but the end of the process.

use super::Team;
use super::flush::Flush;
use super::state::{Leaving, Life, State};
use crate::Context;
use crate::blocking_wait::status;
use ferrorail_fabric::Endpoint;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often who waits for others to leave looks whether they live, and looks at all.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(500);
const LOOK_INTERVAL: Duration = Duration::from_micros(200);

impl Team {
    /// Ends the team's use, also after an error, and waits until [`Team::is_over`]. [`Team::retire`] waits for nobody.
    pub fn free(&self) {
        if !self.retire() {
            return;
        }
        let start = Instant::now();
        while !self.is_over() {
            self.map.context.pause(start.elapsed());
        }
    }

    /// Ends the team's use and waits for nobody. If it says so, the team is to be kept until
    /// [`Team::is_over`].
    pub fn retire(&self) -> bool {
        let mut state = self.state();
        self.say_left(&state);
        if self.end(&mut state) && self.map.rails.is_some() {
            let flush = Flush::start(&self.map, &state.links);
            state.life = Life::Ended(Leaving::Flushing(flush));
        }
        let leaving = |leaving: &Leaving| !matches!(leaving, Leaving::Over);
        matches!(&state.life, Life::Ended(how_far) if leaving(how_far))
    }

    /// Whether no rank uses the retired team any more. To be asked now and then, as this rank leaves
    /// meanwhile.
    pub fn is_over(&self) -> bool {
        let Some(mut state) = self.state.take() else {
            return false;
        };
        let State {
            life, links, oob, ..
        } = &mut *state;
        let Life::Ended(leaving) = life else {
            return false;
        };
        if let Leaving::Flushing(flush) = leaving {
            // A rank that is late wants what this one has sent, however late it is.
            let leader = self.map.multicast_leader();
            if leader.is_some_and(|leader| !leader.is_done()) {
                return false;
            }
            match flush.advance(&self.map, links) {
                Ok(false) if !flush.is_overdue() => return false,
                Ok(_) => {}
                Err(error) => tracing::debug!("while leaving a team: {error}"),
            }
            *leaving = Leaving::Waiting;
        }
        if let (Leaving::Waiting, Some(oob)) = (&leaving, oob) {
            match oob.leave() {
                Ok(false) => return false,
                Ok(true) => {}
                Err(error) => tracing::debug!("while leaving a team: {error}"),
            }
        }
        *leaving = Leaving::Over;
        true
    }

    /// Tells who waits for this rank in vain, now or later, that its program makes no further call.
    pub fn no_further_call(&self) {
        self.say_left(&self.state());
    }

    fn say_left(&self, state: &State) {
        let last = state.sequence.op();
        let may_be_awaited = match state.life {
            Life::InUse => true,
            // Memory of one that was made for later and never used is not touched.
            Life::Parked => last > 0,
            _ => false,
        };
        if may_be_awaited && self.map.node_memory.is_some() {
            status::leave(&self.map, last);
        }
    }

    /// No operation runs after this; false if it was so before.
    pub(super) fn end(&self, state: &mut State) -> bool {
        if state.life.is_over() {
            return false;
        }
        self.resume_never(state);
        let stats = self.map.context.stats();
        state.plans.flush_counts(&self.map, stats);
        if let Some(leader) = self.map.multicast_leader() {
            leader.close();
        }
        state.life = Life::Ended(Leaving::Over);
        true
    }
}

impl Context {
    /// Waits until all of the retired `teams` are over, as memory goes with the process. A team of
    /// which a process of this host has died is not waited for, and none longer than
    /// `FERRORAIL_PEER_TIMEOUT`.
    pub(crate) fn part(&self, mut teams: Vec<Arc<Team>>) {
        let start = Instant::now();
        let mut next_check = LIVENESS_INTERVAL;
        loop {
            teams.retain(|team| !team.is_over());
            let waited = start.elapsed();
            if teams.is_empty() {
                return;
            }
            if waited >= next_check {
                next_check = waited + LIVENESS_INTERVAL;
                teams.retain(|team| team.map.dead_peer("finalize").is_none());
                let limit = self.settings().peer_timeout_s.map(Duration::from_secs);
                if limit.is_some_and(|limit| waited >= limit) {
                    tracing::warn!("some rank is not done with its communicators at finalize");
                    return;
                }
            }
            self.pause(waited);
        }
    }

    /// What who has `waited` so long for others to leave does before looking again.
    fn pause(&self, waited: Duration) {
        self.poke();
        match waited < LOOK_INTERVAL {
            true => std::thread::yield_now(),
            false => std::thread::sleep(LOOK_INTERVAL),
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        // A parked one has not been retired.
        self.no_further_call();
        // Who retired it has waited for the others as long as was worth it.
        if !self.state.get_mut().life.is_over() {
            self.free();
        }
        let state = self.state.get_mut();
        if let Some(rails) = &self.map.rails {
            for link in state.links.iter_mut().filter_map(Option::take) {
                for region in link.front.into_iter().chain([link.segment]) {
                    rails.fabric.release(link.peer, region);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoHost;
    use ferrorail_base::config::Settings;
    use ferrorail_base::{NodeRank, Rank};
    use ferrorail_bootstrap::InProcess;
    use ferrorail_shm::Status;

    /// What `team` shows of rank 1 once that has dropped its own.
    fn status_after_drop(first: &Team, team: Team) -> Status {
        let team = (first.rank() == Rank(0)).then_some(team);
        first.barrier().expect("rank 1 has dropped it");
        team.map_or_else(Status::default, |team| {
            team.map.segment().flags().status(NodeRank(1))
        })
    }

    #[test]
    fn who_drops_a_parked_team_says_so_unless_it_was_never_used() {
        let context = Context::new(Settings::default(), Box::new(NoHost));
        let run = |oob: InProcess, later: InProcess| {
            let made = Team::create_with_spares(&context, context.settings(), Box::new(oob), 2);
            let (first, mut spares) = made.expect("a team");
            let (never_used, used) = (spares.remove(0), spares.remove(0));
            used.adopt(Box::new(later));
            used.barrier().expect("a barrier");
            used.park().expect("on one node");
            assert_eq!(status_after_drop(&first, never_used), Status::default());
            let left = status_after_drop(&first, used).left_after;
            assert_eq!(left.is_some(), first.rank() == Rank(0));
            first.free();
        };
        std::thread::scope(|scope| {
            for (oob, later) in InProcess::world(2).into_iter().zip(InProcess::world(2)) {
                let run = &run;
                scope.spawn(move || run(oob, later));
            }
        });
    }
}
