//! SMP-aware Direct reduce-scatter: leaders reduce what their nodes have for each other, so that
//! rails carry one block per node and owner. Two names: `smp_direct` with one leader per node,
//! `multi_leader_direct` with several, each of which reduces and carries the blocks of its share of
//! every node's ranks, over its own rail.
//!
//! Node memory of a node of q ranks: a row of N blocks, in member order, of each of them; q blocks
//! that arrive from each other node. Four ranks on nodes (0 1) (2 3); `s.b` is block b of rank s:
//!
//! ```text
//! gather    0.0 0.1 0.2 0.3  1.0 1.1 1.2 1.3  | 2.0 2.1 2.2 2.3  3.0 3.1 3.2 3.3
//! reduce    0 reduces row 1 with row 0          2 reduces row 3 with row 2
//! round 1   0>2: (0-1).2 (0-1).3                2>0: (2-3).0 (2-3).1
//! release   everyone reduces its block of the first row with those that arrived
//! ```
//!
//! * Of L leaders with k/L ports ([`Leaders`]; one in `smp_direct`) each takes ⌈(V-1)L/k⌉ rounds
//!   with ⌈q/L⌉ blocks. Messages per leader: V-1.
//! * Cost: ⌈(V-1)L/k⌉ (α + ⌈q/L⌉ l β); a leader reduces (q-1) N/L blocks, everyone V-1.
//! * One node: everyone copies in, waits for all and reduces its block.
//! * Combines in rank order where the ranks of every node are consecutive.

use super::work_alone;
use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::leaders::{Leaders, runs};
use crate::pattern::direct::{round, rounds};
use crate::reduction::{alone, fold};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::NodeRank;
use std::cmp::Ordering;

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
    let (node, nodes) = (group.member_of(request.rank), group.size());
    let places = Places {
        topology,
        group: &group,
        node,
    };
    let mut builder = ScheduleBuilder::new(topology, request.rank);
    places.copy_in(&mut builder, local.0);
    builder.node_arrive();
    if nodes == 1 {
        builder.node_await_gather();
        let own = |local_row| places.row(local_row, group.place(request.rank), 1);
        fold(
            &mut builder,
            (0..places.locals()).map(own),
            Span::recv(0, 1),
        );
        return builder.finish(places.arrivals());
    }
    if let Some(leader) = leader {
        builder.node_await_gather();
        leaders.take_ports(&mut builder, leader);
        places.reduce(&mut builder);
        builder.end_round();
        places.exchange(&mut builder, leaders.ports);
    } else {
        builder.end_rounds(1 + rounds(nodes, leaders.ports));
    }
    builder.node_say(leaders.count);
    builder.node_await(NodeRank(leaders.owner(local.0, places.locals())));
    let contribution = |from: u32| match from == node {
        true => places.row(0, group.place(request.rank), 1),
        false => {
            let area = places.arrival(node, from);
            Span::node(area.first + local.0, 1)
        }
    };
    fold(&mut builder, (0..nodes).map(contribution), Span::recv(0, 1));
    builder.finish(places.arrivals() + (nodes - 1) * topology.node_size_max())
}

struct Places<'a> {
    topology: &'a ferrorail_base::Topology,
    group: &'a Group<'a>,
    node: u32,
}

impl Places<'_> {
    fn locals(&self) -> u32 {
        self.group.members(self.node, 1).count
    }

    /// Blocks of the row of local rank `local`.
    fn row(&self, local: u32, place: u32, count: u32) -> Span {
        Span::node(local * self.group.blocks() + place, count)
    }

    /// First block behind the rows of the largest node.
    fn arrivals(&self) -> u32 {
        self.topology.node_size_max() * self.group.blocks()
    }

    /// Where `at` takes what `from` has for it.
    fn arrival(&self, at: u32, from: u32) -> Span {
        let length = self.group.members(at, 1).count;
        let area = match from.cmp(&at) {
            Ordering::Less => from,
            _ => from - 1,
        };
        Span::node(self.arrivals() + area * length, length)
    }

    /// The leader's share of it.
    fn shared_arrival(&self, at: u32, from: u32) -> Span {
        let (all, share) = (self.group.members(at, 1), self.group.share(at));
        let area = self.arrival(at, from);
        Span::node(area.first + share.first - all.first, share.count)
    }

    fn copy_in(&self, builder: &mut ScheduleBuilder<'_>, local: u32) {
        for node in 0..self.group.size() {
            let first = self.group.first(node);
            for (place, rank, count) in runs(self.topology, node) {
                let into = self.row(local, first + place, count);
                builder.copy(Span::send(rank, count), into);
            }
        }
    }

    /// Reduces the leader's share of all rows into the first.
    fn reduce(&self, builder: &mut ScheduleBuilder<'_>) {
        for node in 0..self.group.size() {
            let (first, share) = (self.group.first(node), self.group.share(node));
            for (place, rank, count) in runs(self.topology, node) {
                // What of this run is in the share.
                let from = (first + place).max(share.first);
                let end = (first + place + count).min(share.first + share.count);
                if from >= end {
                    continue;
                }
                let like = Some(rank + from - (first + place));
                let into = self.row(0, from, end - from);
                for local in 1..self.locals() {
                    let row = self.row(local, from, end - from);
                    builder.reduce_like(like, into, row, into);
                }
            }
        }
    }

    /// Exchanges the leader's share with the leaders of the other nodes.
    fn exchange(&self, builder: &mut ScheduleBuilder<'_>, ports: u8) {
        let nodes = self.group.size();
        for r in 0..rounds(nodes, ports) {
            for exchange in round(self.node, nodes, ports, r) {
                let wire = Wire::of_round(r, ports, exchange.port);
                let into = self.shared_arrival(exchange.to, self.node);
                let from = self.group.share(exchange.to);
                builder.put(self.group.rank(exchange.to), wire, from, into);
            }
            builder.end_round();
        }
        for r in 0..rounds(nodes, ports) {
            for exchange in round(self.node, nodes, ports, r) {
                let wire = Wire::of_round(r, ports, exchange.port);
                let blocks = self.group.share(self.node).count;
                builder.await_put(self.group.rank(exchange.from), wire, blocks);
            }
        }
    }
}

/// Closed form of `smp_direct`: equation (2) over nodes.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    work_led(shape, Leaders::one(shape.ports))
}

/// Closed form of `multi_leader_direct`.
pub fn work_multi_leader(shape: &Shape, _: Protocol) -> Work {
    work_led(shape, shape.node_leaders())
}

fn work_led(shape: &Shape, leaders: Leaders) -> Work {
    if let Some(work) = work_alone(shape) {
        return work;
    }
    let ranks = u64::from(shape.ranks);
    if shape.nodes == 1 {
        return Work {
            node_syncs: 1,
            ..Work::copies(2 * ranks - 1)
        };
    }
    let rounds = u64::from(rounds(shape.nodes, leaders.ports));
    let nodes = u64::from(shape.nodes);
    let share = u64::from(leaders.share_max(shape.node_size));
    let owns = |leader| leaders.owner(leader, shape.node_size) == leader;
    let elsewhere = (0..leaders.count).any(|leader| !owns(leader));
    Work {
        rounds,
        port_blocks: rounds * share,
        ports: leaders.ports,
        node_sharers: leaders.count,
        node_syncs: shape.syncs(1 + u64::from(elsewhere)),
        ..Work::copies(ranks + nodes * share * (u64::from(shape.node_size) - 1) + nodes - 1)
    }
}
