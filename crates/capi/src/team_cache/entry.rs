//! What is known of one communicator.

use crate::neighbourhood::Neighbourhood;
use crate::nonblocking::queue::Queue;
use crate::nonblocking::spares::Spares;
use crate::parked::Key;
use ferrorail_base::sync::{AtomicBool, Ordering};
use ferrorail_engine::Team;
use std::sync::{Arc, OnceLock};

/// What is known of one communicator; the same kind on all its ranks.
pub enum Entry {
    /// Collectives run on this team, which may serve others with the same key.
    Team(Arc<Team>, Option<Key>, Nonblocking, KnownNeighbours),
    /// They are left to the host, for this reason.
    Forward(&'static str),
}

/// Its topology, once a neighbourhood collective has asked for it.
type KnownNeighbours = OnceLock<Arc<Neighbourhood>>;

impl Entry {
    /// That of a new communicator with this team.
    pub fn of(team: Arc<Team>, key: Option<Key>) -> Self {
        Self::Team(team, key, Nonblocking::default(), OnceLock::new())
    }
}

/// What a communicator has for its non-blocking collectives: nothing before the first blocking one that follows one of them,
/// which is when all its ranks can make it together.
#[derive(Default)]
pub struct Nonblocking {
    is_wanted: AtomicBool,
    is_orphaned: Arc<AtomicBool>,
    spares: Arc<Spares>,
    queue: OnceLock<Result<Arc<Queue>, &'static str>>,
}

impl Nonblocking {
    /// The queue, or why the host has them; `None` before the ranks have come to it.
    #[inline]
    pub fn queue(&self) -> Option<Result<&Arc<Queue>, &'static str>> {
        Some(self.queue.get()?.as_ref().map_err(|&reason| reason))
    }

    /// The communicator is gone: what is under way goes on. The queues of which nobody has a use any more.
    pub fn orphan(&self) -> impl Iterator<Item = Arc<Queue>> + use<> {
        self.is_orphaned.store(true, Ordering::Relaxed);
        let shared = self.queue.get().and_then(|queue| queue.as_ref().ok());
        self.spares.close().chain(shared.cloned())
    }

    /// What its persistent collectives leave for the next ones.
    pub fn spares(&self) -> &Arc<Spares> {
        &self.spares
    }

    /// What tells that.
    pub fn orphaned(&self) -> &Arc<AtomicBool> {
        &self.is_orphaned
    }

    /// Has the ranks make the queue in their next blocking collective; whether this is the first time.
    pub fn want(&self) -> bool {
        !self.is_wanted.swap(true, Ordering::Relaxed)
    }

    /// Whether they are to make it now.
    pub fn is_due(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed) && self.queue.get().is_none()
    }

    /// They have made it, or not for this reason.
    pub fn made(&self, queue: Result<Arc<Queue>, &'static str>) {
        let first = self.queue.set(queue).is_ok();
        debug_assert!(first, "made once");
    }
}
