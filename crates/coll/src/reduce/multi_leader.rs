//! Multi-leader reduce: each of several leaders of a node reduces its slice of the vector and hands
//! it up a tree of nodes over its own rail.
//!
//! Four ranks on nodes (0 1) (2 3), root 1, two ports; the vector has four parts: all copy in; 0 and
//! 2 reduce parts 0 1 of their nodes' vectors, 1 and 3 parts 2 3; `2>0: parts 0 1` on port 0,
//! `3>1: parts 2 3` on port 1; 1 waits for 0 and copies everything out.
//!
//! * L leaders with k/L ports each ([`Leaders`](crate::leaders::Leaders)). Rounds: ⌈log_{k/L+1} V⌉. Messages: L (V-1), of l/L
//!   bytes. Cost: ⌈log_{k/L+1} V⌉ (α + l/L β).
//! * One node: every rank reduces its slice, one in N, and the root copies all of them.
//! * Combines in rank order where the ranks of every node are consecutive.

use super::knomial::{arrivals, up};
use crate::algorithm::Request;
use crate::builder::ScheduleBuilder;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::ceil_log;
use crate::pattern::rooted::Tree;
use crate::reduction::{alone, fold_like};
use crate::schedule::{Protocol, Schedule, Span};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    let topology = request.topology;
    let parts = topology.size();
    let leaders = request
        .node_leaders()
        .or_everyone(topology.node_count(), parts);
    let local = topology.node_rank_of(request.rank);
    let leader = leaders.index(local);
    let group = Group::led_by(topology, leaders, leader.unwrap_or(0));
    let (node, root_node) = (group.member_of(request.rank), group.member_of(request.root));
    let locals = group.members(node, 1).count;
    let tree = Tree::new(root_node, group.size(), leaders.ports);
    let mut builder = ScheduleBuilder::new(topology, request.rank);
    builder.copy(Span::send(0, parts), Span::node(local.0 * parts, parts));
    builder.node_arrive();
    if let Some(leader) = leader {
        let share = leaders.share(leader, parts);
        let slice = |vector: u32| Span::node(vector * parts + share.start, share.len() as u32);
        let like = Some(share.start);
        builder.node_await_gather();
        let contributions = (0..locals).map(slice);
        fold_like(&mut builder, like, contributions, slice(0));
        builder.end_round();
        leaders.take_ports(&mut builder, leader);
        let arrival = |place| slice(topology.node_size_max() + place);
        let from = (like, arrival);
        up(
            &mut builder,
            (&group, node),
            &tree,
            leaders.ports,
            (slice(0), slice(0)),
            from,
        );
    } else {
        builder.end_rounds(1 + tree.levels());
    }
    if node == root_node {
        builder.node_say(leaders.count);
        if request.rank == request.root {
            leaders.await_release(&mut builder);
            builder.copy(Span::node(0, parts), Span::recv(0, parts));
        }
    }
    let vectors = topology.node_size_max() + arrivals(group.size(), leaders.ports);
    builder.finish(vectors * parts)
}

/// Closed form, in parts.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let leaders = shape.node_leaders().or_everyone(shape.nodes, shape.ranks);
    let levels = u64::from(ceil_log(shape.nodes, u32::from(leaders.ports) + 1));
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
        ports: leaders.ports,
        node_sharers: leaders.count,
        node_syncs: shape.syncs(leaders.exchange_syncs(shape.node_size)),
        ..Work::copies(at_root.max(elsewhere))
    }
}
