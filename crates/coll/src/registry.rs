//! The table of collectives and algorithms.

use crate::allgather;
use crate::cost::{Shape, Work};
use crate::schedule::{Landing, Schedule};
use ferrorail_base::{Rank, Topology};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collective {
    /// Everyone receives everyone's block (MPI 4.1, section 6.7).
    Allgather,
}

impl Collective {
    /// Every collective.
    pub const ALL: &'static [Self] = &[Self::Allgather];

    /// The stable name in settings, tuning tables and statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allgather => "allgather",
        }
    }

    /// The collective of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|c| c.name() == name)
    }

    /// What its schedules have to do.
    pub const fn semantics(self) -> Semantics {
        match self {
            Self::Allgather => allgather::SEMANTICS,
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a collective means, as tokens: a token stands for the contents of one block.
#[derive(Clone, Copy, Debug)]
pub struct Semantics {
    /// Tokens in `Send` of (rank, team size) when the operation starts.
    pub send: fn(Rank, u32) -> Vec<u32>,
    /// Tokens in `Recv` of (rank, team size) when it ends.
    pub recv: fn(Rank, u32) -> Vec<u32>,
    /// The block of `Recv` of (rank, team size) where `Send` begins when the operation is in place
    /// (`MPI_IN_PLACE`).
    pub in_place: fn(Rank, u32) -> u32,
}

/// What an algorithm needs to know to build a rank's schedule.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Node map of the team.
    pub topology: &'a Topology,
    /// Whose schedule.
    pub rank: Rank,
    /// k of the multi-port model, from 1.
    pub ports: u8,
    /// Where puts land; one of the algorithm's.
    pub landing: Landing,
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
    pub landings: &'static [Landing],
    /// Whether it uses nodes' shared memory as such.
    pub smp_aware: bool,
    /// Builds one rank's schedule, in time proportional to the team's size and the steps.
    pub build: fn(&Request<'_>) -> Schedule,
    /// Closed form of what [`cost::count`](crate::cost::count) finds in the schedules of a team
    /// with nodes of one size; an upper bound for uneven nodes.
    pub work: fn(&Shape, Landing) -> Work,
}

impl Algorithm {
    /// Whether puts can land there.
    pub fn supports(&self, landing: Landing) -> bool {
        self.landings.contains(&landing)
    }

    /// The schedules of all ranks, for tools and tests.
    pub fn build_all(&self, topology: &Topology, ports: u8, landing: Landing) -> Vec<Schedule> {
        (0..topology.size())
            .map(|rank| {
                (self.build)(&Request {
                    topology,
                    rank: Rank(rank),
                    ports,
                    landing,
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

/// All algorithms of `collective`.
pub fn algorithms(collective: Collective) -> &'static [Algorithm] {
    match collective {
        Collective::Allgather => allgather::ALGORITHMS,
    }
}

/// The algorithm of `collective` called `name`.
///
/// # Errors
/// [`UnknownAlgorithm`], with the nearest name there is.
pub fn find(collective: Collective, name: &str) -> Result<&'static Algorithm, UnknownAlgorithm> {
    let table = algorithms(collective);
    table.iter().find(|a| a.name == name).ok_or_else(|| {
        let nearest = table.iter().min_by_key(|a| strsim::damerau_levenshtein(name, a.name));
        UnknownAlgorithm {
            collective,
            name: name.to_owned(),
            nearest: nearest.map_or("", |a| a.name),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for &collective in Collective::ALL {
            assert_eq!(Collective::from_name(collective.name()), Some(collective));
            for algorithm in algorithms(collective) {
                assert_eq!(algorithm.collective, collective);
                assert_eq!(find(collective, algorithm.name), Ok(algorithm));
                assert!(!algorithm.landings.is_empty());
                assert!(!algorithm.description.contains('\n'));
            }
            let names: std::collections::HashSet<_> =
                algorithms(collective).iter().map(|a| a.name).collect();
            assert_eq!(names.len(), algorithms(collective).len());
        }
    }

    #[test]
    fn unknown_names_come_with_the_nearest() {
        let error = find(Collective::Allgather, "smp_bruk").unwrap_err();
        assert_eq!(error.nearest, "smp_bruck");
        assert_eq!(
            error.to_string(),
            "allgather has no algorithm \"smp_bruk\"; did you mean \"smp_bruck\"?"
        );
    }
}
