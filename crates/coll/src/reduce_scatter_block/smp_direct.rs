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
use crate::pattern::direct::{all, place, round, rounds};
use crate::reduction::fold;
use crate::schedule::{Schedule, Span};
use ferrorail_base::NodeRank;

/// One rank's schedule.
pub fn build(request: &Request<'_>, leaders: Leaders) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let topology = request.topology;
    let local = topology.node_rank_of(request.rank).0;
    let group = Group::led(topology, leaders, request.rank);
    let (node, nodes) = (group.member_of(request.rank), group.size());
    let locals = group.count(node);
    let rows = Rows {
        group: &group,
        most: topology.node_size_max(),
    };
    let own = |row| rows.row(row, group.place(request.rank), 1);
    let result = Span::recv(0, 1);
    let mut builder = request.builder();
    rows.copy_in(&mut builder, local);
    builder.node_arrive();
    if nodes == 1 {
        builder.node_await_gather();
        fold(&mut builder, (0..locals).map(own), result);
        return builder.finish(rows.end());
    }
    if group.speaks(request.rank) {
        builder.node_await_gather();
        group.take_ports(&mut builder);
        rows.reduce(&mut builder, locals);
        builder.end_round();
        rows.exchange(&mut builder, node, leaders.ports);
    } else {
        builder.end_rounds(1 + rounds(nodes, leaders.ports));
    }
    builder.node_say(leaders.count);
    builder.node_await(NodeRank(leaders.owner(local, locals)));
    let contribution = |from: u32| match from == node {
        true => own(0),
        false => Span::node(rows.arrival(node, from).first + local, 1),
    };
    fold(&mut builder, (0..nodes).map(contribution), result);
    builder.finish(rows.end() + (nodes - 1) * rows.most)
}

/// Node memory: a row of blocks, in member order, of each rank, and what arrives from other nodes.
struct Rows<'a> {
    group: &'a Group<'a>,
    /// Ranks of the largest node.
    most: u32,
}

impl Rows<'_> {
    /// Blocks of the row of local rank `local`.
    fn row(&self, local: u32, place: u32, count: u32) -> Span {
        Span::node(local * self.group.blocks() + place, count)
    }

    /// First block behind the rows of the largest node.
    fn end(&self) -> u32 {
        self.most * self.group.blocks()
    }

    /// Where `at` takes what `from` has for it.
    fn arrival(&self, at: u32, from: u32) -> Span {
        let length = self.group.count(at);
        Span::node(self.end() + place(from, at) * length, length)
    }

    fn copy_in(&self, builder: &mut ScheduleBuilder<'_>, local: u32) {
        let ranks = (0..self.group.size()).flat_map(|node| self.group.ranks_of(node));
        for (place, rank) in (0..).zip(ranks) {
            builder.copy(Span::send(rank.0, 1), self.row(local, place, 1));
        }
    }

    /// Reduces the leader's share of the rows of all `locals` ranks into the first.
    fn reduce(&self, builder: &mut ScheduleBuilder<'_>, locals: u32) {
        for node in 0..self.group.size() {
            let (first, share) = (self.group.first(node), self.group.share(node));
            for run in runs(self.group.ranks_of(node)) {
                // What of this run is in the share.
                let start = first + run.place;
                let from = start.max(share.first);
                let end = (start + run.count).min(share.first + share.count);
                if from >= end {
                    continue;
                }
                let like = Some(run.rank + from - start);
                let into = self.row(0, from, end - from);
                for local in 1..locals {
                    let row = self.row(local, from, end - from);
                    builder.reduce_like(like, into, row, into);
                }
            }
        }
    }

    /// Exchanges the leader's share with the leaders of the other nodes.
    fn exchange(&self, builder: &mut ScheduleBuilder<'_>, node: u32, ports: u8) {
        let (group, nodes) = (self.group, self.group.size());
        let wire = |distance| Wire::at_distance(distance, ports);
        for r in 0..rounds(nodes, ports) {
            for exchange in round(node, nodes, ports, r) {
                let to = exchange.to;
                let into = group.part_of_share(to, self.arrival(to, node));
                builder.put(
                    group.rank(to),
                    wire(exchange.distance),
                    group.share(to),
                    into,
                );
            }
            builder.end_round();
        }
        let blocks = group.share(node).count;
        for exchange in all(node, nodes, ports) {
            builder.await_put(group.rank(exchange.from), wire(exchange.distance), blocks);
        }
    }
}

/// Closed form: equation (2) over nodes.
pub fn work(shape: &Shape, leaders: Leaders) -> Work {
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
        node_syncs: shape.syncs(1 + u64::from(elsewhere)),
        ..Work::led(
            leaders,
            ranks + nodes * share * (u64::from(shape.node_size) - 1) + nodes - 1,
        )
    }
}
