//! All-to-all: block j of rank i's `Send` ends as block i of rank j's `Recv` (MPI 4.1, section 6.8).
//!
//! N ranks on V nodes of q, k ports, blocks of l bytes.
//!
//! | name | rounds | volume | protocols |
//! |---|---|---|---|
//! | `direct` | ⌈(N-1)/k⌉ | ⌈(N-1)/k⌉, equation (2) | scratch, recv |
//! | `standard_exchange` | ⌈log_{k+1} N⌉ | about N/(k+1) log_{k+1} N, equation (5) | scratch |
//! | `bruck` | ⌈log_{k+1} N⌉ | about N/(k+1) ⌈log_{k+1} N⌉, equation (5) | scratch |
//! | `pairwise` | N-1 | N-1 | scratch, recv |
//! | `permission_to_send` | N-1 | N-1 | scratch, recv |
//! | `smp_direct` | ⌈(V-1)/k⌉ | q²⌈(V-1)/k⌉ | scratch |
//! | `multi_leader_direct` | ⌈(V-1)L/k⌉ | ⌈q/L⌉q⌈(V-1)L/k⌉ | scratch |
//!
//! Source: Qian and Afsahi, Cluster Computing 11 (2008), sections 3.1 and 5.1.3.
//!
//! In place `Send` is `Recv`: a block is sent before what replaces it is stored, which puts from
//! peers could not know; so operations in place go through scratch.

use crate::algorithm::{Algorithm, Build, ClosedForm, SCRATCH};
use crate::collective::Collective;
use crate::leaders::Leaders;
use crate::semantics::{Content, Overlap, Semantics};

pub mod bruck;
pub mod direct;
pub mod pairwise;
mod relay;
pub mod smp_direct;
pub mod standard_exchange;

/// The block from i to j is i N + j.
pub(crate) const SEMANTICS: Semantics = Semantics {
    send: |at| (0..at.size).map(|to| at.rank.0 * at.size + to).collect(),
    start: |_| Vec::new(),
    recv: |at| {
        let from = |from| Content::Token(from * at.size + at.rank.0);
        (0..at.size).map(from).collect()
    },
    in_place: |_| Overlap::SendInRecv(0),
    in_place_protocols: SCRATCH,
    synchronising: true,
    uniform: false,
};

const fn row(name: &'static str, build: Build, work: ClosedForm) -> Algorithm {
    Algorithm::new(Collective::Alltoall, name, build, work)
}

/// Serves the vector form, too.
pub(crate) const DIRECT: Algorithm = row("direct", direct::build, direct::work)
    .zero_copy()
    .all_pairs()
    .about("everyone puts to everyone, k at a time; best for all but tiny blocks");

/// Every all-to-all algorithm.
pub const ALGORITHMS: &[Algorithm] = &[
    DIRECT,
    row(
        "standard_exchange",
        standard_exchange::build,
        standard_exchange::work,
    )
    .about(
        "blocks travel digit by digit, to base k+1; one correction for other sizes than its powers",
    ),
    row("bruck", bruck::build, bruck::work)
        .about("blocks travel by the digits of their distance; fewest rounds for any size"),
    row(
        "pairwise",
        |request| pairwise::build(request, false),
        pairwise::work,
    )
    .zero_copy()
    .all_pairs()
    .about("one partner after the other; native baseline for small blocks"),
    row(
        "permission_to_send",
        |request| pairwise::build(request, true),
        pairwise::work,
    )
    .zero_copy()
    .all_pairs()
    .about("one sender per receiver at a time; native baseline for large blocks"),
    row(
        "smp_direct",
        |request| smp_direct::build(request, Leaders::one(request.ports)),
        |shape, _| smp_direct::work(shape, Leaders::one(shape.ports)),
    )
    .smp_aware()
    .about("leaders exchange what their nodes have for each other"),
    row(
        "multi_leader_direct",
        |request| smp_direct::build(request, request.node_leaders()),
        |shape, _| smp_direct::work(shape, shape.node_leaders()),
    )
    .smp_aware()
    .about("as smp_direct, with leaders that carry their share of rows over their own rails"),
];
