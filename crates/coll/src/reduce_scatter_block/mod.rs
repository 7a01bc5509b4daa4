//! Reduce-scatter of equal blocks: rank r receives the reduction of everyone's block r (MPI 4.1,
//! section 6.10.1).
//!
//! | name | rounds | volume | in rank order |
//! |---|---|---|---|
//! | `direct` | ⌈(N-1)/k⌉ | ⌈(N-1)/k⌉ blocks | always |

use crate::cost::{Shape, Work};
use crate::reduction::semantics;
use crate::registry::{
    Algorithm, Collective, Content, Cut, Overlap, RankOrder, SCRATCH, Semantics,
};

pub mod direct;

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

/// The only one that serves blocks of different sizes, too.
pub(crate) const DIRECT: Algorithm = Algorithm {
    name: "direct",
    collective: Collective::ReduceScatterBlock,
    description: "everyone puts each block to its owner, which reduces in rank order",
    landings: SCRATCH,
    smp_aware: false,
    cut: Cut::Blocks,
    rank_order: RankOrder::Always,
    build: direct::build,
    work: direct::work,
};

/// Every algorithm of reduce-scatter of equal blocks.
pub const ALGORITHMS: &[Algorithm] = &[DIRECT];

/// As [`direct::work`], for a team of one.
fn work_alone(shape: &Shape) -> Option<Work> {
    (shape.ranks == 1).then(|| Work::copies(1))
}
