//! What the non-blocking collectives of a communicator run on.

use crate::parked::Key;
use ferrorail_base::sync::{AtomicBool, Ordering};
use ferrorail_engine::Team;
use std::sync::Arc;

/// The team that a communicator has for them, or for one persistent collective.
pub struct CommTeam {
    /// The team.
    pub team: Arc<Team>,
    /// What it was made for.
    pub key: Option<Key>,
    is_orphaned: Arc<AtomicBool>,
}

impl CommTeam {
    /// A team that was made for `key`, of a communicator that `is_orphaned` tells of.
    pub fn new(team: Arc<Team>, key: Option<Key>, is_orphaned: &Arc<AtomicBool>) -> Self {
        Self {
            team,
            key,
            is_orphaned: is_orphaned.clone(),
        }
    }

    /// Whether the communicator is gone.
    pub fn is_orphaned(&self) -> bool {
        self.is_orphaned.load(Ordering::Relaxed)
    }
}
