//! Reduce by reduce-scatter and gather, both Direct: rank r reduces part r and puts it to the root.
//!
//! Three ranks, root 0, one port; `r.p` is part p of rank r:
//!
//! ```text
//! round 1   0>1: 0.1   1>2: 1.2   2>0: 2.0
//! round 2   0>2: 0.2   1>0: 1.0   2>1: 2.1
//! 0 reduces 0.0 1.0 2.0 in this order, and so on
//! round 3   1>0: part 1       round 4   2>0: part 2
//! ```
//!
//! * Rounds: 2⌈(N-1)/k⌉. Messages: (N-1)(N+1). Volume per port: 2⌈(N-1)/k⌉ parts of l/N bytes,
//!   about 2 l/k bytes. Each rank reduces l bytes. Any size, any root, rank order always.

use crate::algorithm::Request;
use crate::allreduce::reduce_scatter_allgather::{
    first_arrival, reduce_part, scatter, work_of_halves,
};
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::pattern::direct::{Exchange, all, round, rounds};
use crate::schedule::{Buffer, Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let root = request.root;
    let mut builder = request.builder().without_rtr();
    scatter(&mut builder, request);
    // The second half of the slots; a distance is that from the root.
    let wire = |exchange: &Exchange| Wire {
        port: exchange.port,
        slot: size - 1 + exchange.distance - 1,
    };
    if request.rank == root {
        reduce_part(&mut builder, request, Span::recv(me, 1));
        builder.end_rounds(rounds(size, ports));
        for exchange in all(root.0, size, ports) {
            builder.await_put(Rank(exchange.to), wire(&exchange), 1);
        }
        builder.copy_all_but(me, Buffer::Scratch, Buffer::Recv);
    } else {
        let result = first_arrival(request);
        reduce_part(&mut builder, request, result);
        for r in 0..rounds(size, ports) {
            let to_root = round(root.0, size, ports, r);
            for exchange in to_root.filter(|exchange| exchange.to == me) {
                // Part `me` of the root's scratch was put here, and awaited.
                builder.put(root, wire(&exchange), result, Span::scratch(me, 1));
            }
            builder.end_round();
        }
    }
    builder.finish(2 * size)
}

/// Closed form, in parts.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    work_of_halves(shape)
}
