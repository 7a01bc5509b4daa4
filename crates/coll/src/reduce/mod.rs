//! Reduce: the root receives the reduction of everyone's vector (MPI 4.1, section 6.9.1).
//!
//! | name | rounds | volume | in rank order |
//! |---|---|---|---|
//! | `knomial` | ⌈log_{k+1} N⌉ | ⌈log_{k+1} N⌉ vectors | always |
//! | `chain` | N-1 | N-1 vectors | always |
//! | `reduce_scatter_gather` | 2⌈(N-1)/k⌉ | 2⌈(N-1)/k⌉/N vectors | always |
//! | `smp_knomial` | ⌈log_{k+1} V⌉ | ⌈log_{k+1} V⌉ vectors | where nodes are consecutive |
//! | `multi_leader_knomial` | ⌈log_{k/L+1} V⌉ | 1/L ⌈log_{k/L+1} V⌉ vectors | where nodes are consecutive |

use crate::algorithm::{Algorithm, Build, ClosedForm, Cut};
use crate::collective::Collective;
use crate::leaders::Leaders;
use crate::reduction::{reduced, semantics};
use crate::semantics::{Overlap, Semantics};

pub mod chain;
pub mod knomial;
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

const fn row(name: &'static str, build: Build, work: ClosedForm) -> Algorithm {
    Algorithm::new(Collective::Reduce, name, build, work)
}

/// Every reduce algorithm.
pub const ALGORITHMS: &[Algorithm] = &[
    row("knomial", knomial::build, knomial::work)
        .cut(Cut::Whole)
        .about("tree of radix k+1 that combines neighbours, in rank order for any root"),
    row("chain", chain::build, chain::work)
        .cut(Cut::Whole)
        .about("each adds its own to what comes from its neighbour, and passes it on to the root"),
    row(
        "reduce_scatter_gather",
        reduce_scatter_gather::build,
        reduce_scatter_gather::work,
    )
    .cut(Cut::PerRank)
    .all_pairs()
    .about("everyone reduces its part and puts it to the root; best for large vectors"),
    row(
        "smp_knomial",
        |request| smp_knomial::build(request, Leaders::one(request.ports), Cut::Whole),
        smp_knomial::work,
    )
    .nodes_first()
    .by_domains()
    .cut(Cut::Whole)
    .about("leaders reduce their nodes, tree between leaders"),
    row(
        "multi_leader_knomial",
        |request| smp_knomial::build(request, request.node_leaders(), Cut::PerRank),
        smp_knomial::work_multi_leader,
    )
    .nodes_first()
    .cut(Cut::PerRank)
    .about("each leader of a node reduces its slice and passes it up over its own rail"),
];
