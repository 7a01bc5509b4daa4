//! Direct scatter: the root puts its block to everyone, k at a time.
//!
//! Five ranks, root 3, two ports: round 1 `3>4 3>0`, round 2 `3>1 3>2`.
//!
//! * Rounds: ⌈(N-1)/k⌉. Messages: N-1. Volume per port: ⌈(N-1)/k⌉ blocks.
//! * Cost: ⌈(N-1)/k⌉ (α + l β), equation (2). The root copies a round's blocks while the puts of
//!   the one before are under way.
//! * Zero-copy: everyone announces its buffer; the root puts from `Send`.

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::pattern::{before, direct};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (size, me, root) = (request.topology.size(), request.rank.0, request.root.0);
    let ports = request.ports;
    let zero_copy = request.protocol == Protocol::Rendezvous;
    let rounds = direct::rounds(size, ports);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    if me == root {
        builder.end_round();
        for round in 0..rounds {
            for exchange in direct::round(root, size, ports, round) {
                let (to, block) = (Rank(exchange.to), Span::send(exchange.to, 1));
                let (port, slot) = (exchange.port, 0);
                if zero_copy {
                    builder.await_rtr(to, exchange.distance - 1);
                    builder.put(to, Wire { port, slot }, block, Span::recv(0, 1));
                } else {
                    let staged = Span::scratch(exchange.to, 1);
                    builder.put_staged(to, Wire { port, slot }, block, staged, staged);
                }
            }
            builder.end_round();
        }
        builder.copy(Span::send(root, 1), Span::recv(0, 1));
    } else {
        let number = before(me, root, size) - 1;
        if zero_copy {
            builder.send_rtr(request.root, number);
        }
        builder.end_rounds(1 + rounds);
        let (port, slot) = ((number % u32::from(ports)) as u8, 0);
        builder.await_put(request.root, Wire { port, slot }, 1);
        if !zero_copy {
            builder.copy(Span::scratch(me, 1), Span::recv(0, 1));
        }
    }
    builder.finish(match request.protocol {
        Protocol::Eager if root + 1 == size => size - 1,
        Protocol::Eager => size,
        Protocol::Rendezvous => 0,
    })
}

/// Closed form: equation (2).
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let rounds = u64::from(direct::rounds(shape.ranks, shape.ports));
    let copies = match protocol {
        Protocol::Eager => 1 + shape.ranks_elsewhere(),
        Protocol::Rendezvous => 1,
    };
    Work {
        rounds,
        port_blocks: rounds,
        node_sharers: shape.node_size,
        ..Work::copies(copies)
    }
}
