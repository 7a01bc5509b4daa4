//! Direct reduce-scatter: everyone puts each block to its owner, which reduces in rank order.
//!
//! Three ranks, one port; `r.b` is block b of rank r: round 1 `0>1: 0.1  1>2: 1.2  2>0: 2.0`,
//! round 2 `0>2: 0.2  1>0: 1.0  2>1: 2.1`; 0 reduces 0.0 1.0 2.0 in this order, and so on.
//!
//! * Rounds: ⌈(N-1)/k⌉. Messages per rank: N-1. Volume per port: ⌈(N-1)/k⌉ blocks. Any size.
//! * Cost: ⌈(N-1)/k⌉ (α + l β), equation (2), and N-1 reductions of a block.

use super::work_alone;
use crate::algorithm::Request;
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::pattern::direct::{all, place, round, rounds};
use crate::reduction::fold_through;
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let wire = |distance| Wire::at_distance(distance, ports);
    // Blocks for other nodes leave from scratch.
    let staged = match request.topology.node_count() {
        1 => 0,
        _ => size,
    };
    let mut builder = request.builder();
    for r in 0..rounds(size, ports) {
        for exchange in round(me, size, ports, r) {
            let to = exchange.to;
            let into = Span::scratch(staged + place(me, to), 1);
            let (block, copy) = (Span::send(to, 1), Span::scratch(to, 1));
            builder.put_staged(Rank(to), wire(exchange.distance), block, copy, into);
        }
        builder.end_round();
    }
    for exchange in all(me, size, ports) {
        builder.await_put(Rank(exchange.from), wire(exchange.distance), 1);
    }
    let contribution = |rank| match rank == me {
        true => Span::send(me, 1),
        false => Span::scratch(staged + place(rank, me), 1),
    };
    let (contributions, result) = ((0..size).map(contribution), Span::recv(0, 1));
    // In the place of the first that came.
    let through = Span::scratch(staged, 1);
    fold_through(&mut builder, Some(me), contributions, through, result);
    builder.finish(staged + size - 1)
}

/// Closed form: equation (2).
pub fn work(shape: &Shape, _: Protocol) -> Work {
    work_alone(shape).unwrap_or_else(|| {
        let rounds = u64::from(rounds(shape.ranks, shape.ports));
        Work {
            rounds,
            port_blocks: rounds,
            ..Work::flat(shape, u64::from(shape.ranks) - 1 + shape.ranks_elsewhere())
        }
    })
}
