//! Teams whose calls run in fibers, as those of non-blocking collectives do: a call that would wait is left instead, and
//! gone on with by whoever drives it. Several may be under way; they run one after another, in the order in which they
//! were made.

use super::Team;
use crate::OFFERED;
use ferrorail_base::fiber;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_coll::named::{Named, named};
use ferrorail_shm::Waiter;

/// Whose turn it is among calls in fibers.
#[derive(Default)]
pub(super) struct Turns {
    /// Whether calls run in fibers.
    pub are_taken: bool,
    /// How many were made.
    made: AtomicU64,
    /// How many are over.
    over: AtomicU64,
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
    /// Has calls leave their fiber where they would wait, and take turns. Before the first call.
    pub fn run_in_fibers(&mut self) {
        self.map.wait = self.map.wait.suspending();
        self.turns.are_taken = true;
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

    /// Leaves the fiber until it is its call's turn.
    pub fn wait_for_turn(&self) {
        self.turns.wait();
    }

    /// Whether all ranks are on one (virtual) node.
    pub fn is_on_one_node(&self) -> bool {
        self.map.topology.node_count() == 1
    }

    /// Whether `FERRORAIL_ALGORITHM` leaves the collective called `name` to the host MPI, on all ranks.
    pub fn is_forced_to_host(&self, name: &str) -> bool {
        let forced = self.map.settings.algorithm.get(name);
        let offered = OFFERED.iter().find(|offered| offered.name() == name);
        let named = forced.zip(offered).map(|(text, &of)| named(of, text));
        named.is_some_and(|named| named == Ok(Named::Host))
    }

    /// A wait for calls of this team that the caller drives.
    pub fn driver_wait(&self) -> DriverWait<'_> {
        DriverWait {
            team: self,
            waiter: Waiter::new(&self.map.drivers_wait),
        }
    }
}

/// The wait of a thread that drives calls in fibers, and looks at them before each step.
pub struct DriverWait<'a> {
    team: &'a Team,
    waiter: Waiter,
}

impl DriverWait<'_> {
    /// One idle step; ranks of the node end it when it sleeps.
    pub fn idle(&mut self) {
        let map = &self.team.map;
        let doorbell = (map.node_memory.is_some()).then(|| map.segment().doorbell());
        let poke = &mut || map.context.host.poke();
        self.waiter.idle(doorbell.as_ref(), poke);
    }
}
