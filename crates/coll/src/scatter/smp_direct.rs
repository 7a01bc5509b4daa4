//! SMP-aware Direct scatter: the root's leader puts to each leader the blocks of its node.
//!
//! Five ranks on nodes (0 1) (2 3) (4), root 1, one port:
//!
//! ```text
//! 1 copies the others' blocks into its node's memory and releases 0
//! round 1   0>2: 2 3      round 2   0>4: 4
//! 2 releases 3; everyone copies its block out
//! ```
//!
//! * Rounds: ⌈(V-1)/k⌉. Messages: V-1. Volume per port: q ⌈(V-1)/k⌉ blocks.
//! * Cost: ⌈(V-1)/k⌉ (α + q l β), equation (2) over nodes, and the copies.
//! * One node: the root copies in, the others wait for it and copy out at the same time, and `Node` has no place
//!   for the root's own block.

use crate::algorithm::Request;
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::before;
use crate::pattern::direct::{round, rounds};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let (topology, ports, root) = (request.topology, request.ports, request.root);
    let group = Group::nodes(topology);
    let (node, root_node) = (group.member_of(request.rank), group.member_of(root));
    let is_root = request.rank == root;
    let leads = group.speaks(request.rank);
    let rounds = rounds(group.size(), ports);
    let single_node = topology.node_count() == 1;
    // Every leader receives one message.
    let wire = |distance| Wire {
        slot: 0,
        ..Wire::at_distance(distance, ports)
    };
    let mut builder = request.builder();
    let place = |rank: Rank| {
        let after_root = single_node && group.place(rank) > group.place(root);
        group.place(rank) - u32::from(after_root)
    };
    if is_root {
        let ranks = (0..topology.size()).map(Rank);
        for rank in ranks.filter(|&rank| rank != root) {
            builder.copy(Span::send(rank.0, 1), Span::node(place(rank), 1));
        }
    }
    if node == root_node {
        builder.node_release(topology.node_rank_of(root));
    }
    builder.end_round();
    for r in 0..rounds {
        if leads && node == root_node {
            for exchange in round(node, group.size(), ports, r) {
                let (to, span) = (group.rank(exchange.to), group.members(exchange.to, 1));
                builder.put(to, wire(exchange.distance), span, span);
            }
        }
        builder.end_round();
    }
    if node != root_node {
        if leads {
            let distance = before(node, root_node, group.size());
            let blocks = group.members(node, 1).count;
            builder.await_put(group.rank(root_node), wire(distance), blocks);
        }
        builder.node_broadcast();
    }
    let own = match is_root {
        true => Span::send(root.0, 1),
        false => Span::node(place(request.rank), 1),
    };
    builder.copy(own, Span::recv(0, 1));
    let is_last = group.place(root) + 1 == group.blocks();
    builder.finish(group.blocks() - u32::from(single_node || is_last))
}

/// Closed form: equation (2) over nodes.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let rounds = u64::from(rounds(shape.nodes, shape.ports));
    Work {
        rounds,
        port_blocks: rounds * u64::from(shape.node_size),
        node_syncs: shape.syncs(1),
        ..Work::copies(shape.ranks.into())
    }
}
