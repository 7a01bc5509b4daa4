//! SMP-aware broadcast: tree between the leaders, shared memory inside the nodes.
//!
//! Five ranks on nodes (0 1) (2 3) (4), root 1, one port:
//!
//! ```text
//! 1 copies into its node's memory; 0 waits for it
//! round 1   0>4
//! round 2   0>2; meanwhile 0 and 4 copy out
//! 2 releases 3; both copy out
//! ```
//!
//! * Rounds: ⌈log_{k+1} V⌉. Messages: V-1. Volume per port: ⌈log_{k+1} V⌉ messages.
//! * Cost: ⌈log_{k+1} V⌉ (α + l β) and two copies, the second concurrent within a node.
//! * One node: the root copies in, the others wait for it and copy out at the same time.

use super::knomial::down;
use crate::algorithm::Request;
use crate::builder::ScheduleBuilder;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::ceil_log;
use crate::pattern::rooted::Tree;
use crate::schedule::{Protocol, Schedule, Span};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let topology = request.topology;
    let mut builder = ScheduleBuilder::new(topology, request.rank);
    if topology.size() == 1 {
        return builder.finish(0);
    }
    let group = Group::nodes(topology);
    let (node, root_node) = (group.member_of(request.rank), group.member_of(request.root));
    let tree = Tree::new(root_node, group.size(), request.ports);
    if request.rank == request.root {
        builder.copy(Span::recv(0, 1), Span::node(0, 1));
    }
    if node == root_node {
        builder.node_release(topology.node_rank_of(request.root));
    }
    builder.end_round();
    if group.speaks(request.rank) {
        let span = Span::node(0, 1);
        down(&mut builder, &group, &tree, node, span, |builder| {
            builder.node_broadcast()
        });
    } else {
        builder.end_rounds(tree.levels());
        if node != root_node {
            builder.node_broadcast();
        }
    }
    if request.rank != request.root {
        builder.copy(Span::node(0, 1), Span::recv(0, 1));
    }
    builder.finish(1)
}

/// Closed form.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    let levels = u64::from(ceil_log(shape.nodes, u32::from(shape.ports) + 1));
    Work {
        rounds: levels,
        port_blocks: levels,
        node_syncs: shape.syncs(1),
        ..Work::copies(u64::from(shape.ranks > 1))
    }
}
