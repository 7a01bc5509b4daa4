//! Teams whose calls run in fibers, as those of non-blocking collectives do: a call that would wait is left instead, and
//! gone on with by whoever drives it. Several may be under way; they run one after another, in the order in which they
//! were made.

use super::Team;
use super::connect::connect_all;
use super::connected::Peers;
use crate::blocking_wait::BlockingWait;
use crate::{EngineError, OFFERED};
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_base::{Rank, fiber};
use ferrorail_coll::named::{Named, named};
use ferrorail_shm::Waiter;
use std::time::Duration;

/// Whose turn it is among calls in fibers.
#[derive(Default)]
pub(super) struct Turns {
    /// Whether calls run in fibers.
    pub are_taken: bool,
    /// How many were made.
    made: AtomicU64,
    /// How many are over.
    over: AtomicU64,
    /// How many have come to their operation, but for those that failed before.
    entered: AtomicU64,
}

impl Turns {
    /// Leaves the fiber until it is its turn.
    #[cold]
    pub fn wait(&self) {
        while let Some(number) = fiber::number()
            && self.over.load(Ordering::Acquire) != number
        {
            fiber::suspend();
        }
    }

    /// As [`Turns::wait`], to begin the operation of the call.
    #[cold]
    pub fn enter(&self) {
        self.wait();
        if let Some(number) = fiber::number() {
            self.entered.store(number + 1, Ordering::Relaxed);
        }
    }

    /// Whether the call of this fiber has come to its operation.
    pub fn has_entered(&self) -> bool {
        let number = fiber::number();
        number.is_some_and(|number| self.entered.load(Ordering::Relaxed) == number + 1)
    }
}

/// The turn of a call, which ends when this is dropped.
pub struct Turn<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // A call may fail before it comes to its operation, while those before it are under way.
        self.turns.wait();
        self.turns.over.store(self.number + 1, Ordering::Release);
    }
}

impl Team {
    /// Has calls leave their fiber where they would wait, and take turns. Before the first call. Connects all ranks, as a
    /// call that is under way must wait for no call of the host: collective between nodes.
    ///
    /// # Errors
    /// On all ranks, if some rank cannot connect to another.
    pub fn run_in_fibers(&mut self) -> Result<(), EngineError> {
        self.connect_to_all()?;
        self.turns.are_taken = true;
        self.map.wait = self.map.wait.suspending();
        Ok(())
    }

    fn connect_to_all(&self) -> Result<(), EngineError> {
        let (map, mut state) = (&self.map, self.state());
        // Joining takes calls of the host, at the first multicast.
        state.plans.leave_multicast();
        let all = || (0..map.topology.size()).map(Rank);
        let is_far = |rank, &peer: &Rank| !map.topology.same_node(peer, rank);
        let peers_of = |rank| all().filter(|peer| is_far(rank, peer)).collect();
        let mut blocking_wait = BlockingWait::new(map, "preparing for non-blocking collectives");
        let connected = connect_all(map, &mut state, Peers::All, &peers_of, &mut blocking_wait);
        connected.map_err(|error| self.failed(&mut state, error))
    }

    /// The number of the next call, which its fiber is to have.
    pub fn next_number(&self) -> u64 {
        // No two threads call collectives on one communicator at once.
        self.turns.made.fetch_add(1, Ordering::Relaxed)
    }

    /// The turn of the call of this number, to be taken in its fiber.
    pub fn turn(&self, number: u64) -> Turn<'_> {
        let turns = &self.turns;
        Turn { turns, number }
    }

    /// Whether every rank may connect to every other, as calls in fibers demand.
    pub fn may_connect_all(&self) -> bool {
        self.map.all_pairs
    }

    /// Whether ranks are on several (virtual) nodes.
    pub fn has_rails(&self) -> bool {
        self.map.rails.is_some()
    }

    /// Whether each rank of every host has a core of its own.
    pub fn has_cores(&self) -> bool {
        self.map.has_cores
    }

    /// Whether `FERRORAIL_ALGORITHM` leaves the collective called `name` to the host MPI, on all ranks.
    pub fn is_forced_to_host(&self, name: &str) -> bool {
        let forced = self.map.settings.algorithm.get(name);
        forced.is_some_and(|text| {
            let mut offered = OFFERED.iter().filter(|offered| offered.name() == name);
            offered.any(|&offered| named(offered, text) == Ok(Named::Host))
        })
    }

    /// A wait for calls of this team that the caller drives; without sleep unless it `may_sleep`, for what wakes up nobody.
    pub fn driver_wait(&self, may_sleep: bool) -> DriverWait<'_> {
        let mut policy = self.map.drivers_wait;
        if !may_sleep {
            policy.yields = Duration::MAX;
        }
        DriverWait {
            team: self,
            waiter: Waiter::new(&policy),
        }
    }
}

