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

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::leaders::Leaders;
use crate::pattern::direct::{all, round, rounds};
use crate::schedule::{Schedule, Span};

/// One rank's schedule.
pub fn build(request: &Request<'_>, leaders: Leaders) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let group = Group::led(request.topology, leaders, request.rank);
    let (node, nodes) = (group.member_of(request.rank), group.size());
    let leads = group.speaks(request.rank);
    let local = request.topology.node_rank_of(request.rank).0;
    let places = Places {
        group: &group,
        node,
    };
    let wire = |distance| Wire::at_distance(distance, leaders.ports);
    let mut builder = request.builder();
    places.copy_in(&mut builder, local);
    builder.node_barrier();
    builder.end_round();
    if leads {
        group.take_ports(&mut builder);
    }
    for r in 0..rounds(nodes, leaders.ports) {
        if leads {
            for exchange in round(node, nodes, leaders.ports, r) {
                let from = group.part_of_share(node, places.outgoing(exchange.to));
                let into = group.part_of_share(node, places.arrival(exchange.to, node));
                builder.put(group.rank(exchange.to), wire(exchange.distance), from, into);
            }
        }
        builder.end_round();
    }
    places.copy_out(&mut builder, node, local);
    if leads {
        for exchange in all(node, nodes, leaders.ports) {
            let from = exchange.from;
            let blocks = group.part_of_share(from, places.incoming(from)).count;
            builder.await_put(group.rank(from), wire(exchange.distance), blocks);
        }
    }
    if nodes > 1 {
        group.release(&mut builder);
    }
    for other in (0..nodes).filter(|&other| other != node) {
        places.copy_out(&mut builder, other, local);
    }
    builder.finish(scratch_blocks(&group))
}

struct Places<'a> {
    group: &'a Group<'a>,
    node: u32,
}

impl Places<'_> {
    /// What this node has for node `to`.
    fn outgoing(&self, to: u32) -> Span {
        let own = self.group.count(self.node);
        Span::node(own * self.group.first(to), own * self.group.count(to))
    }

    /// Where blocks from `from` lie: what stays in the node is not moved.
    fn incoming(&self, from: u32) -> Span {
        match from == self.node {
            true => self.outgoing(from),
            false => self.arrival(self.node, from),
        }
    }

    /// Where `at` takes what `from` puts.
    fn arrival(&self, at: u32, from: u32) -> Span {
        let length = self.group.count(at);
        let first = length * (self.group.blocks() + self.group.first(from));
        Span::node(first, length * self.group.count(from))
    }

    fn copy_in(&self, builder: &mut ScheduleBuilder<'_>, local: u32) {
        for node in 0..self.group.size() {
            let row = self.outgoing(node).first + local * self.group.count(node);
            for (place, rank) in (row..).zip(self.group.ranks_of(node)) {
                builder.copy(Span::send(rank.0, 1), Span::node(place, 1));
            }
        }
    }

    fn copy_out(&self, builder: &mut ScheduleBuilder<'_>, from: u32, local: u32) {
        let first = self.incoming(from).first + local;
        for (source, rank) in (0..).zip(self.group.ranks_of(from)) {
            let place = first + source * self.group.count(self.node);
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
        group.count(node) * (group.blocks() + farthest)
    };
    (0..nodes).map(end).max().unwrap_or(0)
}

/// Closed form: equation (2) over nodes, q² blocks a message.
pub fn work(shape: &Shape, leaders: Leaders) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let rounds = u64::from(rounds(shape.nodes, leaders.ports));
    let message = leaders.share_max(shape.node_size) * shape.node_size;
    let waits = match shape.nodes {
        1 => 0,
        _ => leaders.release_syncs(shape.node_size),
    };
    Work {
        rounds,
        port_blocks: rounds * u64::from(message),
        node_syncs: shape.syncs(1 + waits),
        ..Work::led(leaders, 2 * u64::from(shape.ranks))
    }
}
