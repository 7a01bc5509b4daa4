//! Direct all-to-all: everyone puts to everyone else its block, k at a time, in wrap-around order.
//!
//! Five ranks, one port: round 1 `p>p+1`, round 2 `p>p+2` and so on. Scratch holds N outgoing
//! blocks, by destination, where there are other nodes, and N-1 incoming ones, by source
//! ([`place`]).
//!
//! * Rounds: ⌈(N-1)/k⌉. Messages per rank: N-1. Volume per port: ⌈(N-1)/k⌉ blocks.
//! * Cost: ⌈(N-1)/k⌉ (α + l β), equation (2). A rank posts all its rounds and awaits afterwards.
//! * Zero-copy: N-1 RTRs per rank; puts go from `Send` to `Recv`.

use crate::algorithm::Request;
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::pattern::direct::{all, place, round, rounds};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let zero_copy = request.protocol == Protocol::Rendezvous;
    let wire = |distance| Wire::at_distance(distance, ports);
    // Blocks for other nodes leave from scratch.
    let staging = match request.topology.node_count() {
        1 => 0,
        _ => size,
    };
    let mut builder = request.builder();
    if zero_copy {
        for exchange in all(me, size, ports) {
            builder.send_rtr(Rank(exchange.from), exchange.distance - 1);
        }
    }
    builder.end_round();
    for r in 0..rounds(size, ports) {
        for exchange in round(me, size, ports, r) {
            let (to, wire) = (Rank(exchange.to), wire(exchange.distance));
            let block = Span::send(exchange.to, 1);
            if zero_copy {
                builder.await_rtr(to, exchange.distance - 1);
                builder.put(to, wire, block, Span::recv(me, 1));
            } else {
                let staged = Span::scratch(exchange.to, 1);
                let into = Span::scratch(staging + place(me, exchange.to), 1);
                builder.put_staged(to, wire, block, staged, into);
            }
        }
        builder.end_round();
    }
    builder.copy(Span::send(me, 1), Span::recv(me, 1));
    for exchange in all(me, size, ports) {
        builder.await_put(Rank(exchange.from), wire(exchange.distance), 1);
        if !zero_copy {
            let arrived = Span::scratch(staging + place(exchange.from, me), 1);
            builder.copy(arrived, Span::recv(exchange.from, 1));
        }
    }
    builder.finish(match zero_copy {
        true => 0,
        false => staging + size - 1,
    })
}

/// Closed form: equation (2).
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let rounds = u64::from(rounds(shape.ranks, shape.ports));
    let copies = match protocol {
        Protocol::Eager => u64::from(shape.ranks) + shape.ranks_elsewhere(),
        Protocol::Rendezvous => 1,
    };
    Work {
        rounds,
        port_blocks: rounds,
        ..Work::flat(shape, copies)
    }
}
