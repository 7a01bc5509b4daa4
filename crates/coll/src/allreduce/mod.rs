//! All-reduce: everyone receives the reduction of everyone's vector (MPI 4.1, section 6.9.6).
//!
//! N ranks on V nodes of q, k ports, vectors of l bytes; volume in vectors.
//!
//! | name | rounds | volume | cut |
//! |---|---|---|---|
//! | `recursive_multiplying` | log_{k+1} N, else ⌊log_{k+1} N⌋ + 2 | as many | whole |
//! | `reduce_scatter_allgather` | 2⌈(N-1)/k⌉ | 2⌈(N-1)/k⌉/N | per rank |
//! | `smp_recursive_multiplying` | log_{k+1} V, else ⌊log_{k+1} V⌋ + 2 | as many | whole |
//! | `multi_leader_recursive_multiplying` | as that over V nodes and k/L ports | that, 1/L of it | per rank |
//! | `smp_reduce_multicast` | ⌈log_{k+1} V⌉ + 1 | as many | whole |
//!
//! All combine in rank order, `smp_` and `multi_leader_` where nodes are consecutive, and with one
//! bracketing on all ranks: results are the same to the bit everywhere.

use crate::algorithm::{Algorithm, Build, ClosedForm, Cut};
use crate::collective::Collective;
use crate::reduction::{reduced, semantics};
use crate::semantics::Semantics;

pub mod multi_leader;
pub mod recursive_multiplying;
pub mod reduce_scatter_allgather;
pub mod smp_recursive_multiplying;
pub mod smp_reduce_multicast;

pub(crate) const SEMANTICS: Semantics = Semantics {
    synchronising: true,
    uniform: true,
    ..semantics(|at| reduced(at, at.size))
};

const fn row(name: &'static str, build: Build, work: ClosedForm) -> Algorithm {
    Algorithm::new(Collective::Allreduce, name, build, work)
}

/// Every all-reduce algorithm.
pub const ALGORITHMS: &[Algorithm] = &[
    row(
        "recursive_multiplying",
        recursive_multiplying::build,
        recursive_multiplying::work,
    )
    .cut(Cut::Whole)
    .about("groups of k+1 exchange partial results; best for small vectors"),
    row(
        "reduce_scatter_allgather",
        reduce_scatter_allgather::build,
        reduce_scatter_allgather::work,
    )
    .cut(Cut::PerRank)
    .all_pairs()
    .about("everyone reduces its part and puts it to everyone; best for large vectors"),
    row(
        "smp_recursive_multiplying",
        smp_recursive_multiplying::build,
        smp_recursive_multiplying::work,
    )
    .nodes_first()
    .by_domains()
    .cut(Cut::Whole)
    .about("leaders reduce their nodes and exchange; on one node everyone reduces for itself"),
    row(
        "multi_leader_recursive_multiplying",
        multi_leader::build,
        multi_leader::work,
    )
    .nodes_first()
    .cut(Cut::PerRank)
    .about("each leader of a node reduces and exchanges its slice over its own rail"),
    row(
        "smp_reduce_multicast",
        smp_reduce_multicast::build,
        smp_reduce_multicast::work,
    )
    .nodes_first()
    .cut(Cut::Whole)
    .multicast()
    .about("a tree of leaders reduces, the first of them multicasts the result"),
];
