//! Rules of a table: ranges of facts, and what is chosen within them.

use crate::collective::Collective;
use crate::named::HOST;
use crate::schedule::Protocol;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Inclusive limits; a missing one does not limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Least value that matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u64>,
    /// Greatest value that matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
}

impl Limits {
    /// What is exactly `value`.
    pub const fn exactly(value: u64) -> Self {
        Self {
            min: Some(value),
            max: Some(value),
        }
    }

    fn bounds(&self, least: u64) -> (u64, u64) {
        (
            self.min.unwrap_or(0).max(least),
            self.max.unwrap_or(u64::MAX),
        )
    }

    fn is_any(&self) -> bool {
        *self == Self::default()
    }
}

/// One rule, as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The collective it is about.
    pub collective: Collective,
    /// Bytes of the largest block.
    #[serde(default, skip_serializing_if = "Limits::is_any")]
    pub bytes: Limits,
    /// Ranks of the team.
    #[serde(default, skip_serializing_if = "Limits::is_any")]
    pub ranks: Limits,
    /// Nodes of the team.
    #[serde(default, skip_serializing_if = "Limits::is_any")]
    pub nodes: Limits,
    /// Ranks of its largest node.
    #[serde(default, skip_serializing_if = "Limits::is_any")]
    pub node_size: Limits,
    /// Domains of a team on one node; 1 for others.
    #[serde(default, skip_serializing_if = "Limits::is_any")]
    pub domains: Limits,
    /// 1 for teams whose ranks have a core each, 2 for others.
    #[serde(default, skip_serializing_if = "Limits::is_any")]
    pub ranks_per_core: Limits,
    /// Time that long messages of a node's few ranks take by cross-memory attach, in percent of what they take through the
    /// segment; 10000 where that was not measured.
    #[serde(default, skip_serializing_if = "Limits::is_any")]
    pub attach_percent: Limits,
    /// Rails.
    #[serde(default, skip_serializing_if = "Limits::is_any")]
    pub rails: Limits,
    /// k.
    #[serde(default, skip_serializing_if = "Limits::is_any")]
    pub ports: Limits,
    /// The algorithm, as [`crate::named::variant`] reads it, or [`HOST`].
    pub algorithm: String,
    /// Protocol of its puts; with [`Protocol::Rendezvous`] it matches only where zero-copy is available.
    #[serde(default)]
    pub protocol: Protocol,
}

/// `allgather, bytes 8193 and more, nodes up to 1: direct by rendezvous`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.collective)?;
        let limits = [
            ("bytes", self.bytes),
            ("ranks", self.ranks),
            ("nodes", self.nodes),
            ("node size", self.node_size),
            ("domains", self.domains),
            ("ranks per core", self.ranks_per_core),
            ("attach percent", self.attach_percent),
            ("rails", self.rails),
            ("ports", self.ports),
        ];
        for (name, Limits { min, max }) in limits {
            match (min, max) {
                (None, None) => {}
                (Some(min), None) => write!(f, ", {name} {min} and more")?,
                (None, Some(max)) => write!(f, ", {name} up to {max}")?,
                (Some(min), Some(max)) => write!(f, ", {name} {min} to {max}")?,
            }
        }
        write!(f, ": {}", self.algorithm)?;
        match self.leaves_to_host() {
            true => Ok(()),
            false => write!(f, " by {}", self.protocol.name()),
        }
    }
}

/// Dimensions of a query, zero-copy apart.
pub(super) const DIMENSIONS: usize = 9;

/// Least value of each dimension that a query can have.
const LEAST: [u64; DIMENSIONS] = [0, 1, 1, 1, 1, 1, 0, 1, 1];

impl Rule {
    /// The box of queries that match.
    pub(super) fn bounds(&self) -> [(u64, u64); DIMENSIONS] {
        let limits = [
            self.bytes,
            self.ranks,
            self.nodes,
            self.node_size,
            self.domains,
            self.ranks_per_core,
            self.attach_percent,
            self.rails,
            self.ports,
        ];
        std::array::from_fn(|d| limits[d].bounds(LEAST[d]))
    }

    /// Whether it leaves what it matches to the host MPI.
    pub fn leaves_to_host(&self) -> bool {
        self.algorithm == HOST
    }

    /// Whether everything that `other` matches, this one does.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.collective == other.collective
            && (self.protocol == Protocol::Eager || other.protocol == Protocol::Rendezvous)
            && self
                .bounds()
                .iter()
                .zip(other.bounds())
                .all(|(mine, theirs)| mine.0 <= theirs.0 && mine.1 >= theirs.1)
    }

    #[cfg(test)]
    pub(super) fn is_unconditional(&self) -> bool {
        let everything = LEAST.map(|least| (least, u64::MAX));
        self.protocol == Protocol::Eager && self.bounds() == everything
    }
}
