//! Scatter: block r of the root's `Send` ends in rank r's `Recv` (MPI 4.1, section 6.6).
//!
//! N ranks on V nodes of q, k ports, blocks of l bytes.
//!
//! | name | rounds | volume | protocols |
//! |---|---|---|---|
//! | `tree` | ⌈log_{k+1} N⌉ | about (N-1)/k, equation (1) | scratch |
//! | `direct` | ⌈(N-1)/k⌉ | ⌈(N-1)/k⌉, equation (2) | scratch, recv |
//! | `smp_direct` | ⌈(V-1)/k⌉ | q⌈(V-1)/k⌉ | scratch |
//!
//! In place the root's `Recv` is its own block of `Send`, which is then not written.

use crate::algorithm::{Algorithm, Build, ClosedForm, EITHER};
use crate::collective::Collective;
use crate::semantics::{Content, Overlap, Semantics};

pub mod direct;
pub mod smp_direct;
pub mod tree;

/// A block is known by the rank it is for.
pub(crate) const SEMANTICS: Semantics = Semantics {
    send: |at| (0..if at.is_root() { at.size } else { 0 }).collect(),
    start: |_| Vec::new(),
    recv: |at| vec![Content::Token(at.rank.0)],
    in_place: |at| {
        if at.is_root() {
            Overlap::RecvInSend(at.rank.0)
        } else {
            Overlap::Apart
        }
    },
    in_place_protocols: EITHER,
    synchronising: false,
    uniform: false,
};

const fn row(name: &'static str, build: Build, work: ClosedForm) -> Algorithm {
    Algorithm::new(Collective::Scatter, name, build, work)
}

/// Serves the vector form, too.
pub(crate) const DIRECT: Algorithm = row("direct", direct::build, direct::work)
    .zero_copy()
    .all_pairs()
    .about("the root puts to everyone, k at a time; best for large blocks");

/// Every scatter algorithm.
pub const ALGORITHMS: &[Algorithm] = &[
    row("tree", tree::build, tree::work)
        .about("k-port spanning binomial tree; best for small blocks"),
    DIRECT,
    row("smp_direct", smp_direct::build, smp_direct::work)
        .smp_aware()
        .about("the root's leader puts to leaders, concurrent copies out of node memory"),
];
