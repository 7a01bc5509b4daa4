//! The table of collectives and algorithms.

use crate::algorithm::Algorithm;
use crate::collective::Collective;
use crate::semantics::Semantics;
use crate::{
    allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter_block, scan,
    scatter, vector,
};
use ferrorail_base::names::hint;

impl Collective {
    /// Whether a rank that has finished knows that every rank has entered: what the re-use of
    /// scratch channels rests on. Otherwise the team synchronises before it re-uses one.
    pub const fn synchronising(self) -> bool {
        self.semantics().synchronising
    }

    /// What its schedules have to do.
    pub const fn semantics(self) -> Semantics {
        self.defined().0
    }

    /// What it means, and its algorithms.
    const fn defined(self) -> (Semantics, &'static [Algorithm]) {
        match self {
            Self::Allgather => (allgather::SEMANTICS, allgather::ALGORITHMS),
            Self::Barrier => (barrier::SEMANTICS, barrier::ALGORITHMS),
            Self::Bcast => (bcast::SEMANTICS, bcast::ALGORITHMS),
            Self::Gather => (gather::SEMANTICS, gather::ALGORITHMS),
            Self::Scatter => (scatter::SEMANTICS, scatter::ALGORITHMS),
            Self::Alltoall => (alltoall::SEMANTICS, alltoall::ALGORITHMS),
            Self::Allreduce => (allreduce::SEMANTICS, allreduce::ALGORITHMS),
            Self::Reduce => (reduce::SEMANTICS, reduce::ALGORITHMS),
            Self::ReduceScatterBlock => (
                reduce_scatter_block::SEMANTICS,
                reduce_scatter_block::ALGORITHMS,
            ),
            Self::ReduceScatter => (reduce_scatter_block::SEMANTICS, vector::REDUCE_SCATTER),
            Self::Scan => (scan::SEMANTICS, scan::ALGORITHMS),
            Self::Exscan => (scan::EXCLUSIVE_SEMANTICS, scan::EXCLUSIVE_ALGORITHMS),
            Self::Allgatherv => (allgather::SEMANTICS, vector::ALLGATHER),
            Self::Gatherv => (gather::SEMANTICS, vector::GATHER),
            Self::Scatterv => (scatter::SEMANTICS, vector::SCATTER),
            Self::Alltoallv => (vector::ALLTOALL_SEMANTICS, vector::ALLTOALL),
        }
    }
}

/// No algorithm has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{collective} has no algorithm \"{name}\"; {hint}")]
pub struct UnknownAlgorithm {
    /// Where it was looked for.
    pub collective: Collective,
    /// What was asked for.
    pub name: String,
    /// The existing name that is much like it, or all.
    pub hint: String,
}

/// All algorithms of `collective`.
pub fn algorithms(collective: Collective) -> &'static [Algorithm] {
    collective.defined().1
}

/// The algorithm of `collective` called `name`.
///
/// # Errors
/// [`UnknownAlgorithm`], with the names there are.
pub fn find(collective: Collective, name: &str) -> Result<&'static Algorithm, UnknownAlgorithm> {
    let table = algorithms(collective);
    table
        .iter()
        .find(|a| a.name == name)
        .ok_or_else(|| UnknownAlgorithm {
            collective,
            name: name.to_owned(),
            hint: hint(name, table.iter().map(|a| a.name)),
        })
}

#[cfg(test)]
mod tests;
