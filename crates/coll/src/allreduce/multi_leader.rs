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
//! * One node: every rank reduces its part, one in N, into its own vector, and everyone copies the others' parts. A
//!   rank copies in what others reduce; a part's result takes the place of a contribution, so that on two ranks each
//!   writes to lines that it read last, which are in its cache.
//! * Combines in rank order where the ranks of every node are consecutive.

use super::recursive_multiplying::Exchange;
use crate::algorithm::Request;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::direct::place;
use crate::pattern::exchange::Pattern;
use crate::reduction::{Slice, fold_through};
use crate::schedule::{Protocol, Schedule, Span};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let topology = request.topology;
    let parts = topology.size();
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    if topology.node_count() == 1 {
        return build_on_one_node(request);
    }
    let leaders = request.node_leaders();
    let local = topology.node_rank_of(request.rank);
    let (group, first) = (
        Group::led(topology, leaders, request.rank),
        topology.node_size_max(),
    );
    let node = group.member_of(request.rank);
    let slice = |leader| Slice::led_by(leaders, leader, parts);
    let exchange = |leader| Exchange::new(&group, leaders.ports, slice(leader), first);
    let mut builder = request.builder();
    builder.copy(Span::send(0, parts), Span::node(local.0 * parts, parts));
    builder.node_arrive();
    if let Some(leader) = leaders.index(local) {
        slice(leader).reduce_node(&mut builder);
        leaders.take_ports(&mut builder, leader);
        exchange(leader).run(&mut builder, node);
    } else {
        builder.end_rounds(1 + exchange(0).pattern.rounds());
    }
    leaders.release(&mut builder);
    for leader in 0..leaders.count {
        let Slice { first, count, .. } = slice(leader);
        builder.copy(exchange(leader).result(node), Span::recv(first, count));
    }
    builder.finish(exchange(0).end() * parts)
}

/// One rank's schedule where all ranks share a node.
fn build_on_one_node(request: &Request<'_>) -> Schedule {
    let (size, me) = (request.topology.size(), request.rank.0);
    // Rows of parts: row r has rank r's contributions to the parts before r and rank r + 1's to those after it.
    let row = |row: u32, first, count| Span::node(row * size + first, count);
    let mut builder = request.builder();
    if me > 0 {
        builder.copy(Span::send(0, me), row(me - 1, 0, me));
    }
    let after = size - me - 1;
    builder.copy(Span::send(me + 1, after), row(me, me + 1, after));
    builder.node_barrier();
    let contribution = |rank: u32| match rank == me {
        true => Span::send(me, 1),
        false => row(place(rank, me), me, 1),
    };
    let contributions = (0..size).map(contribution);
    let (mine, result) = (Span::recv(me, 1), row(0, me, 1));
    fold_through(&mut builder, Some(me), contributions, result, mine);
    builder.copy(mine, result);
    builder.end_round();
    builder.node_barrier();
    builder.copy(row(0, 0, me), Span::recv(0, me));
    builder.copy(row(0, me + 1, after), Span::recv(me + 1, after));
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
    let pattern = Pattern::new(shape.nodes, leaders.ports);
    let rounds = u64::from(pattern.rounds());
    let slice = u64::from(leaders.share_max(shape.ranks));
    let reductions = u64::from(shape.node_size - 1 + pattern.arrivals());
    Work {
        rounds,
        port_blocks: rounds * slice,
        node_syncs: shape.syncs(leaders.exchange_syncs(shape.node_size)),
        ..Work::led(leaders, 2 * u64::from(shape.ranks) + slice * reductions)
    }
}
