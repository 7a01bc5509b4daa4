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
//! * Rounds: 2⌈(N-1)/k⌉. Messages per rank: 2(N-1). Volume per port: 2⌈(N-1)/k⌉ parts of l/N
//!   bytes, about 2 l/k bytes. Each rank reduces l bytes. Any number of ranks.

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::pattern::direct::{Exchange, round, rounds};
use crate::reduction::{alone, fold};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank).without_rtr();
    builder.copy(Span::send(0, size), Span::scratch(0, size));
    builder.end_round();
    exchange(&mut builder, me, size, ports, 0, |exchange| {
        (Span::scratch(exchange.to, 1), Span::scratch(size + me, 1))
    });
    let contribution = |rank| match rank == me {
        true => Span::scratch(me, 1),
        false => Span::scratch(size + rank, 1),
    };
    fold(&mut builder, (0..size).map(contribution), Span::recv(me, 1));
    let own = Span::scratch(me, 1);
    builder.copy(Span::recv(me, 1), own);
    // Part r of scratch was put to r, which has awaited it before it puts its result here.
    exchange(&mut builder, me, size, ports, size - 1, |_| (own, own));
    for (first, count) in [(0, me), (me + 1, size - me - 1)] {
        builder.copy(Span::scratch(first, count), Span::recv(first, count));
    }
    builder.finish(2 * size)
}

/// Puts to everyone and awaits everyone, on slots from `first_slot`.
pub(crate) fn exchange(
    builder: &mut ScheduleBuilder<'_>,
    me: u32,
    size: u32,
    ports: u8,
    first_slot: u32,
    spans: impl Fn(&Exchange) -> (Span, Span),
) {
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
    for exchange in (0..rounds(size, ports)).flat_map(|r| round(me, size, ports, r)) {
        builder.await_put(Rank(exchange.from), wire(&exchange), 1);
    }
}

/// Closed form, in parts.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let rounds = 2 * u64::from(rounds(shape.ranks, shape.ports));
    Work {
        rounds,
        port_blocks: rounds,
        node_sharers: shape.node_size,
        ..Work::copies(3 * u64::from(shape.ranks))
    }
}
