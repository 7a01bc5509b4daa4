//! All-reduce by reduce-scatter and all-gather, both Direct: rank r reduces part r for everyone.
//!
//! Three ranks, one port; `r.p` is part p of rank r:
//!
//! ```text
//! round 1   0>1: 0.1   1>2: 1.2   2>0: 2.0
//! round 2   0>2: 0.2   1>0: 1.0   2>1: 2.1
//! 0 reduces 0.0 1.0 2.0 in this order, and so on
//! rounds 3 and 4 put the results to everyone
//! ```
//!
//! On one node a rank writes its result once, to the node's scratch, where everyone reads it.
//!
//! * Rounds: 2⌈(N-1)/k⌉. Messages per rank: 2(N-1). Volume per port: 2⌈(N-1)/k⌉ parts of l/N
//!   bytes, about 2 l/k bytes. Each rank reduces l bytes. Any number of ranks.

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::pattern::direct::{Exchange, all, round, rounds};
use crate::reduction::fold_through;
use crate::schedule::{Buffer, Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let (size, me) = (request.topology.size(), request.rank.0);
    let mut builder = request.builder().without_rtr();
    scatter(&mut builder, request);
    let result = Span::recv(me, 1);
    reduce_part(&mut builder, request, result);
    if request.topology.node_count() == 1 {
        builder.copy(result, Span::node(me, 1));
        builder.end_round();
        builder.node_barrier();
        builder.copy_all_but(me, Buffer::Node, Buffer::Recv);
        return builder.finish(2 * size);
    }
    // Rails send it from scratch.
    let own = Span::scratch(me, 1);
    builder.copy(result, own);
    // Part r of scratch is put to r, which has awaited it before it puts its result here.
    exchange(&mut builder, request, size - 1, |exchange| {
        let near = request.topology.same_node(Rank(exchange.to), request.rank);
        (if near { result } else { own }, own)
    });
    builder.copy_all_but(me, Buffer::Scratch, Buffer::Recv);
    builder.finish(2 * size)
}

/// Puts part r of every rank's vector to r; those to other nodes leave from scratch.
pub(crate) fn scatter(builder: &mut ScheduleBuilder<'_>, request: &Request<'_>) {
    let (size, me) = (request.topology.size(), request.rank.0);
    let near = |rank| request.topology.same_node(Rank(rank), request.rank);
    for rank in (0..size).filter(|&rank| !near(rank)) {
        builder.copy(Span::send(rank, 1), Span::scratch(rank, 1));
    }
    builder.end_round();
    exchange(builder, request, 0, |&Exchange { to, .. }| {
        let part = match near(to) {
            true => Span::send(to, 1),
            false => Span::scratch(to, 1),
        };
        (part, Span::scratch(size + me, 1))
    });
}

/// Reduces this rank's part, of which [`scatter`] has brought what others contribute, into `into`.
pub(crate) fn reduce_part(builder: &mut ScheduleBuilder<'_>, request: &Request<'_>, into: Span) {
    let (size, me) = (request.topology.size(), request.rank.0);
    let contribution = |rank| match rank == me {
        true => Span::send(rank, 1),
        false => Span::scratch(size + rank, 1),
    };
    let (contributions, through) = ((0..size).map(contribution), first_arrival(request));
    fold_through(builder, Some(me), contributions, through, into);
}

/// Where [`scatter`] puts what the first other rank contributes.
pub(crate) fn first_arrival(request: &Request<'_>) -> Span {
    let first = u32::from(request.rank.0 == 0);
    Span::scratch(request.topology.size() + first, 1)
}

/// Puts to everyone and awaits everyone, on slots from `first_slot`.
fn exchange(
    builder: &mut ScheduleBuilder<'_>,
    request: &Request<'_>,
    first_slot: u32,
    spans: impl Fn(&Exchange) -> (Span, Span),
) {
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let wire = |exchange: &Exchange| Wire {
        port: exchange.port,
        slot: first_slot + exchange.distance - 1,
    };
    for r in 0..rounds(size, ports) {
        for exchange in round(me, size, ports, r) {
            let (from, into) = spans(&exchange);
            builder.put(Rank(exchange.to), wire(&exchange), from, into);
        }
        builder.end_round();
    }
    for exchange in all(me, size, ports) {
        builder.await_put(Rank(exchange.from), wire(&exchange), 1);
    }
}

/// Closed form, in parts.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    let halves = work_of_halves(shape);
    if shape.ranks == 1 {
        return halves;
    }
    let work = Work {
        copy_blocks: halves.copy_blocks + 1,
        ..halves
    };
    match shape.nodes {
        1 => Work {
            rounds: work.rounds / 2,
            port_blocks: work.port_blocks / 2,
            node_syncs: 1,
            ..work
        },
        _ => work,
    }
}

/// As [`work`], where nothing is copied between the two halves.
pub(crate) fn work_of_halves(shape: &Shape) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let rounds = 2 * u64::from(rounds(shape.ranks, shape.ports));
    let copies = 2 * (u64::from(shape.ranks) - 1) + shape.ranks_elsewhere();
    Work {
        rounds,
        port_blocks: rounds,
        ..Work::flat(shape, copies)
    }
}
