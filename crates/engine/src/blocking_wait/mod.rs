//! Waiting inside a blocking call: never a silent hang.
//!
//! Modules: `status` (what ranks that wait long show each other), `disagreement` (looking for that on this node),
//! `probe` (and on another).

pub(crate) mod disagreement;
pub(crate) mod probe;
pub(crate) mod status;

use crate::EngineError;
use crate::multicast::Leader;
use crate::team::map::Map;
use crate::waiting;
use disagreement::{Expected, disagreement, left};
use ferrorail_base::NodeRank;
use ferrorail_fabric::Endpoint;
use ferrorail_shm::{WaitPolicy, Waiter, spread_ranks};
use status::Awaited;
use std::sync::Arc;
use std::time::Duration;

/// When a rank that nobody waits for sleeps: about what that costs has passed.
const REST_AFTER: Duration = Duration::from_micros(50);

/// When a rank that waits for a datagram sleeps: well above what being woken by its arrival costs.
const DOZE_AFTER: Duration = Duration::from_micros(100);

/// How long it sleeps unless it is woken, as the host's progress has to wait as long, and which part of
/// the wait where nobody wakes it.
const REST: Duration = Duration::from_millis(4);
const REST_SHARE: u32 = 4;

/// What a run that cannot go on is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Another rank of this node, which will ring the doorbell.
    Node,
    /// Something a rail brings, which rings nothing.
    Rail,
    /// A datagram of the team's multicasts, or room to send one.
    Multicast,
}

/// The blocking wait of one blocking call.
pub(crate) struct BlockingWait<'a> {
    map: &'a Map,
    collective: &'static str,
    waiter: Waiter,
    /// What the operation's flags hold where all agree.
    expected: Option<Expected>,
    /// What others have yet to do, where nothing is `expected`.
    awaited: Awaited,
    /// Whether the leader's next quiescence is all that is waited for.
    for_quiescence: bool,
}

impl<'a> BlockingWait<'a> {
    pub fn new(map: &'a Map, collective: &'static str) -> Self {
        Self {
            map,
            collective,
            waiter: Waiter::new(&map.wait),
            expected: None,
            awaited: Awaited::Unnumbered,
            for_quiescence: false,
        }
    }

    /// Waits for others to come as far as `operation`.
    pub fn for_operation(mut self, operation: u64) -> Self {
        self.awaited = Awaited::Operation(operation);
        self
    }

    /// Waits for the leader to prove more, and for nothing else.
    pub fn for_quiescence(mut self) -> Self {
        self.for_quiescence = true;
        self
    }

    /// Sleeps early: nobody waits for this rank meanwhile.
    pub fn resting(mut self) -> Self {
        self.waiter = Waiter::new(&WaitPolicy {
            spin: 0,
            spin_crowded: 0,
            yields: REST_AFTER,
            sleep: REST,
            nap_share: REST_SHARE,
            ..self.map.wait
        });
        self
    }

    /// Looks from now on for peers whose arguments differ.
    pub fn expect(&mut self, expected: Expected) {
        self.expected = Some(expected);
    }

    /// Spins for as long as that is worth it; whether it has `arrived` meanwhile. Where no rail or multicast has to make
    /// progress in between.
    #[inline]
    pub fn spin(&mut self, arrived: impl Fn() -> bool) -> bool {
        debug_assert!(self.map.rails.is_none(), "rails make no progress");
        self.waiter.spin(arrived)
    }

    /// As [`BlockingWait::spin`], where ranks share cores and those of this core are all blocked: longer, if each
    /// `publishes_first` what it has for all others in what is waited for.
    #[inline]
    pub fn spin_idle(
        &self,
        publishes_first: bool,
        is_blocked: impl Fn(NodeRank) -> bool,
        arrived: impl Fn() -> bool,
    ) -> bool {
        let map = self.map;
        let is_idle = || map.segment().cores().is_idle(map.node_rank, is_blocked);
        self.waiter.spin_idle(publishes_first, is_idle, arrived)
    }

    /// One idle step after a failed poll; true now and then when it has taken long.
    ///
    /// # Errors
    /// [`EngineError::PeerDied`], or a rail's failure.
    pub fn step(&mut self, blocked: Blocked) -> Result<bool, EngineError> {
        // Also while waiting for the node: what this rank sent may have to be sent again.
        if let Some(rails) = &self.map.rails {
            rails.fabric.progress()?;
        }
        // Not 0 only where ranks share cores and the team has all of the job's ranks on this host.
        if self.map.wait.spin_idle != 0 {
            spread_ranks(self.map.segment().cores(), self.map.node_rank);
        }
        let leader = self.map.multicast_leader();
        if leader.is_some_and(|leader| leader.drive()) {
            // It may be what is awaited: to let others have the core first can cost a round of them all.
            return Ok(false);
        }
        self.wait(blocked, leader);
        if !self.waiter.is_check_due() {
            return Ok(false);
        }
        self.map.dead_peer(self.collective).map_or(Ok(true), Err)
    }

    /// As [`BlockingWait::step`], in an operation: where it says true `waiting_for` is asked, and peers are
    /// looked at.
    ///
    /// # Errors
    /// [`EngineError::PeerDied`], [`EngineError::PeerTimeout`], [`EngineError::Mismatch`],
    /// [`EngineError::PeerGaveUp`], [`EngineError::PeerLeft`], or a rail's failure.
    pub fn idle(
        &mut self,
        blocked: Blocked,
        waiting_for: impl FnOnce() -> String,
    ) -> Result<bool, EngineError> {
        if !self.step(blocked)? {
            return Ok(false);
        }
        let waiting_for = waiting_for();
        waiting::note(format!("{waiting_for} in {}", self.collective));
        let expected = self.expected.as_ref();
        let awaited = expected.map_or(self.awaited, |expected| Awaited::Call(expected.tag));
        let differs = || expected.and_then(|expected| disagreement(self.map, expected));
        if let Some(error) = left(self.map, awaited).or_else(differs) {
            return Err(error);
        }
        let (settings, waited) = (self.map.context.settings(), self.waiter.waited());
        waiting::check_timeout(settings, waited, waiting_for, self.collective)?;
        Ok(true)
    }

    /// One step of the waiting ladder.
    fn wait(&mut self, blocked: Blocked, leader: Option<&Arc<Leader>>) {
        let segment = self.map.segment();
        let poke = &mut || self.map.context.host.poke();
        match (blocked, leader) {
            (Blocked::Node, _) => {
                let doorbell = match self.for_quiescence {
                    true => segment.quiescence_doorbell(),
                    false => segment.doorbell(),
                };
                self.waiter.idle(Some(&doorbell), poke);
            }
            (Blocked::Multicast, Some(leader)) => {
                self.waiter
                    .idle_with(DOZE_AFTER, &mut |nap| leader.doze(nap), poke);
            }
            _ => self.waiter.idle(None, poke),
        }
    }

    /// Something arrived: the blocking wait starts anew.
    pub fn renew(&mut self) {
        self.waiter.reset();
    }
}
