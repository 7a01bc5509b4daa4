//! All-gather: rank r's block ends as block r of everyone's `Recv`.
//!
//! N ranks on V nodes of q, k ports, blocks of l bytes; α startup, β time per byte. Rounds are
//! those with puts; volume is the blocks that pass the busiest port.
//!
//! | name | rounds | volume | protocols |
//! |---|---|---|---|
//! | `direct` | ⌈(N-1)/k⌉ | ⌈(N-1)/k⌉ | scratch, recv |
//! | `standard_exchange` | log_{k+1} N, else at most (k+1) ⌊log_{k+1} N⌋ | ⌈(N-1)/k⌉ | scratch, recv |
//! | `bruck` | ⌈log_{k+1} N⌉ | ⌈(N-1)/k⌉ | scratch, recv |
//! | `ring` | N-1 | N-1 | scratch, recv |
//! | `tree_gather_broadcast` | 2⌈log_{k+1} N⌉ | about N/k + N⌈log_{k+1} N⌉ | scratch |
//! | `smp_direct` | ⌈(V-1)/k⌉ | q⌈(V-1)/k⌉ | scratch |
//! | `multi_leader_direct` | ⌈(V-1)L/k⌉ | ⌈q/L⌉⌈(V-1)L/k⌉ | scratch |
//! | `smp_bruck` | ⌈log_{k+1} V⌉ | q⌈(V-1)/k⌉ | scratch |
//! | `smp_gather_broadcast_tree` | 2⌈log_{k+1} V⌉ | about N/k + N⌈log_{k+1} V⌉ | scratch |
//! | `smp_gather_broadcast_direct` | ⌈(V-1)/k⌉ + ⌈log_{k+1} V⌉ | q⌈(V-1)/k⌉ + N⌈log_{k+1} V⌉ | scratch |
//! | `smp_multicast` | 1 | q(V-1) received, q sent | scratch |
//! | `smp_gather_broadcast_multicast` | ⌈(V-1)/k⌉ + 1 | q⌈(V-1)/k⌉ + N | scratch |
//!
//! Volumes are exact in each algorithm's `work` function, which tests compare with the schedules.
//! Source: Qian and Afsahi, Cluster Computing 11 (2008), sections 5.1.2 and 5.2.
//!
//! A rank's result depends on every rank's block; so whoever has finished knows that all have
//! entered, which is what the re-use of scratch channels rests on.

use crate::algorithm::{Algorithm, Build, ClosedForm, EITHER, Request};
use crate::builder::ScheduleBuilder;
use crate::collective::Collective;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::schedule::{Buffer, Protocol, Schedule, Span};
use crate::semantics::{Content, Overlap, Semantics};
use ferrorail_base::Rank;

pub mod bruck;
pub mod direct;
pub mod ring;
pub mod smp_bruck;
pub mod smp_direct;
pub mod smp_gather_broadcast;
pub mod smp_multicast;
pub mod standard_exchange;
pub mod tree_gather_broadcast;

/// The tokens of an all-gather: a block is known by its rank.
pub(crate) const SEMANTICS: Semantics = Semantics {
    send: |at| vec![at.rank.0],
    start: |_| Vec::new(),
    recv: |at| (0..at.size).map(Content::Token).collect(),
    in_place: |at| Overlap::SendInRecv(at.rank.0),
    in_place_protocols: EITHER,
    synchronising: true,
    uniform: true,
};

const fn row(name: &'static str, build: Build, work: ClosedForm) -> Algorithm {
    Algorithm::new(Collective::Allgather, name, build, work)
}

/// Serves the vector form, too.
pub(crate) const DIRECT: Algorithm = row("direct", direct::build, direct::work)
    .zero_copy()
    .all_pairs()
    .about("everyone puts its block to everyone, k at a time; best for large blocks");

