//! Collective operations by name.

use ferrorail_base::names::hint;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collective {
    /// Everyone receives everyone's block (MPI 4.1, section 6.7).
    Allgather,
    /// Nobody leaves before everybody has entered (section 6.3).
    Barrier,
    /// Everyone receives the root's message (section 6.4).
    Bcast,
    /// The root receives everyone's block (section 6.5).
    Gather,
    /// Everyone receives its block of the root's (section 6.6).
    Scatter,
    /// Everyone receives its block of everyone's (section 6.8).
    Alltoall,
    /// Everyone receives the reduction of all vectors (section 6.9.6).
    Allreduce,
    /// The root receives the reduction of all vectors (section 6.9.1).
    Reduce,
    /// Everyone receives its block of the reduction (section 6.10.1).
    ReduceScatterBlock,
    /// As that, with blocks of different sizes (section 6.10.2).
    ReduceScatter,
    /// Everyone receives the reduction up to itself (section 6.11.1).
    Scan,
    /// Everyone receives the reduction up to the rank before it (section 6.11.2).
    Exscan,
    /// As all-gather, with blocks of different sizes (section 6.7).
    Allgatherv,
    /// As gather, with blocks of different sizes (section 6.5).
    Gatherv,
    /// As scatter, with blocks of different sizes (section 6.6).
    Scatterv,
    /// As all-to-all, with blocks of different sizes (section 6.8).
    Alltoallv,
}

impl Collective {
    /// Every collective.
    pub const ALL: &'static [Self] = &[
        Self::Allgather,
        Self::Barrier,
        Self::Bcast,
        Self::Gather,
        Self::Scatter,
        Self::Alltoall,
        Self::Allreduce,
        Self::Reduce,
        Self::ReduceScatterBlock,
        Self::ReduceScatter,
        Self::Scan,
        Self::Exscan,
        Self::Allgatherv,
        Self::Gatherv,
        Self::Scatterv,
        Self::Alltoallv,
    ];

    /// The stable name in settings, tuning tables and statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allgather => "allgather",
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Alltoall => "alltoall",
            Self::Allreduce => "allreduce",
            Self::Reduce => "reduce",
            Self::ReduceScatterBlock => "reduce_scatter_block",
            Self::ReduceScatter => "reduce_scatter",
            Self::Scan => "scan",
            Self::Exscan => "exscan",
            Self::Allgatherv => "allgatherv",
            Self::Gatherv => "gatherv",
            Self::Scatterv => "scatterv",
            Self::Alltoallv => "alltoallv",
        }
    }

    /// The collective of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|c| c.name() == name)
    }

    /// Whether the operation has a root.
    pub const fn is_rooted(self) -> bool {
        matches!(
            self,
            Self::Bcast
                | Self::Gather
                | Self::Gatherv
                | Self::Scatter
                | Self::Scatterv
                | Self::Reduce
        )
    }

    /// The collective whose meaning and schedules it has, where blocks of different sizes make no
    /// difference to either; else itself.
    pub const fn regular(self) -> Self {
        match self {
            Self::Allgatherv => Self::Allgather,
            Self::Gatherv => Self::Gather,
            Self::Scatterv => Self::Scatter,
            Self::ReduceScatter => Self::ReduceScatterBlock,
            other => other,
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No collective has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no collective \"{name}\"; {hint}")]
pub struct UnknownCollective {
    /// What was asked for.
    pub name: String,
    /// The collective whose name is much like it, or all.
    pub hint: String,
}

/// The collective called `name`.
///
/// # Errors
/// [`UnknownCollective`], with the names there are.
pub fn find_collective(name: &str) -> Result<Collective, UnknownCollective> {
    Collective::from_name(name).ok_or_else(|| UnknownCollective {
        name: name.to_owned(),
        hint: hint(name, Collective::ALL.iter().map(|known| known.name())),
    })
}
