//! What is known of one communicator.

use crate::parked::Key;
use ferrorail_engine::Team;
use std::sync::Arc;

/// What is known of one communicator; the same kind on all its ranks.
pub enum Entry {
    /// Collectives run on this team, which may serve others with the same key.
    Team(Arc<Team>, Option<Key>),
    /// They are left to the host, for this reason.
    Forward(&'static str),
}