/// Every all-gather algorithm.
pub const ALGORITHMS: &[Algorithm; 12] = &[
    DIRECT,
    row(
        "standard_exchange",
        standard_exchange::build,
        standard_exchange::work,
    )
    .zero_copy()
    .about("recursive doubling with radix k+1, k corrections after each step for other sizes"),
    row("bruck", bruck::build, bruck::work)
        .zero_copy()
        .about("fewest rounds for any size, k+1 times the blocks after each"),
    row("ring", ring::build, ring::work)
        .zero_copy()
        .about("blocks travel from neighbour to neighbour; native baseline for large blocks"),
    row(
        "tree_gather_broadcast",
        tree_gather_broadcast::build,
        tree_gather_broadcast::work,
    )
    .about("tree gather to rank 0, tree broadcast; native baseline for small blocks"),
    row("smp_direct", smp_direct::build, smp_direct::work)
        .smp_aware()
        .about("node gather, Direct between leaders, overlapped node broadcast"),
    row(
        "multi_leader_direct",
        smp_direct::build_multi_leader,
        smp_direct::work_multi_leader,
    )
    .smp_aware()
    .about("as smp_direct, with leaders that carry their share of blocks over their own rails"),
    row("smp_bruck", smp_bruck::build, smp_bruck::work)
        .smp_aware()
        .about("node gather, Bruck between leaders, node broadcast in the right order, no shift"),
    row(
        "smp_gather_broadcast_tree",
        smp_gather_broadcast::build_tree,
        smp_gather_broadcast::work_tree,
    )
    .smp_aware()
    .about("node gather, tree gather to the first leader, tree and node broadcast"),
    row(
        "smp_gather_broadcast_direct",
        smp_gather_broadcast::build_direct,
        smp_gather_broadcast::work_direct,
    )
    .smp_aware()
    .about("node gather, Direct gather to the first leader, tree and node broadcast"),
    row("smp_multicast", smp_multicast::build, smp_multicast::work)
        .smp_aware()
        .multicast()
        .about("node gather, one multicast of each leader, node broadcast"),
    row(
        "smp_gather_broadcast_multicast",
        smp_gather_broadcast::build_multicast,
        smp_gather_broadcast::work_multicast,
    )
    .smp_aware()
    .multicast()
    .about("node gather, Direct gather to the first leader, multicast and node broadcast"),
];

/// This rank's block, where the user has it.
const SEND: Span = Span::new(Buffer::Send, 0, 1);

/// The whole operation for a team of one, which needs no scratch.
fn alone(request: &Request<'_>) -> Option<Schedule> {
    (request.topology.size() == 1).then(|| {
        let mut builder = ScheduleBuilder::new(request.topology, request.rank);
        builder.copy(SEND, recv(0, 1));
        builder.finish(0)
    })
}

/// Blocks of `Recv`.
const fn recv(first: u32, count: u32) -> Span {
    Span::new(Buffer::Recv, first, count)
}

/// Copies the block of `rank` to its place in its own result, from where zero-copy puts read.
fn copy_own(builder: &mut ScheduleBuilder<'_>, rank: Rank) {
    builder.copy(SEND, recv(rank.0, 1));
}

/// The whole operation on one node: concurrent copies in, one wait, concurrent copies out; nobody
/// waits for the leader in particular.
fn single_node(request: &Request<'_>, group: &Group<'_>) -> Option<Schedule> {
    (group.size() == 1).then(|| {
        let mut builder = ScheduleBuilder::new(request.topology, request.rank);
        builder.node_gather(group.place(request.rank));
        builder.node_await_gather();
        group.copy_members_out(&mut builder, 0, 1);
        builder.finish(group.blocks())
    })
}

/// What [`alone`] and [`single_node`] amount to, where they apply to an SMP-aware algorithm.
fn work_of_single_node(shape: &Shape) -> Option<Work> {
    if shape.ranks == 1 {
        return Some(Work::copies(1));
    }
    (shape.nodes == 1).then(|| Work {
        node_syncs: 1,
        ..Work::copies(1 + u64::from(shape.ranks))
    })
}

/// Copies a flat algorithm makes at each rank.
fn work_of_copies(shape: &Shape, protocol: Protocol) -> Work {
    match protocol {
        Protocol::Eager if shape.ranks > 1 => Work::copies(1 + u64::from(shape.ranks)),
        _ => Work::copies(1),
    }
}
