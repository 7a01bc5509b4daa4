//! Multi-leader all-reduce: each of several leaders of a node reduces its slice of the vector, over
//! its own rail.
//!
//! Four ranks on nodes (0 1) (2 3), two ports; the vector has four parts, `r.p` is part p of rank r:
//!
//! ```text
//! gather     all copy in
//! reduce     0: parts 0 1 of 0 and 1    1: parts 2 3    2: parts 0 1 of 2 and 3    3: parts 2 3
//! exchange   0<>2 parts 0 1, on port 0    1<>3 parts 2 3, on port 1
//! release    leaders release their slices; everyone copies all of them out
//! ```
//!
//! * L leaders with k/L ports each ([`Leaders`](crate::leaders::Leaders)). Rounds and messages per leader: those of
//!   `recursive_multiplying` over V nodes and k/L ports. Volume per round: l/L bytes.
//! * Cost: rounds × (α + l/L β). Each leader reduces l/L bytes of its node and per message.
//! * One node: every rank reduces its part, one in N, and everyone copies all of them. A rank copies in what others
//!   reduce; a part's result takes the place of a contribution, so that on two ranks each writes to lines that it read
//!   last, which are in its cache.
//! * Combines in rank order where the ranks of every node are consecutive.

use super::recursive_multiplying::{Exchange, counts};
use crate::algorithm::Request;
use crate::builder::ScheduleBuilder;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::reduction::{alone, fold_like};
use crate::schedule::{Protocol, Schedule, Span};
use std::cmp::Ordering;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let topology = request.topology;
    let parts = topology.size();
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    if topology.node_count() == 1 {
        return build_on_one_node(request);
    }
    let leaders = request.node_leaders();
    let local = topology.node_rank_of(request.rank);
    let groups = (0..leaders.count).map(|leader| Group::led_by(topology, leaders, leader));
    let groups: Vec<Group<'_>> = groups.collect();
    let node = groups[0].member_of(request.rank);
    let locals = groups[0].members(node, 1).count;
    let slice = |leader: u32| {
        let most = topology.node_size_max();
        let exchange = Exchange::new(&groups[leader as usize], leaders.ports, 0, most);
        exchange.of_parts(&leaders.share(leader, parts), parts)
    };
    let rounds = 1 + slice(0).rounds();
    let mut builder = ScheduleBuilder::new(topology, request.rank);
    builder.copy(Span::send(0, parts), Span::node(local.0 * parts, parts));
    builder.node_arrive();
    if let Some(leader) = leaders.index(local) {
        let slice = slice(leader);
        builder.node_await_gather();
        let contributions = (0..locals).map(|local| slice.vector(local));
        let like = Some(leaders.share(leader, parts).start);
        fold_like(&mut builder, like, contributions, slice.vector(0));
        builder.end_round();
        leaders.take_ports(&mut builder, leader);
        slice.run(&mut builder, node);
    } else {
        builder.end_rounds(rounds);
    }
    leaders.release(&mut builder);
    for leader in 0..leaders.count {
        let result = slice(leader).result(node);
        let share = leaders.share(leader, parts);
        builder.copy(result, Span::recv(share.start, result.count));
    }
    builder.finish(slice(0).end() * parts)
}

/// One rank's schedule where all ranks share a node.
fn build_on_one_node(request: &Request<'_>) -> Schedule {
    let (size, me) = (request.topology.size(), request.rank.0);
    // Rows of parts: row r has rank r's contributions to the parts before r and rank r + 1's to those after it.
    let row = |row: u32, first, count| Span::node(row * size + first, count);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    if me > 0 {
        builder.copy(Span::send(0, me), row(me - 1, 0, me));
    }
    let after = size - me - 1;
    builder.copy(Span::send(me + 1, after), row(me, me + 1, after));
    builder.node_barrier();
    let contribution = |rank: u32| match rank.cmp(&me) {
        Ordering::Less => row(rank, me, 1),
        Ordering::Equal => Span::send(me, 1),
        Ordering::Greater => row(rank - 1, me, 1),
    };
    fold_like(
        &mut builder,
        Some(me),
        (0..size).map(contribution),
        row(0, me, 1),
    );
    builder.end_round();
    builder.node_barrier();
    builder.copy(row(0, 0, size), Span::recv(0, size));
    builder.finish(size * (size - 1))
}

/// Closed form, in parts.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    if shape.nodes == 1 {
        return Work {
            node_syncs: 2,
            ..Work::copies(3 * u64::from(shape.ranks) - 2)
        };
    }
    let leaders = shape.node_leaders();
    let (rounds, reductions) = counts(shape.nodes, leaders.ports);
    let slice = u64::from(leaders.share_max(shape.ranks));
    let reductions = u64::from(shape.node_size) - 1 + reductions;
    Work {
        rounds,
        port_blocks: rounds * slice,
        ports: leaders.ports,
        node_sharers: leaders.count,
        node_syncs: shape.syncs(leaders.exchange_syncs(shape.node_size)),
        ..Work::copies(2 * u64::from(shape.ranks) + slice * reductions)
    }
}
