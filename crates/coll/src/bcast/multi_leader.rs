//! Multi-leader broadcast: each of several leaders of a node passes its slice of the message down a
//! tree of nodes over its own rail.
//!
//! Four ranks on nodes (0 1) (2 3), root 1, two ports; the message has four parts:
//!
//! ```text
//! 1 copies into its node's memory; 0 waits for it
//! round 1   0>2: parts 0 1, on port 0     1>3: parts 2 3, on port 1
//! 0 copies out; 2 and 3 release each other and copy out
//! ```
//!
//! * L leaders with k/L ports each ([`Leaders`](crate::leaders::Leaders)). Rounds: ⌈log_{k/L+1} V⌉. Messages: L (V-1).
//! * Cost: ⌈log_{k/L+1} V⌉ (α + l/L β) and two copies, the second concurrent within a node.
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
    let parts = topology.size();
    let mut builder = ScheduleBuilder::new(topology, request.rank);
    if parts == 1 {
        return builder.finish(0);
    }
    let leaders = request.node_leaders();
    let leader = leaders.index(topology.node_rank_of(request.rank));
    let group = Group::led_by(topology, leaders, leader.unwrap_or(0));
    let (node, root_node) = (group.member_of(request.rank), group.member_of(request.root));
    let tree = Tree::new(root_node, group.size(), leaders.ports);
    let everything = Span::node(0, parts);
    if request.rank == request.root {
        builder.copy(Span::recv(0, parts), everything);
    }
    if node == root_node {
        builder.node_release(topology.node_rank_of(request.root));
    }
    builder.end_round();
    if let Some(leader) = leader {
        let share = leaders.share(leader, parts);
        let slice = Span::node(share.start, share.len() as u32);
        leaders.take_ports(&mut builder, leader);
        down(&mut builder, &group, &tree, node, slice, |builder| {
            builder.node_say(leaders.count);
        });
    } else {
        builder.end_rounds(tree.levels());
        if node != root_node {
            builder.node_say(leaders.count);
        }
    }
    if node != root_node {
        leaders.await_release(&mut builder);
    }
    if request.rank != request.root {
        builder.copy(everything, Span::recv(0, parts));
    }
    builder.finish(parts)
}

/// Closed form, in parts.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(0);
    }
    let leaders = shape.node_leaders();
    let levels = u64::from(ceil_log(shape.nodes, u32::from(leaders.ports) + 1));
    let syncs = match shape.nodes {
        1 => 1,
        _ => leaders.release_syncs(shape.node_size),
    };
    Work {
        rounds: levels,
        port_blocks: levels * u64::from(leaders.share_max(shape.ranks)),
        ports: leaders.ports,
        node_sharers: leaders.count,
        node_syncs: shape.syncs(syncs),
        ..Work::copies(shape.ranks.into())
    }
}
