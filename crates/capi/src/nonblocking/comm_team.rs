//! What the non-blocking collectives of a communicator run on.

use crate::parked::Key;
use ferrorail_base::sync::{AtomicBool, Ordering};
use ferrorail_engine::Team;
use std::sync::Arc;

/// The team that a communicator has for them.
pub struct CommTeam {
    /// The team.
    pub team: Arc<Team>,
    /// What it was made for.
    pub key: Option<Key>,
    is_orphaned: AtomicBool,
}

impl CommTeam {
    /// A team that was made for `key`.
    pub fn new(team: Arc<Team>, key: Option<Key>) -> Self {
        Self {
            team,
            key,
            is_orphaned: AtomicBool::new(false),
        }
    }

    /// The communicator is gone: what is under way goes on.
    pub fn orphan(&self) {
        self.is_orphaned.store(true, Ordering::Relaxed);
    }

    /// Whether it is.
    pub fn is_orphaned(&self) -> bool {
        self.is_orphaned.load(Ordering::Relaxed)
    }
}
