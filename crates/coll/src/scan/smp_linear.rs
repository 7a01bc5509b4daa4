//! SMP-aware scan: everyone reduces what precedes it in its node's memory; leaders pass the total
//! of all nodes before on, from node to node.
//!
//! Five ranks on nodes (0 1) (2 3) (4): everyone copies in; 0 puts 0-1 to 2, which puts 0-3 to 4
//! and releases 3; 3 reduces 0-1, 2 and 3.
//!
//! * Rounds: V-1. Messages: V-1, whole vectors. Cost: (V-1) (α + l β): for few nodes.
//! * One node: everyone copies in and waits only for those before it.
//! * Where the ranks of some node are not consecutive, `recursive_doubling` takes its place.

use super::recursive_doubling;
use crate::algorithm::{Request, has_consecutive_nodes};
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::reduction::{fold, folded};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::NodeRank;

/// One rank's schedule.
pub fn build<const INCLUSIVE: bool>(request: &Request<'_>) -> Schedule {
    let topology = request.topology;
    if topology.size() == 1 || !has_consecutive_nodes(topology) {
        return recursive_doubling::build::<INCLUSIVE>(request);
    }
    let group = Group::nodes(topology);
    let (node, nodes) = (group.member_of(request.rank), group.size());
    let local = topology.node_rank_of(request.rank).0;
    let locals = group.members(node, 1).count;
    // A node keeps its vectors, what comes from the nodes before, and what goes to the next.
    let most = topology.node_size_max();
    let (arrival, total) = (Span::node(most, 1), Span::node(most + 1, 1));
    let mut builder = request.builder();
    builder.node_gather(local);
    let leads = group.speaks(request.rank);
    if leads && node + 1 < nodes {
        builder.node_await_gather();
    } else {
        (0..local).for_each(|before| builder.node_await(NodeRank(before)));
    }
    builder.end_round();
    let wire = Wire { port: 0, slot: 0 };
    let before = (node > 0).then_some(arrival);
    for round in 0..nodes - 1 {
        if leads && round + 1 == node {
            builder.await_put(group.rank(node - 1), wire, 1);
        }
        if leads && round == node {
            let vectors = (0..locals).map(|local| Span::node(local, 1));
            fold(&mut builder, before.into_iter().chain(vectors), total);
            builder.put(group.rank(node + 1), wire, total, arrival);
        }
        builder.end_round();
    }
    if node > 0 {
        builder.node_broadcast();
    }
    let end = local + u32::from(INCLUSIVE);
    let operands = (0..end).map(|local| Span::node(local, 1));
    fold(
        &mut builder,
        before.into_iter().chain(operands),
        Span::recv(0, 1),
    );
    builder.finish(scratch_blocks(topology.node_size_max(), nodes))
}

fn scratch_blocks(most: u32, nodes: u32) -> u32 {
    if nodes > 1 { most + 2 } else { most }
}

/// Closed form.
pub fn work<const INCLUSIVE: bool>(shape: &Shape, _: Protocol) -> Work {
    let inclusive = u64::from(INCLUSIVE);
    if shape.ranks == 1 {
        return Work::copies(inclusive);
    }
    let (locals, nodes) = (u64::from(shape.node_size), u64::from(shape.nodes));
    // The last rank of a node reduces all that precedes it; the leader of a node in the middle
    // the total, and the little that precedes itself.
    let before = u64::from(nodes > 1);
    let last = 1 + folded(before + locals - 1 + inclusive);
    let leader = match nodes {
        1 => 0,
        2 => 1 + folded(locals) + inclusive,
        _ => 1 + folded(1 + locals) + 1,
    };
    Work {
        rounds: nodes - 1,
        port_blocks: nodes - 1,
        node_syncs: shape.syncs(locals - 1 + before),
        ..Work::copies(last.max(leader))
    }
}
