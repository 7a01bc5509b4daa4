//! SMP-aware reduce: leaders reduce their nodes' vectors, a tree combines those of the nodes.
//!
//! Five ranks on nodes (0 1) (2 3) (4), root 1, one port: 0 reduces 0-1, 2 reduces 2-3; round 1
//! `2>0: 2-3`, round 2 `4>0: 4`; 0 hands 0-4 over to 1.
//!
//! * Rounds: ⌈log_{k+1} V⌉. Messages: V-1, whole vectors. Cost: ⌈log_{k+1} V⌉ (α + l β).
//! * One node: everyone copies in; the root waits for all and reduces into its own buffer.
//! * Combines in rank order where the ranks of every node are consecutive.

use super::knomial::{arrivals, up};
use crate::algorithm::Request;
use crate::builder::ScheduleBuilder;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::ceil_log;
use crate::pattern::rooted::Tree;
use crate::reduction::{alone, fold};
use crate::schedule::{Protocol, Schedule, Span};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    let (topology, ports) = (request.topology, request.ports);
    let group = Group::nodes(topology);
    let (node, root_node) = (group.member_of(request.rank), group.member_of(request.root));
    let locals = group.members(node, 1).count;
    let contributions = (0..locals).map(|local| Span::node(local, 1));
    let mut builder = ScheduleBuilder::new(topology, request.rank);
    builder.node_gather(topology.node_rank_of(request.rank).0);
    if group.size() == 1 {
        if request.rank == request.root {
            builder.node_await_gather();
            fold(&mut builder, contributions, Span::recv(0, 1));
        }
        return builder.finish(locals);
    }
    let tree = Tree::new(root_node, group.size(), ports);
    let own = Span::node(0, 1);
    if group.speaks(request.rank) {
        builder.node_await_gather();
        fold(&mut builder, contributions, own);
        builder.end_round();
        let first = topology.node_size_max();
        let arrival = |place| Span::node(first + place, 1);
        let from = (None, arrival);
        up(&mut builder, (&group, node), &tree, ports, (own, own), from);
    } else {
        builder.end_rounds(1 + tree.levels());
    }
    if node == root_node {
        builder.node_hand_over(topology.node_rank_of(request.root));
    }
    if request.rank == request.root {
        builder.copy(own, Span::recv(0, 1));
    }
    builder.finish(topology.node_size_max() + arrivals(group.size(), ports))
}

/// Closed form.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let levels = u64::from(ceil_log(shape.nodes, u32::from(shape.ports) + 1));
    let reductions = u64::from(shape.node_size - 1 + arrivals(shape.nodes, shape.ports));
    Work {
        rounds: levels,
        port_blocks: levels,
        node_syncs: shape.syncs(1),
        ..Work::copies(1 + reductions + u64::from(shape.nodes > 1))
    }
}
