//! The table of collectives and algorithms.

use crate::cost::{Shape, Work};
use crate::schedule::{Protocol, Schedule};
pub use crate::semantics::{Content, Instance, Overlap, Semantics};
use crate::{
    allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter_block, scan,
    scatter, vector,
};
use ferrorail_base::{NodeId, Rank, Topology};
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

    /// Whether a rank that has finished knows that every rank has entered: what the re-use of
    /// scratch channels rests on. Otherwise the team synchronises before it re-uses one.
    pub const fn synchronising(self) -> bool {
        self.semantics().synchronising
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

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How an algorithm cuts its vector into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cut {
    /// Not at all: blocks are those of the call, one per rank where the collective has them.
    Blocks,
    /// The vector is one block.
    Whole,
    /// Into as many parts as ranks, as even as whole elements allow; a part may be empty.
    PerRank,
}

impl Cut {
    /// Number of parts in a team of `size`.
    pub const fn parts(self, size: u32) -> u32 {
        match self {
            Self::Blocks | Self::Whole => 1,
            Self::PerRank => size,
        }
    }
}

/// Where a reduction combines contributions in rank order, as an operation that does not commute
/// needs; each variant on fewer teams than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RankOrder {
    /// On every team; also said of what reduces nothing.
    Always,
    /// Where the ranks of every node are consecutive.
    ConsecutiveNodes,
    /// Nowhere.
    Never,
}

/// Whether the ranks of every node are consecutive.
pub fn has_consecutive_nodes(topology: &Topology) -> bool {
    (0..topology.node_count()).all(|node| {
        let ranks = topology.ranks_of(NodeId(node));
        ranks[ranks.len() - 1].0 - ranks[0].0 + 1 == ranks.len() as u32
    })
}

/// Protocols of an algorithm with a zero-copy form.
pub(crate) const EITHER: &[Protocol] = &[Protocol::Eager, Protocol::Rendezvous];
/// Protocols of one without.
pub(crate) const SCRATCH: &[Protocol] = &[Protocol::Eager];

/// What an algorithm needs to know to build a rank's schedule.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Node map of the team.
    pub topology: &'a Topology,
    /// Whose schedule.
    pub rank: Rank,
    /// k of the multi-port model, from 1.
    pub ports: u8,
    /// Most leaders that a node may have ([`Leaders`](crate::leaders::Leaders)).
    pub leaders: u8,
    /// Where puts land; one of the algorithm's.
    pub protocol: Protocol,
    /// Root of a rooted collective, 0 otherwise.
    pub root: Rank,
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Algorithm {
    /// Stable name in settings, tuning tables, statistics and file names.
    pub name: &'static str,
    /// What it computes.
    pub collective: Collective,
    /// One line for people.
    pub description: &'static str,
    /// Where its puts can land.
    pub protocols: &'static [Protocol],
    /// Whether it uses nodes' shared memory as such.
    pub smp_aware: bool,
    /// How it cuts a vector.
    pub cut: Cut,
    /// Where it reduces in rank order.
    pub rank_order: RankOrder,
    /// Whether leaders of nodes send each other multicasts.
    pub multicast: bool,
    /// Whether every rank exchanges messages with every other, so that connections grow with the square of ranks.
    pub all_pairs: bool,
    /// Builds one rank's schedule, in time proportional to the team's size and the steps.
    pub build: fn(&Request<'_>) -> Schedule,
    /// Closed form of what [`cost::count`](crate::cost::count) finds in the schedules of a team
    /// with nodes of one size and root 0; an upper bound for uneven nodes.
    pub work: fn(&Shape, Protocol) -> Work,
}

impl Algorithm {
    /// Whether puts can land there.
    pub fn supports(&self, protocol: Protocol) -> bool {
        self.protocols.contains(&protocol)
    }

    /// Whether on this team the operation of a reduction must be commutative.
    pub fn commutative_only(&self, topology: &Topology) -> bool {
        match self.rank_order {
            RankOrder::Always => false,
            RankOrder::ConsecutiveNodes => !has_consecutive_nodes(topology),
            RankOrder::Never => true,
        }
    }

    /// The schedules of all ranks with root 0, for tools and tests.
    pub fn build_all(&self, topology: &Topology, ports: u8, protocol: Protocol) -> Vec<Schedule> {
        self.build_rooted(topology, ports, protocol, Rank(0))
    }

    /// The schedules of all ranks.
    pub fn build_rooted(
        &self,
        topology: &Topology,
        ports: u8,
        protocol: Protocol,
        root: Rank,
    ) -> Vec<Schedule> {
        (0..topology.size())
            .map(|rank| {
                (self.build)(&Request {
                    topology,
                    rank: Rank(rank),
                    ports,
                    leaders: ports,
                    protocol,
                    root,
                })
            })
            .collect()
    }
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Self) -> bool {
        (self.collective, self.name) == (other.collective, other.name)
    }
}

impl Eq for Algorithm {}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.collective, self.name)
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

/// No collective has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no collective \"{name}\"; did you mean \"{nearest}\"?")]
pub struct UnknownCollective {
    /// What was asked for.
    pub name: String,
    /// The collective whose name is most like it.
    pub nearest: Collective,
}

/// The collective called `name`.
///
/// # Errors
/// [`UnknownCollective`], with the nearest name there is.
pub fn find_collective(name: &str) -> Result<Collective, UnknownCollective> {
    Collective::from_name(name).ok_or_else(|| {
        let distance = |c: &&Collective| strsim::damerau_levenshtein(name, c.name());
        UnknownCollective {
            name: name.to_owned(),
            nearest: *Collective::ALL
                .iter()
                .min_by_key(distance)
                .expect("there are collectives"),
        }
    })
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
