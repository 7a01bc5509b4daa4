//! Broadcast: the root's message ends in everyone's buffer (MPI 4.1, section 6.4).
//!
//! The buffer is `Recv` on every rank, the root's too, which nobody writes.
//! N ranks on V nodes, k ports; volume in messages of the whole length l.
//!
//! | name | rounds | volume | protocols |
//! |---|---|---|---|
//! | `knomial` | ⌈log_{k+1} N⌉ | ⌈log_{k+1} N⌉ | scratch, recv |
//! | `scatter_allgather` | ⌈log_{k+1} N⌉ + ⌈(N-1)/k⌉ | about 2/k | scratch |
//! | `pipelined` | 2(N-1) | 2(N-1)/N | scratch |
//! | `smp_knomial` | ⌈log_{k+1} V⌉ | ⌈log_{k+1} V⌉ | scratch |
//! | `multi_leader_knomial` | ⌈log_{k/L+1} V⌉ | 1/L ⌈log_{k/L+1} V⌉ | scratch |
//! | `smp_multicast` | 1 | 1 | scratch, recv |

use crate::algorithm::{Algorithm, Build, ClosedForm, Cut, EITHER};
use crate::collective::Collective;
use crate::leaders::Leaders;
use crate::semantics::{Content, Overlap, Semantics};

pub mod knomial;
pub mod pipelined;
pub mod scatter_allgather;
pub mod smp_knomial;
pub mod smp_multicast;

/// Token p is part p of the message.
pub(crate) const SEMANTICS: Semantics = Semantics {
    send: |_| Vec::new(),
    start: |at| (0..if at.is_root() { at.parts } else { 0 }).collect(),
    recv: |at| (0..at.parts).map(Content::Token).collect(),
    in_place: |_| Overlap::Apart,
    in_place_protocols: EITHER,
    synchronising: false,
    uniform: true,
};

const fn row(name: &'static str, build: Build, work: ClosedForm) -> Algorithm {
    Algorithm::new(Collective::Bcast, name, build, work)
}

/// Every broadcast algorithm.
pub const ALGORITHMS: &[Algorithm] = &[
    row("knomial", knomial::build, knomial::work)
        .zero_copy()
        .cut(Cut::Whole)
        .about("tree of radix k+1; best for small messages"),
    row(
        "scatter_allgather",
        scatter_allgather::build,
        scatter_allgather::work,
    )
    .cut(Cut::PerRank)
    .all_pairs()
    .about("tree scatter of parts, Direct all-gather of them; best for large messages"),
    row("pipelined", pipelined::build, pipelined::work)
        .cut(Cut::PerRank)
        .about("parts follow each other along a chain of ranks"),
    row(
        "smp_knomial",
        |request| smp_knomial::build(request, Leaders::one(request.ports), Cut::Whole),
        |shape, _| smp_knomial::work(shape, Leaders::one(shape.ports), Cut::Whole),
    )
    .smp_aware()
    .by_domains()
    .cut(Cut::Whole)
    .about("tree between leaders, concurrent copies out of node memory"),
    row(
        "multi_leader_knomial",
        |request| smp_knomial::build(request, request.node_leaders(), Cut::PerRank),
        |shape, _| smp_knomial::work(shape, shape.node_leaders(), Cut::PerRank),
    )
    .smp_aware()
    .cut(Cut::PerRank)
    .about("each leader of a node passes its slice on over its own rail"),
    row("smp_multicast", smp_multicast::build, smp_multicast::work)
        .zero_copy()
        .smp_aware()
        .cut(Cut::Whole)
        .multicast()
        .about("one multicast between leaders, concurrent copies out of node memory"),
];
