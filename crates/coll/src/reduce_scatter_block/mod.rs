//! Reduce-scatter of equal blocks: rank r receives the reduction of everyone's block r (MPI 4.1,
//! section 6.10.1).
//!
//! N ranks on V nodes of q, k ports, L leaders per node.
//!
//! | name | rounds | volume in blocks | in rank order |
//! |---|---|---|---|
//! | `direct` | ⌈(N-1)/k⌉ | ⌈(N-1)/k⌉ | always |
//! | `bruck` | ⌈log_{k+1} N⌉ | ⌈(N-1)/k⌉ | never |
//! | `smp_direct` | ⌈(V-1)/k⌉ | q⌈(V-1)/k⌉ | where nodes are consecutive |
//! | `multi_leader_direct` | ⌈(V-1)L/k⌉ | ⌈q/L⌉⌈(V-1)L/k⌉ | where nodes are consecutive |
//!
//! They serve blocks of different sizes, too: where one reduces elsewhere than in `Recv`, it says
//! which block that is.

use crate::algorithm::{Algorithm, Build, ClosedForm, RankOrder};
use crate::collective::Collective;
use crate::cost::{Shape, Work};
use crate::leaders::Leaders;
use crate::reduction::semantics;
use crate::semantics::{Content, Overlap, Semantics};

pub mod bruck;
pub mod direct;
pub mod smp_direct;

/// Token b N + r is block b of rank r.
pub(crate) const SEMANTICS: Semantics = Semantics {
    send: |at| (0..at.size).map(|b| b * at.size + at.rank.0).collect(),
    in_place: |_| Overlap::RecvInSend(0),
    synchronising: true,
    ..semantics(|at| {
        vec![Content::Reduced {
            part: at.rank.0,
            first: 0,
            end: at.size,
        }]
    })
};

const fn row(name: &'static str, build: Build, work: ClosedForm) -> Algorithm {
    Algorithm::new(Collective::ReduceScatterBlock, name, build, work)
}

/// Every algorithm of reduce-scatter of equal blocks.
pub const ALGORITHMS: &[Algorithm; 4] = &[
    row("direct", direct::build, direct::work)
        .all_pairs()
        .about("everyone puts each block to its owner, which reduces in rank order"),
    row("bruck", bruck::build, bruck::work)
        .rank_order(RankOrder::Never)
        .about("Bruck's all-gather backwards: fewest rounds, for operations that commute"),
    row(
        "smp_direct",
        |request| smp_direct::build(request, Leaders::one(request.ports)),
        |shape, _| smp_direct::work(shape, Leaders::one(shape.ports)),
    )
    .nodes_first()
    .about("leaders reduce what their nodes have for each other"),
    row(
        "multi_leader_direct",
        |request| smp_direct::build(request, request.node_leaders()),
        |shape, _| smp_direct::work(shape, shape.node_leaders()),
    )
    .nodes_first()
    .about("as smp_direct, with leaders that reduce and carry their share over their own rails"),
];

/// As [`direct::work`], for a team of one.
fn work_alone(shape: &Shape) -> Option<Work> {
    (shape.ranks == 1).then(|| Work::copies(1))
}
