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
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::{before, direct};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (topology, ports) = (request.topology, request.ports);
    let group = Group::nodes(topology);
    let (node, root_node) = (group.member_of(request.rank), group.member_of(request.root));
    let is_root = request.rank == request.root;
    let rounds = direct::rounds(group.size(), ports);
    let single_node = topology.node_count() == 1;
    let mut builder = ScheduleBuilder::new(topology, request.rank);
    if topology.size() == 1 {
        builder.copy(Span::send(0, 1), Span::recv(0, 1));
        return builder.finish(0);
    }
    let place = |rank: Rank| match single_node && group.place(rank) > group.place(request.root) {
        true => group.place(rank) - 1,
        false => group.place(rank),
    };
    if is_root {
        for rank in (0..topology.size())
            .map(Rank)
            .filter(|&rank| rank != request.root)
        {
            builder.copy(Span::send(rank.0, 1), Span::node(place(rank), 1));
        }
    }
    if node == root_node {
        builder.node_release(topology.node_rank_of(request.root));
    }
    builder.end_round();
    if node == root_node && group.speaks(request.rank) {
        for round in 0..rounds {
            for exchange in direct::round(node, group.size(), ports, round) {
                let (port, slot) = (exchange.port, 0);
                let span = group.members(exchange.to, 1);
                builder.put(group.rank(exchange.to), Wire { port, slot }, span, span);
            }
            builder.end_round();
        }
    } else {
        builder.end_rounds(rounds);
    }
    if node != root_node {
        if group.speaks(request.rank) {
            let distance = before(node, root_node, group.size());
            let (port, slot) = (((distance - 1) % u32::from(ports)) as u8, 0);
            let blocks = group.members(node, 1).count;
            builder.await_put(group.rank(root_node), Wire { port, slot }, blocks);
        }
        builder.node_broadcast();
    }
    let own = if is_root {
        Span::send(request.rank.0, 1)
    } else {
        Span::node(place(request.rank), 1)
    };
    builder.copy(own, Span::recv(0, 1));
    let is_last = group.place(request.root) + 1 == group.blocks();
    builder.finish(group.blocks() - u32::from(single_node || is_last))
}

/// Closed form: equation (2) over nodes.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let rounds = u64::from(direct::rounds(shape.nodes, shape.ports));
    Work {
        rounds,
        port_blocks: rounds * u64::from(shape.node_size),
        node_syncs: shape.syncs(1),
        ..Work::copies(u64::from(shape.ranks))
    }
}
