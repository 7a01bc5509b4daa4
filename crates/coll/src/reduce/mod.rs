//! Reduce: the root receives the reduction of everyone's vector (MPI 4.1, section 6.9.1).
//!
//! | name | rounds | volume | in rank order |
//! |---|---|---|---|
//! | `knomial` | ⌈log_{k+1} N⌉ | ⌈log_{k+1} N⌉ vectors | always |
//! | `reduce_scatter_gather` | 2⌈(N-1)/k⌉ | 2⌈(N-1)/k⌉/N vectors | always |
//! | `smp_knomial` | ⌈log_{k+1} V⌉ | ⌈log_{k+1} V⌉ vectors | where nodes are consecutive |
//! | `multi_leader_knomial` | ⌈log_{k/L+1} V⌉ | 1/L ⌈log_{k/L+1} V⌉ vectors | where nodes are consecutive |

use crate::algorithm::{Algorithm, Cut, Request, SCRATCH};
use crate::collective::Collective;
use crate::cost::{Shape, Work};
use crate::reduction::{rank_order, reduced, semantics};
use crate::schedule::{Protocol, Schedule};
use crate::semantics::{Overlap, Semantics};

pub mod knomial;
pub mod multi_leader;
pub mod reduce_scatter_gather;
pub mod smp_knomial;

pub(crate) const SEMANTICS: Semantics = Semantics {
    in_place: |at| {
        if at.is_root() {
            Overlap::SendInRecv(0)
        } else {
            Overlap::Apart
        }
    },
    ..semantics(|at| {
        if at.is_root() {
            reduced(at, at.size)
        } else {
            Vec::new()
        }
    })
};

const fn row(
    name: &'static str,
    smp_aware: bool,
    cut: Cut,
    build: fn(&Request<'_>) -> Schedule,
    work: fn(&Shape, Protocol) -> Work,
    description: &'static str,
) -> Algorithm {
    Algorithm {
        name,
        collective: Collective::Reduce,
        description,
        protocols: SCRATCH,
        smp_aware,
        cut,
        rank_order: rank_order(smp_aware),
        multicast: false,
        all_pairs: false,
        build,
        work,
    }
}

/// Every reduce algorithm.
pub const ALGORITHMS: &[Algorithm] = &[
    row(
        "knomial",
        false,
        Cut::Whole,
        knomial::build,
        knomial::work,
        "tree of radix k+1 that combines neighbours, in rank order for any root",
    ),
    Algorithm {
        all_pairs: true,
        ..row(
            "reduce_scatter_gather",
            false,
            Cut::PerRank,
            reduce_scatter_gather::build,
            reduce_scatter_gather::work,
            "everyone reduces its part and puts it to the root; best for large vectors",
        )
    },
    row(
        "smp_knomial",
        true,
        Cut::Whole,
        smp_knomial::build,
        smp_knomial::work,
        "leaders reduce their nodes, tree between leaders",
    ),
    row(
        "multi_leader_knomial",
        true,
        Cut::PerRank,
        multi_leader::build,
        multi_leader::work,
        "each leader of a node reduces its slice and passes it up over its own rail",
    ),
];
