//! A team after an error: what becomes of its later calls, and how its ranks tell each other
//! ([`super::resume`], `docs/design/0053-going-on-after-an-error.md`).

use super::Team;
use super::flush::Flush;
use super::map::Map;
use super::resume::{Means, NEVER, Outcome, Phase, Resumption};
use super::state::{AfterError, Failed, Life, State};
use crate::blocking_wait::{Blocked, BlockingWait, status};
use crate::{EngineError, waiting};
use ferrorail_base::{NodeRank, Rank};
use ferrorail_bootstrap::greatest;
use std::time::{Duration, Instant};

/// How long after the error this rank's calls wait for others to notice it: they look every half a second.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a later call waits for that. A peer may be far ahead, and wait for what the program sends after it.
const STEP: Duration = Duration::from_millis(20);

/// How long a call waits, if `FERRORAIL_PEER_TIMEOUT` is not less, once all have noticed.
const CHOICE_TIMEOUT: Duration = Duration::from_secs(10);

impl EngineError {
    /// Whether ranks that are out of step have it, and nothing else: all can go on without the team.
    fn is_disagreement(&self) -> bool {
        match self {
            Self::Mismatch { .. } | Self::PeerGaveUp { .. } => true,
            // Not the host's: a rank has given up, who says to all what for.
            Self::Oob(error) => error.mpi_class.is_none(),
            _ => false,
        }
    }
}

/// One rank's place among those that tell each other.
struct Place<'a> {
    team: &'a Team,
    state: &'a mut State,
    flush: &'a mut Option<Flush>,
}

impl Means for Place<'_> {
    fn maximum(&mut self, phase: Phase, mine: u64) -> Option<u64> {
        let map = &self.team.map;
        map.node_memory.as_ref()?;
        status::stop(map, phase, mine);
        if map.rails.is_none() {
            let flags = map.segment().flags();
            let ranks = (0..map.topology.size()).map(NodeRank);
            let said = ranks.map(|rank| status::stopped(flags.status(rank), phase));
            return greatest(&said.collect::<Vec<_>>());
        }
        match self.state.oob().maximum(phase as u8, mine) {
            Ok(known) => known,
            Err(error) => {
                tracing::debug!("after an error: {error}");
                Some(NEVER)
            }
        }
    }

    fn settled(&mut self) -> Option<bool> {
        let (map, links) = (&self.team.map, &self.state.links);
        let flush = self.flush.get_or_insert_with(|| Flush::start(map, links));
        match flush.advance(map, links) {
            Ok(true) => Some(true),
            Ok(false) if !flush.is_overdue() => None,
            _ => Some(false),
        }
    }
}

impl Team {
    /// Peers may be anywhere, and are told. After a disagreement they go on with the host.
    pub(crate) fn break_off(&self, state: &mut State, error: &EngineError) {
        self.stop(state, error.to_string(), error.is_disagreement());
    }

    /// This rank takes part in nothing more, for `reason`; whether with the host it says to all.
    pub(super) fn stop(&self, state: &mut State, reason: String, goes_on: bool) {
        let call = self.call_number();
        let after_error = AfterError {
            resumption: Resumption::after(call),
            since: Instant::now(),
            flush: None,
        };
        state.life = Life::Failed(Failed {
            reason,
            after_error: Some(after_error),
        });
        self.resume(state, |resumption, place| match goes_on {
            true => resumption.fail(call, place),
            false => resumption.give_up(place),
        });
        if let Some(leader) = self.map.multicast_leader() {
            leader.give_up();
        }
        if self.map.rails.is_some() {
            // Connected ones may wait in an exchange, too, for what this rank would have registered, or agreed to.
            let far = |&rank: &Rank| !self.map.topology.same_node(rank, self.map.rank);
            let far: Vec<Rank> = self.map.others().filter(far).collect();
            state.oob().give_up(&far);
        }
    }

    /// Nobody waits for this rank where to go on, if there was an error.
    pub(super) fn resume_never(&self, state: &mut State) {
        self.resume(state, |resumption, place| resumption.give_up(place));
    }

    fn resume<R>(
        &self,
        state: &mut State,
        act: impl FnOnce(&mut Resumption, &mut Place<'_>) -> R,
    ) -> Option<R> {
        let mut after = state.after_error()?.take()?;
        let mut place = Place {
            team: self,
            state,
            flush: &mut after.flush,
        };
        let outcome = act(&mut after.resumption, &mut place);
        *state.after_error()? = Some(after);
        Some(outcome)
    }

    /// What a call finds on a team that had an error before.
    #[cold]
    pub(super) fn after_error(&self, state: &mut State) -> EngineError {
        let call = self.call_number();
        let outcome = self.await_outcome(state, call);
        let reason = match &state.life {
            Life::Failed(failed) => failed.reason.clone(),
            _ => String::new(),
        };
        match outcome {
            Some(Outcome::Host) => EngineError::AfterError,
            Some(Outcome::Never) | None => EngineError::Unusable(reason),
            Some(_) => EngineError::Lost(reason),
        }
    }

    /// What becomes of `call`, which fails if that takes long.
    fn await_outcome(&self, state: &mut State, call: u64) -> Option<Outcome> {
        let start = Instant::now();
        let noticed_by = (state.after_error()?.as_ref()?.since + NOTICE_TIMEOUT).max(start + STEP);
        let chosen_by = start + choice_timeout(&self.map);
        let mut blocking_wait = BlockingWait::new(&self.map, "going on after an error");
        loop {
            let outcome = self.resume(state, |resumption, place| resumption.ask(call, place))?;
            let now = Instant::now();
            match outcome {
                Outcome::Unnoticed if now >= noticed_by => {
                    self.resume(state, |resumption, place| resumption.fail(call, place));
                    return Some(Outcome::Lost);
                }
                Outcome::Unchosen if now >= chosen_by => break,
                Outcome::Unnoticed | Outcome::Unchosen => {}
                known => return Some(known),
            }
            match blocking_wait.step(Blocked::Rail) {
                Ok(true) => waiting::note("the other ranks after an error".into()),
                Ok(false) => {}
                Err(_) => break,
            }
        }
        self.resume_never(state);
        Some(Outcome::Never)
    }
}

fn choice_timeout(map: &Map) -> Duration {
    let limit = map.context.settings().peer_timeout_s;
    limit.map_or(CHOICE_TIMEOUT, |seconds| {
        CHOICE_TIMEOUT.min(Duration::from_secs(seconds))
    })
}
