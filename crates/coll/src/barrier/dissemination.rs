//! Dissemination barrier: in round r everyone notifies those `d (k+1)^r` further on, d in 1..=k.
//!
//! Five ranks, one port: round 1 `p>p+1`, round 2 `p>p+2`, round 3 `p>p+4`. After it rank 0 has
//! heard of 4, of 3 and 2 through 3, and of 1 through 1.
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages per rank: at most k per round, empty. Any number of ranks.
//! * Cost: ⌈log_{k+1} N⌉ α.
//!
//! `smp_dissemination`: all signal their leader, leaders disseminate, leaders release their nodes.
//!
//! Five ranks on nodes (0 1) (2 3) (4), one port: leaders 0, 2, 4 wait for their nodes; round 1
//! `0>2 2>4 4>0`, round 2 `0>4 2>0 4>2`; 0 releases 1, 2 releases 3.
//!
//! * Rounds: ⌈log_{k+1} V⌉. Messages per leader: at most k per round, empty.
//! * Cost: ⌈log_{k+1} V⌉ α and two flags in shared memory.
//! * One node: everyone signals and waits for all; nobody waits for the leader in particular.

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::node_tree::NodeTree;
use crate::pattern::dissemination::{peers, rounds};
use crate::pattern::{after, before};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::NodeRank;

/// One rank's schedule of `dissemination`.
pub fn build(request: &Request<'_>) -> Schedule {
    let mut builder = request.builder();
    exchange(&mut builder, request, &Group::ranks(request.topology));
    builder.finish(0)
}

/// One rank's schedule of `smp_dissemination`.
pub fn build_smp(request: &Request<'_>) -> Schedule {
    let group = Group::nodes(request.topology);
    let mut builder = request.builder();
    if group.size() == 1 {
        builder.node_barrier();
        return builder.finish(0);
    }
    let tree = NodeTree::of(request);
    builder.node_arrive();
    tree.gather(&mut builder, |_, _| {});
    builder.end_round();
    if group.speaks(request.rank) {
        exchange(&mut builder, request, &group);
    } else {
        builder.end_rounds(rounds(group.size(), request.ports));
    }
    let nothing = Span::node(0, 0);
    tree.pass_on(&mut builder, NodeRank(0), nothing, |_| nothing);
    builder.finish(0)
}

/// All rounds of the member that this rank speaks for.
fn exchange(builder: &mut ScheduleBuilder<'_>, request: &Request<'_>, group: &Group<'_>) {
    let (size, me, ports) = (group.size(), group.member_of(request.rank), request.ports);
    for round in 0..rounds(size, ports) {
        for (port, distance) in peers(size, ports, round) {
            let to = group.rank(after(me, distance, size));
            builder.notify(to, Wire::of_round(round, ports, port));
        }
        for (port, distance) in peers(size, ports, round) {
            let from = group.rank(before(me, distance, size));
            builder.await_put(from, Wire::of_round(round, ports, port), 0);
        }
        builder.end_round();
    }
}

/// Closed form of `dissemination`.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    Work {
        rounds: rounds(shape.ranks, shape.ports).into(),
        ..Work::flat(shape, 0)
    }
}

/// Closed form of `smp_dissemination`.
pub fn work_smp(shape: &Shape, _: Protocol) -> Work {
    Work {
        rounds: rounds(shape.nodes, shape.ports).into(),
        node_syncs: shape.syncs(1),
        ..Work::copies(0)
    }
}
