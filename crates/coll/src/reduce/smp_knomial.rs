//! SMP-aware reduce: leaders reduce their nodes' vectors, a tree combines those of the nodes. Two names:
//! `smp_knomial` with one leader per node, `multi_leader_knomial` with several, each of which reduces its slice of
//! the vector and hands it up over its own rail.
//!
//! Five ranks on nodes (0 1) (2 3) (4), root 1, one port: 0 reduces 0-1, 2 reduces 2-3; round 1
//! `2>0: 2-3`, round 2 `4>0: 4`; 0 hands 0-4 over to 1.
//!
//! Several leaders: four ranks on nodes (0 1) (2 3), root 1, two ports; the vector has four parts: all copy in; 0 and
//! 2 reduce parts 0 1 of their nodes' vectors, 1 and 3 parts 2 3; `2>0: parts 0 1` on port 0,
//! `3>1: parts 2 3` on port 1; 1 waits for 0 and copies everything out.
//!
//! * Rounds: ⌈log_{k+1} V⌉. Messages: V-1, whole vectors. Cost: ⌈log_{k+1} V⌉ (α + l β).
//! * L leaders with k/L ports each ([`Leaders`]). Rounds: ⌈log_{k/L+1} V⌉. Messages: L (V-1), of l/L bytes.
//!   Cost: ⌈log_{k/L+1} V⌉ (α + l/L β).
//! * One node: everyone copies in; the root waits for all and reduces into its own buffer. Where leaders share the
//!   vector every rank reduces its slice, one in N, and the root copies all of them.
//! * Combines in rank order where the ranks of every node are consecutive.

use super::knomial::{arrivals, up};
use crate::algorithm::{Cut, Request};
use crate::builder::ScheduleBuilder;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::leaders::Leaders;
use crate::node_tree::NodeTree;
use crate::pattern::levels;
use crate::reduction::{Slice, fold};
use crate::schedule::{Protocol, Schedule, Span};
use crate::tree::Branch;

/// One rank's schedule.
pub fn build(request: &Request<'_>, leaders: Leaders, cut: Cut) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let topology = request.topology;
    if topology.node_count() == 1 && cut == Cut::Whole {
        return by_root(request);
    }
    let parts = cut.parts(topology.size());
    let leaders = leaders.or_everyone(topology.node_count(), parts);
    let group = Group::led(topology, leaders, request.rank);
    let (node, root_node) = (group.member_of(request.rank), group.member_of(request.root));
    let branch = Branch::new(&group, root_node, node, leaders.ports);
    let mut builder = request.builder();
    let vectors = reduce_nodes(&mut builder, request, &branch, leaders, parts);
    let is_root = request.rank == request.root;
    if node == root_node && cut == Cut::Whole {
        builder.node_hand_over(topology.node_rank_of(request.root));
    } else if node == root_node {
        builder.node_say(leaders.count);
        if is_root {
            leaders.await_release(&mut builder);
        }
    }
    if is_root {
        builder.copy(Span::node(0, parts), Span::recv(0, parts));
    }
    builder.finish(vectors * parts)
}

/// The whole operation on one node.
fn by_root(request: &Request<'_>) -> Schedule {
    let size = request.topology.size();
    let mut builder = request.builder();
    builder.node_gather(request.rank.0);
    if request.rank == request.root {
        builder.node_await_gather();
        let contributions = (0..size).map(|rank| Span::node(rank, 1));
        fold(&mut builder, contributions, Span::recv(0, 1));
    }
    builder.finish(size)
}

/// Leaders reduce their slices of their nodes' vectors and hand them up the tree of nodes, to the first of the vectors
/// that its root has in `Node`. Returns how many those are.
pub(crate) fn reduce_nodes(
    builder: &mut ScheduleBuilder<'_>,
    request: &Request<'_>,
    branch: &Branch<'_>,
    leaders: Leaders,
    parts: u32,
) -> u32 {
    let local = request.topology.node_rank_of(request.rank);
    let own = request.topology.node_size_max();
    builder.copy(Span::send(0, parts), Span::node(local.0 * parts, parts));
    builder.node_arrive();
    let leader = leaders.index(local);
    let slice = Slice::led_by(leaders, leader.unwrap_or(0), parts);
    match leader {
        _ if leaders.count == 1 => {
            let tree = NodeTree::of(request);
            tree.gather(builder, |builder, ranks| slice.reduce_of(builder, ranks));
            builder.end_round();
        }
        Some(_) => slice.reduce_node(builder),
        None => builder.end_round(),
    }
    if let Some(leader) = leader {
        leaders.take_ports(builder, leader);
        let (vector, arrival) = (slice.vector(0), |place| slice.vector(own + place));
        up(builder, branch, (vector, vector), slice.like(), arrival);
    } else {
        builder.end_rounds(branch.tree.levels());
    }
    own + arrivals(branch.group.size(), leaders.ports)
}

/// Closed form of `smp_knomial`.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let levels = u64::from(levels(shape.nodes, shape.ports));
    let reductions = u64::from(shape.node_size - 1 + arrivals(shape.nodes, shape.ports));
    Work {
        rounds: levels,
        port_blocks: levels,
        node_syncs: shape.syncs(1),
        ..Work::copies(1 + reductions + u64::from(shape.nodes > 1))
    }
}

/// Closed form of `multi_leader_knomial`, in parts.
pub fn work_multi_leader(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let leaders = shape.node_leaders().or_everyone(shape.nodes, shape.ranks);
    let levels = u64::from(levels(shape.nodes, leaders.ports));
    let slice = u64::from(leaders.share_max(shape.ranks));
    let reductions = u64::from(shape.node_size - 1 + arrivals(shape.nodes, leaders.ports));
    // Root 0 leads the first slice, which is the shortest.
    let first = u64::from(leaders.share(0, shape.ranks).len() as u32);
    let at_root = 2 * u64::from(shape.ranks) + first * reductions;
    let others = u64::from(shape.node_size > 1);
    let elsewhere = others * (u64::from(shape.ranks) + slice * reductions);
    Work {
        rounds: levels,
        port_blocks: levels * slice,
        node_syncs: shape.syncs(leaders.exchange_syncs(shape.node_size)),
        ..Work::led(leaders, at_root.max(elsewhere))
    }
}