/// The wait of a thread that drives calls in fibers, and looks at them before each step.
pub struct DriverWait<'a> {
    team: &'a Team,
    waiter: Waiter,
}

impl DriverWait<'_> {
    /// One idle step; ranks of the node end it when it sleeps. What rails bring rings nothing.
    pub fn idle(&mut self) {
        let map = &self.team.map;
        let rings = map.node_memory.is_some() && map.rails.is_none();
        let doorbell = rings.then(|| map.segment().doorbell());
        let poke = &mut || _ = map.context.poke();
        self.waiter.idle(doorbell.as_ref(), poke);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, NoHost};
    use ferrorail_base::config::{FabricChoice, Settings};
    use ferrorail_base::fiber::{Driver, Fiber};
    use ferrorail_bootstrap::InProcess;
    use std::sync::Arc;

    const RANKS: u32 = 3;
    const CALLS: usize = 5;
    const BYTES: usize = 3000;

    /// A call of an all-gather in a fiber, whose result comes to `into`.
    fn start(team: &Arc<Team>, call: usize, into: &mut [u8]) -> Fiber {
        let (team, number) = (team.clone(), team.next_number());
        let into = into.as_mut_ptr();
        let run = move || {
            let _turn = team.turn(number);
            let mine = vec![(10 * call) as u8 + team.rank().0 as u8; BYTES];
            // SAFETY: the result has room, and lives until the fiber is done.
            let outcome = unsafe { team.allgather(Some(mine.as_ptr()), into, BYTES) };
            outcome.expect("all call it");
        };
        Fiber::new(number, run).unwrap_or_else(|_| panic!("no stack"))
    }

    fn run(team: Team) {
        let team = Arc::new(team);
        let mut results = vec![vec![0; BYTES * RANKS as usize]; CALLS];
        let calls = results.iter_mut().enumerate();
        let mut fibers: Vec<_> = calls.map(|(call, into)| start(&team, call, into)).collect();
        let mut wait = team.driver_wait(true);
        // Those behind are tried first, and wait for those before.
        while !fibers.is_empty() {
            for index in (0..fibers.len()).rev() {
                if fibers[index].resume(Driver::Program) {
                    fibers.remove(index);
                }
            }
            wait.idle();
        }
        for (call, result) in results.iter().enumerate() {
            let expected = |at: usize| (10 * call + at / BYTES) as u8;
            assert!((0..result.len()).all(|at| result[at] == expected(at)));
        }
        team.free();
    }

    fn run_on_nodes(settings: Settings, nodes: u32) {
        let context = Context::new(settings, Box::new(NoHost));
        std::thread::scope(|scope| {
            for oob in InProcess::world(RANKS) {
                let context = &context;
                scope.spawn(move || {
                    let team = Team::create(context, context.settings(), Box::new(oob));
                    let mut team = team.expect("a team");
                    team.run_in_fibers().expect("all can connect");
                    assert_eq!(team.has_rails(), nodes > 1);
                    assert!(team.may_connect_all() && !team.is_forced_to_host("allgather"));
                    run(team);
                });
            }
        });
    }

    #[test]
    fn calls_in_fibers_take_turns() {
        run_on_nodes(Settings::default(), 1);
    }

    #[test]
    fn calls_in_fibers_take_turns_between_nodes() {
        for node_size in [1, 2] {
            let settings = Settings {
                fabric: FabricChoice::Loopback,
                node_size: Some(node_size),
                ..Settings::default()
            };
            run_on_nodes(settings, RANKS.div_ceil(node_size));
        }
    }

    #[test]
    fn a_call_that_fails_at_once_ends_in_its_turn() {
        let turns = Arc::new(Turns {
            are_taken: true,
            ..Turns::default()
        });
        let fiber = |number, waits: u32| {
            let turns = turns.clone();
            let run = move || {
                let _turn = Turn {
                    turns: &turns,
                    number,
                };
                (0..waits).for_each(|_| assert!(fiber::suspend()));
            };
            Fiber::new(number, run).unwrap_or_else(|_| panic!("no stack"))
        };
        let (mut first, mut second) = (fiber(0, 1), fiber(1, 0));
        let go_on = |fiber: &mut Fiber| fiber.resume(Driver::Program);
        assert!(!go_on(&mut second) && !go_on(&mut first) && !go_on(&mut second));
        assert!(go_on(&mut first) && go_on(&mut second));
        assert_eq!(turns.over.load(Ordering::Relaxed), 2);
    }
}
