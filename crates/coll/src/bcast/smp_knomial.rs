//! SMP-aware broadcast: tree between the leaders, shared memory inside the nodes. Two names: `smp_knomial` with
//! one leader per node, `multi_leader_knomial` with several, each of which passes its slice of the message down
//! over its own rail.
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
//! Several leaders: four ranks on nodes (0 1) (2 3), root 1, two ports; the message has four parts:
//!
//! ```text
//! 1 copies into its node's memory; 0 waits for it
//! round 1   0>2: parts 0 1, on port 0     1>3: parts 2 3, on port 1
//! 0 copies out; 2 and 3 release each other and copy out
//! ```
//!
//! * Rounds: ⌈log_{k+1} V⌉. Messages: V-1. Volume per port: ⌈log_{k+1} V⌉ messages.
//! * Cost: ⌈log_{k+1} V⌉ (α + l β) and two copies, the second concurrent within a node.
//! * L leaders with k/L ports each ([`Leaders`]). Rounds: ⌈log_{k/L+1} V⌉. Messages: L (V-1).
//!   Cost: ⌈log_{k/L+1} V⌉ (α + l/L β) and the copies.
//! * One node: the root copies in, the others wait for it and copy out at the same time.

use crate::algorithm::{Cut, Request};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::leaders::Leaders;
use crate::node_tree::NodeTree;
use crate::pattern::levels;
use crate::schedule::{Schedule, Span};
use crate::tree::Branch;
use ferrorail_base::NodeRank;

/// One rank's schedule.
pub fn build(request: &Request<'_>, leaders: Leaders, cut: Cut) -> Schedule {
    let topology = request.topology;
    let parts = cut.parts(topology.size());
    let mut builder = request.builder();
    if topology.size() == 1 {
        return builder.finish(0);
    }
    let group = Group::led(topology, leaders, request.rank);
    let (node, root_node) = (group.member_of(request.rank), group.member_of(request.root));
    let branch = Branch::new(&group, root_node, node, leaders.ports);
    let (message, shared) = (Span::recv(0, parts), Span::node(0, parts));
    if request.rank == request.root {
        builder.copy(message, shared);
    }
    let tree = NodeTree::of(request);
    let place = |index| Span::node(index * parts, parts);
    let mut found = shared;
    if node == root_node {
        let by = topology.node_rank_of(request.root);
        found = tree.pass_on(&mut builder, by, shared, place);
    }
    builder.end_round();
    if let Some(leader) = leaders.index(topology.node_rank_of(request.rank)) {
        let share = leaders.share(leader, parts);
        let slice = Span::node(share.start, share.len() as u32);
        group.take_ports(&mut builder);
        branch.broadcast(&mut builder, 0, slice, |builder| match leaders.count {
            1 => {
                tree.pass_on(builder, NodeRank(0), shared, place);
            }
            count => builder.node_say(count),
        });
    } else {
        builder.end_rounds(branch.tree.levels());
        match leaders.count {
            _ if node == root_node => {}
            1 => found = tree.pass_on(&mut builder, NodeRank(0), shared, place),
            count => builder.node_say(count),
        }
    }
    if node != root_node && leaders.count > 1 {
        leaders.await_release(&mut builder);
    }
    if request.rank != request.root {
        builder.copy(found, message);
    }
    builder.finish((1 + NodeTree::places(request)) * parts)
}

/// Closed form, in parts.
pub fn work(shape: &Shape, leaders: Leaders, cut: Cut) -> Work {
    if shape.ranks == 1 {
        return Work::copies(0);
    }
    let parts = cut.parts(shape.ranks);
    let levels = u64::from(levels(shape.nodes, leaders.ports));
    let syncs = match shape.nodes {
        1 => 1,
        _ => leaders.release_syncs(shape.node_size),
    };
    Work {
        rounds: levels,
        port_blocks: levels * u64::from(leaders.share_max(parts)),
        node_syncs: shape.syncs(syncs),
        ..Work::led(leaders, parts.into())
    }
}
