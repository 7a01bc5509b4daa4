//! The table of collectives and algorithms.

use crate::algorithm::Algorithm;
use crate::collective::Collective;
use crate::semantics::Semantics;
use crate::{
    allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter_block, scan,
    scatter, vector,
};

impl Collective {
    /// Whether a rank that has finished knows that every rank has entered: what the re-use of
    /// scratch channels rests on. Otherwise the team synchronises before it re-uses one.
    pub const fn synchronising(self) -> bool {
        self.semantics().synchronising
    }

    /// What its schedules have to do.
    pub const fn semantics(self) -> Semantics {
        match self {
            Self::Allgather | Self::Allgatherv => allgather::SEMANTICS,
            Self::Barrier => barrier::SEMANTICS,
            Self::Bcast => bcast::SEMANTICS,
            Self::Gather | Self::Gatherv => gather::SEMANTICS,
            Self::Scatter | Self::Scatterv => scatter::SEMANTICS,
            Self::Alltoall => alltoall::SEMANTICS,
            Self::Allreduce => allreduce::SEMANTICS,
            Self::Reduce => reduce::SEMANTICS,
            Self::ReduceScatterBlock | Self::ReduceScatter => reduce_scatter_block::SEMANTICS,
            Self::Scan => scan::SEMANTICS,
            Self::Exscan => scan::EXCLUSIVE_SEMANTICS,
            Self::Alltoallv => vector::ALLTOALL_SEMANTICS,
        }
    }
}

/// No algorithm has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{collective} has no algorithm \"{name}\"; did you mean \"{nearest}\"?")]
pub struct UnknownAlgorithm {
    /// Where it was looked for.
    pub collective: Collective,
    /// What was asked for.
    pub name: String,
    /// The existing name that is most like it.
    pub nearest: &'static str,
}

/// All algorithms of `collective`.
pub fn algorithms(collective: Collective) -> &'static [Algorithm] {
    match collective {
        Collective::Allgather => allgather::ALGORITHMS,
        Collective::Barrier => barrier::ALGORITHMS,
        Collective::Bcast => bcast::ALGORITHMS,
        Collective::Gather => gather::ALGORITHMS,
        Collective::Scatter => scatter::ALGORITHMS,
        Collective::Alltoall => alltoall::ALGORITHMS,
        Collective::Allreduce => allreduce::ALGORITHMS,
        Collective::Reduce => reduce::ALGORITHMS,
        Collective::ReduceScatterBlock => reduce_scatter_block::ALGORITHMS,
        Collective::ReduceScatter => vector::REDUCE_SCATTER,
        Collective::Scan => scan::ALGORITHMS,
        Collective::Exscan => scan::EXCLUSIVE_ALGORITHMS,
        Collective::Allgatherv => vector::ALLGATHER,
        Collective::Gatherv => vector::GATHER,
        Collective::Scatterv => vector::SCATTER,
        Collective::Alltoallv => vector::ALLTOALL,
    }
}

/// The algorithm of `collective` called `name`.
///
/// # Errors
/// [`UnknownAlgorithm`], with the nearest name there is.
pub fn find(collective: Collective, name: &str) -> Result<&'static Algorithm, UnknownAlgorithm> {
    let table = algorithms(collective);
    table.iter().find(|a| a.name == name).ok_or_else(|| {
        let nearest = table
            .iter()
            .min_by_key(|a| strsim::damerau_levenshtein(name, a.name));
        UnknownAlgorithm {
            collective,
            name: name.to_owned(),
            nearest: nearest.map_or("", |a| a.name),
        }
    })
}

#[cfg(test)]
mod tests;
