//! SMP-aware Direct all-to-all: leaders exchange what their nodes have for each other, as one
//! message per pair of nodes.
//!
//! Node memory of a node of q ranks: q N outgoing blocks, by destination node, then source, then
//! destination; q N incoming ones, by source node, then source, then destination here. Four ranks
//! on nodes (0 1) (2 3); `st` is the block from s to t:
//!
//! ```text
//! gather    00 01 10 11  02 03 12 13 | ...        20 21 30 31  22 23 32 33 | ...
//! round 1   0>2: 02 03 12 13    2>0: 20 21 30 31
//! release   everyone copies out the blocks for it; those of its own node meanwhile
//! ```
//!
//! * Rounds: ⌈(V-1)/k⌉. Messages per leader: V-1. Volume per port: q² ⌈(V-1)/k⌉ blocks.
//! * Cost: ⌈(V-1)/k⌉ (α + q² l β) and two copies in shared memory.
//! * One node: everyone copies in, one wait for all, everyone copies out.

use super::alone;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::direct::{round, rounds};
use crate::registry::Request;
use crate::schedule::{Landing, Schedule, Span};
use ferrorail_base::{NodeId, NodeRank, Rank, Topology};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    let (topology, ports) = (request.topology, request.ports);
    let group = Group::nodes(topology);
    let places = Places {
        topology,
        group: &group,
        node: group.member_of(request.rank),
        local: topology.node_rank_of(request.rank),
    };
    let (node, nodes) = (places.node, group.size());
    let mut builder = ScheduleBuilder::new(topology, request.rank);
    places.copy_in(&mut builder);
    builder.node_arrive();
    builder.node_await_gather();
    builder.end_round();
    let leads = group.speaks(request.rank);
    for r in 0..rounds(nodes, ports) {
        for exchange in round(node, nodes, ports, r).filter(|_| leads) {
            let (from, into) = (places.outgoing(exchange.to), places.at_peer(exchange.to));
            let wire = Wire::of_round(r, ports, exchange.port);
            builder.put(group.rank(exchange.to), wire, from, into);
        }
        builder.end_round();
    }
    places.copy_out(&mut builder, node);
    for r in 0..rounds(nodes, ports) {
        for exchange in round(node, nodes, ports, r).filter(|_| leads) {
            let blocks = places.incoming(exchange.from).count;
            let wire = Wire::of_round(r, ports, exchange.port);
            builder.await_put(group.rank(exchange.from), wire, blocks);
        }
    }
    if nodes > 1 {
        builder.node_broadcast();
    }
    for other in (0..nodes).filter(|&other| other != node) {
        places.copy_out(&mut builder, other);
    }
    builder.finish(scratch_blocks(&group))
}

struct Places<'a> {
    topology: &'a Topology,
    group: &'a Group<'a>,
    node: u32,
    local: NodeRank,
}

impl Places<'_> {
    fn length(&self, node: u32) -> u32 {
        self.group.members(node, 1).count
    }

    /// What this node has for node `to`.
    fn outgoing(&self, to: u32) -> Span {
        let own = self.length(self.node);
        Span::node(own * self.group.first(to), own * self.length(to))
    }

    /// Where blocks from `from` lie: what stays in the node is not moved.
    fn incoming(&self, from: u32) -> Span {
        if from == self.node {
            return self.outgoing(from);
        }
        self.arrival(self.node, from)
    }

    /// Where `to` takes what this node puts.
    fn at_peer(&self, to: u32) -> Span {
        self.arrival(to, self.node)
    }

    fn arrival(&self, at: u32, from: u32) -> Span {
        let length = self.length(at);
        let first = length * (self.group.blocks() + self.group.first(from));
        Span::node(first, length * self.length(from))
    }

    fn copy_in(&self, builder: &mut ScheduleBuilder<'_>) {
        for node in 0..self.group.size() {
            let ranks = self.topology.ranks_of(NodeId(node));
            let row = self.outgoing(node).first + self.local.0 * ranks.len() as u32;
            for (place, rank) in (row..).zip(ranks) {
                builder.copy(Span::send(rank.0, 1), Span::node(place, 1));
            }
        }
    }

    fn copy_out(&self, builder: &mut ScheduleBuilder<'_>, from: u32) {
        let first = self.incoming(from).first + self.local.0;
        let sources: &[Rank] = self.topology.ranks_of(NodeId(from));
        for (source, rank) in (0..).zip(sources) {
            let place = first + source * self.length(self.node);
            builder.copy(Span::node(place, 1), Span::recv(rank.0, 1));
        }
    }
}

/// End of the farthest area of any node.
fn scratch_blocks(group: &Group<'_>) -> u32 {
    let nodes = group.size();
    let end = |node: u32| {
        let farthest = if nodes == 1 {
            0
        } else if node + 1 == nodes {
            group.first(node)
        } else {
            group.blocks()
        };
        group.members(node, 1).count * (group.blocks() + farthest)
    };
    (0..nodes).map(end).max().unwrap_or(0)
}

/// Closed form: equation (2) over nodes, q² blocks a message.
pub fn work(shape: &Shape, _: Landing) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let rounds = u64::from(rounds(shape.nodes, shape.ports));
    let node_size = u64::from(shape.node_size);
    Work {
        rounds,
        port_blocks: rounds * node_size * node_size,
        node_syncs: shape.syncs(1 + u64::from(shape.nodes > 1)),
        ..Work::copies(2 * u64::from(shape.ranks))
    }
}
