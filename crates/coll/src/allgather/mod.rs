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
use crate::collective::Collective;
use crate::cost::{Shape, Work};
use crate::gather::smp::Way;
use crate::group::Group;
use crate::leaders::Leaders;
use crate::schedule::{Protocol, Schedule};
use crate::semantics::{Content, Overlap, Semantics};
use gather_broadcast::Broadcast;

mod absolute;
pub mod bruck;
pub mod direct;
pub mod gather_broadcast;
pub mod ring;
pub mod smp_multicast;
pub mod standard_exchange;

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
        gather_broadcast::build,
        gather_broadcast::work,
    )
    .about("tree gather to rank 0, tree broadcast; native baseline for small blocks"),
    row(
        "smp_direct",
        |request| direct::build_led(request, Leaders::one(request.ports)),
        |shape, _| direct::work_led(shape, Leaders::one(shape.ports)),
    )
    .smp_aware()
    .about("node gather, Direct between leaders, overlapped node broadcast"),
    row(
        "multi_leader_direct",
        |request| direct::build_led(request, request.node_leaders()),
        |shape, _| direct::work_led(shape, shape.node_leaders()),
    )
    .smp_aware()
    .about("as smp_direct, with leaders that carry their share of blocks over their own rails"),
    row("smp_bruck", bruck::build_smp, bruck::work_smp)
        .smp_aware()
        .about("node gather, Bruck between leaders, node broadcast in the right order, no shift"),
    row(
        "smp_gather_broadcast_tree",
        |request| gather_broadcast::build_smp(request, Way::Tree, Broadcast::Tree),
        |shape, _| gather_broadcast::work_smp(shape, Way::Tree, Broadcast::Tree),
    )
    .smp_aware()
    .about("node gather, tree gather to the first leader, tree and node broadcast"),
    row(
        "smp_gather_broadcast_direct",
        |request| gather_broadcast::build_smp(request, Way::Direct, Broadcast::Tree),
        |shape, _| gather_broadcast::work_smp(shape, Way::Direct, Broadcast::Tree),
    )
    .smp_aware()
    .about("node gather, Direct gather to the first leader, tree and node broadcast"),
    row("smp_multicast", smp_multicast::build, smp_multicast::work)
        .smp_aware()
        .multicast()
        .about("node gather, one multicast of each leader, node broadcast"),
    row(
        "smp_gather_broadcast_multicast",
        |request| gather_broadcast::build_smp(request, Way::Direct, Broadcast::Multicast),
        |shape, _| gather_broadcast::work_smp(shape, Way::Direct, Broadcast::Multicast),
    )
    .smp_aware()
    .multicast()
    .about("node gather, Direct gather to the first leader, multicast and node broadcast"),
];

/// The whole operation where nobody sends messages: for a team of one, or on one node: concurrent copies in, one wait,
/// concurrent copies out; nobody waits for the leader in particular.
fn single_member(request: &Request<'_>, group: &Group<'_>) -> Option<Schedule> {
    let on_one_node = || {
        let mut builder = request.builder();
        group.gather(&mut builder, group.place(request.rank));
        group.await_gather(&mut builder);
        group.copy_members_out(&mut builder, 0, 1);
        builder.finish(group.blocks())
    };
    let alone = request.alone();
    alone.or_else(|| (group.size() == 1).then(on_one_node))
}

/// What [`single_member`] amounts to, where it applies to an SMP-aware algorithm.
fn work_of_single_node(shape: &Shape) -> Option<Work> {
    if shape.ranks == 1 {
        return Some(Work::copies(1));
    }
    (shape.nodes == 1).then(|| Work {
        node_syncs: 1,
        ..Work::copies(1 + u64::from(shape.ranks))
    })
}

/// What a flat algorithm copies at each rank.
fn work_of_copies(shape: &Shape, protocol: Protocol) -> Work {
    let through_scratch = protocol == Protocol::Eager && shape.ranks > 1;
    let others = if through_scratch { shape.ranks } else { 0 };
    Work::flat(shape, 1 + u64::from(others))
}
