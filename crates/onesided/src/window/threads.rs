//! Which threads of a process use a window.

use serde::{Deserialize, Serialize};

/// Threads that call MPI (MPI 4.1, section 11.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Threads {
    /// One alone.
    One,
    /// Several, one after the other: each may count on what those before have done.
    InTurn,
    /// Several at once.
    AtOnce,
}
