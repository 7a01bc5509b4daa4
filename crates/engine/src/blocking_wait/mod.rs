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
    /// Why this wait is in vain, for the next step to return: a rank that has done its part may give up or die in a later
    /// call, so that what is awaited is looked at once more in between.
    in_vain: Option<EngineError>,
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
            in_vain: None,
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
    /// What the last step found, [`EngineError::PeerDied`] or what [`BlockingWait::idle`] says, or a rail's failure.
    pub fn step(&mut self, blocked: Blocked) -> Result<bool, EngineError> {
        if let Some(error) = self.in_vain.take() {
            return Err(error);
        }
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
        self.in_vain = self.map.dead_peer(self.collective);
        Ok(self.in_vain.is_none())
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
        let (settings, waited) = (self.map.context.settings(), self.waiter.waited());
        let late = || waiting::check_timeout(settings, waited, waiting_for, self.collective).err();
        self.in_vain = left(self.map, awaited).or_else(differs).or_else(late);
        Ok(self.in_vain.is_none())
    }

    /// Has the next step return the error of `looked`, if it has one.
    pub fn heed(&mut self, looked: Result<(), EngineError>) {
        self.in_vain = looked.err();
    }

    /// One step of the waiting ladder.
    fn wait(&mut self, blocked: Blocked, leader: Option<&Arc<Leader>>) {
        let segment = self.map.segment();
        let mut asked = false;
        let poke = &mut || asked |= self.map.context.poke();
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
        if asked {
            self.waiter.stay_awake();
        }
    }

    /// Something arrived: the blocking wait starts anew.
    pub fn renew(&mut self) {
        self.waiter.reset();
        self.in_vain = None;
    }
}

#[cfg(test)]
mod tests {
    use crate::on_threads::on_ranks_of;
    use crate::{Context, EngineError, Host};
    use ferrorail_base::config::Settings;
    use ferrorail_base::sync::{AtomicBool, Ordering};
    use std::cell::Cell;
    use std::sync::Arc;
    use std::thread::sleep;
    use std::time::Duration;

    thread_local! {
        static IS_HELD_UP: Cell<bool> = const { Cell::new(false) };
    }

    /// Holds up a thread that waits, for so long that it looks at its peers afterwards, until the other has stopped.
    #[derive(Default)]
    struct HoldUp {
        is_held: AtomicBool,
        has_stopped: AtomicBool,
    }

    fn await_flag(flag: &AtomicBool) {
        while !flag.load(Ordering::Acquire) {
            sleep(Duration::from_millis(1));
        }
    }

    struct Held(Arc<HoldUp>);

    impl Host for Held {
        fn poke(&self) {
            if IS_HELD_UP.take() {
                self.0.is_held.store(true, Ordering::Release);
                await_flag(&self.0.has_stopped);
                sleep(Duration::from_millis(200));
            }
        }
    }

    #[test]
    fn what_a_rank_sent_before_its_error_arrives() {
        for bytes in [8, 20_000] {
            let hold_up = Arc::new(HoldUp::default());
            let host = Held(hold_up.clone());
            let context = Context::new(Settings::default(), Box::new(host));
            on_ranks_of(&context, 2, |team| {
                let mine = vec![team.rank().0 as u8 + 1; bytes];
                let mut all = vec![0; 2 * bytes];
                if team.rank().0 == 0 {
                    await_flag(&hold_up.is_held);
                } else {
                    IS_HELD_UP.set(true);
                }
                // SAFETY: both have room.
                let outcome =
                    unsafe { team.allgather(Some(mine.as_ptr()), all.as_mut_ptr(), bytes) };
                outcome.expect("what this call needs was sent");
                assert!((0..2 * bytes).all(|at| all[at] as usize == at / bytes + 1));
                let error = EngineError::Mismatch { rank: None };
                team.break_off(&mut team.state(), &error);
                hold_up.has_stopped.store(true, Ordering::Release);
            });
        }
    }
}
