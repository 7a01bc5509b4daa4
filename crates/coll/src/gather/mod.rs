//! Gather: rank r's block ends as block r of the root's `Recv` (MPI 4.1, section 6.5).
//!
//! N ranks on V nodes of q, k ports, blocks of l bytes.
//!
//! | name | rounds | volume | protocols |
//! |---|---|---|---|
//! | `tree` | ⌈log_{k+1} N⌉ | about (N-1)/k, equation (1) | scratch |
//! | `direct` | ⌈(N-1)/k⌉ | ⌈(N-1)/k⌉, equation (2) | scratch, recv |
//! | `smp_tree` | ⌈log_{k+1} V⌉ | about q(V-1)/k | scratch |
//! | `smp_direct` | ⌈(V-1)/k⌉ | q⌈(V-1)/k⌉ | scratch, recv |
//!
//! Source: Qian and Afsahi, Cluster Computing 11 (2008), sections 5.1.1 and 5.2.1.

use crate::algorithm::{Algorithm, Build, ClosedForm, EITHER};
use crate::collective::Collective;
use crate::semantics::{Content, Overlap, Semantics};

use smp::Way;

pub mod direct;
pub mod smp;
pub mod tree;

/// A block is known by its rank.
pub(crate) const SEMANTICS: Semantics = Semantics {
    send: |at| vec![at.rank.0],
    start: |_| Vec::new(),
    recv: |at| {
        let blocks = if at.is_root() { at.size } else { 0 };
        (0..blocks).map(Content::Token).collect()
    },
    in_place: |at| {
        if at.is_root() {
            Overlap::SendInRecv(at.rank.0)
        } else {
            Overlap::Apart
        }
    },
    in_place_protocols: EITHER,
    synchronising: false,
    uniform: false,
};

const fn row(name: &'static str, build: Build, work: ClosedForm) -> Algorithm {
    Algorithm::new(Collective::Gather, name, build, work)
}

/// Serves the vector form, too.
pub(crate) const DIRECT: Algorithm = row("direct", direct::build, direct::work)
    .zero_copy()
    .all_pairs()
    .about("everyone puts straight to the root, which takes k at a time; best for large blocks");

/// Every gather algorithm.
pub const ALGORITHMS: &[Algorithm] = &[
    row("tree", tree::build, tree::work)
        .about("k-port spanning binomial tree; best for small blocks"),
    DIRECT,
    row(
        "smp_tree",
        |request| smp::build(request, Way::Tree),
        |shape, _| smp::work(shape, Way::Tree),
    )
    .smp_aware()
    .about("node gather, tree between leaders"),
    row("smp_direct", smp::build_direct, smp::work_direct)
        .zero_copy()
        .smp_aware()
        .about("node gather, leaders put straight to the root's leader, or into the root's buffer"),
];
