//! SMP-aware Direct all-to-all: leaders exchange what their nodes have for each other, as one
//! message per pair of nodes. Two names: `smp_direct` with one leader per node,
//! `multi_leader_direct` with several, each of which carries what its share of the node's ranks
//! sends, over its own rail.
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
//! * Of L leaders with k/L ports ([`Leaders`]) each takes ⌈(V-1)L/k⌉ rounds with ⌈q/L⌉ q blocks:
//!   in `multi_leader_direct` above `0>2: 02 03`, `1>3: 12 13`, and so on.
//! * One node: everyone copies in, one wait for all, everyone copies out.

use super::alone;
use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::leaders::Leaders;
use crate::pattern::direct::{round, rounds};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::{NodeId, NodeRank, Rank, Topology};

/// One rank's schedule of `smp_direct`.
pub fn build(request: &Request<'_>) -> Schedule {
    build_led(request, Leaders::one(request.ports))
}

/// One rank's schedule of `multi_leader_direct`.
pub fn build_multi_leader(request: &Request<'_>) -> Schedule {
    build_led(request, request.node_leaders())
}

fn build_led(request: &Request<'_>, leaders: Leaders) -> Schedule {
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    let topology = request.topology;
    let local = topology.node_rank_of(request.rank);
    let leader = leaders.index(local);
    let group = Group::led_by(topology, leaders, leader.unwrap_or(0));
    let places = Places {
        topology,
        group: &group,
        node: group.member_of(request.rank),
        local,
    };
    let mut builder = ScheduleBuilder::new(topology, request.rank);
    places.copy_in(&mut builder);
    builder.node_arrive();
    builder.node_await_gather();
    builder.end_round();
    if let Some(leader) = leader {
        leaders.take_ports(&mut builder, leader);
        places.post(&mut builder, leaders.ports);
    } else {
        builder.end_rounds(rounds(group.size(), leaders.ports));
    }
    places.copy_out(&mut builder, places.node);
    if leader.is_some() {
        places.await_all(&mut builder, leaders.ports);
    }
    if group.size() > 1 {
        leaders.release(&mut builder);
    }
    for other in (0..group.size()).filter(|&other| other != places.node) {
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

    /// Posts what this leader carries, a round at a time.
    fn post(&self, builder: &mut ScheduleBuilder<'_>, ports: u8) {
        let nodes = self.group.size();
        for r in 0..rounds(nodes, ports) {
            for exchange in round(self.node, nodes, ports, r) {
                let wire = Wire::of_round(r, ports, exchange.port);
                let from = self.shared(self.outgoing(exchange.to), self.node);
                let into = self.shared(self.at_peer(exchange.to), self.node);
                builder.put(self.group.rank(exchange.to), wire, from, into);
            }
            builder.end_round();
        }
    }

    fn await_all(&self, builder: &mut ScheduleBuilder<'_>, ports: u8) {
        let nodes = self.group.size();
        for r in 0..rounds(nodes, ports) {
            for exchange in round(self.node, nodes, ports, r) {
                let wire = Wire::of_round(r, ports, exchange.port);
                let blocks = self
                    .shared(self.incoming(exchange.from), exchange.from)
                    .count;
                builder.await_put(self.group.rank(exchange.from), wire, blocks);
            }
        }
    }

    /// Of an area with a row for each rank of `from`, the rows of the leader's share.
    fn shared(&self, area: Span, from: u32) -> Span {
        let (all, share) = (self.group.members(from, 1), self.group.share(from));
        let row = area.count / all.count;
        Span::node(
            area.first + (share.first - all.first) * row,
            share.count * row,
        )
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

/// Closed form of `smp_direct`: equation (2) over nodes, q² blocks a message.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    work_led(shape, Leaders::one(shape.ports))
}

/// Closed form of `multi_leader_direct`.
pub fn work_multi_leader(shape: &Shape, _: Protocol) -> Work {
    work_led(shape, shape.node_leaders())
}

fn work_led(shape: &Shape, leaders: Leaders) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let rounds = u64::from(rounds(shape.nodes, leaders.ports));
    let message = leaders.share_max(shape.node_size) * shape.node_size;
    let waits = match (shape.nodes, leaders.count) {
        (1, _) => 0,
        (_, 1) => 1,
        _ => leaders.release_syncs(shape.node_size),
    };
    Work {
        rounds,
        port_blocks: rounds * u64::from(message),
        ports: leaders.ports,
        node_sharers: leaders.count,
        node_syncs: shape.syncs(1 + waits),
        ..Work::copies(2 * u64::from(shape.ranks))
    }
}
