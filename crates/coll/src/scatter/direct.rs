//! Direct scatter: the root puts its block to everyone, k at a time.
//!
//! Five ranks, root 3, two ports: round 1 `3>4 3>0`, round 2 `3>1 3>2`.
//!
//! * Rounds: ⌈(N-1)/k⌉. Messages: N-1. Volume per port: ⌈(N-1)/k⌉ blocks.
//! * Cost: ⌈(N-1)/k⌉ (α + l β), equation (2). The root copies a round's blocks while the puts of
//!   the one before are under way.
//! * Zero-copy: everyone announces its buffer; the root puts from `Send`.

use crate::algorithm::Request;
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::gather::direct::scratch_blocks;
use crate::pattern::before;
use crate::pattern::direct::{round, rounds};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (size, me, root) = (request.topology.size(), request.rank.0, request.root.0);
    let zero_copy = request.protocol == Protocol::Rendezvous;
    let rounds = rounds(size, request.ports);
    // Everyone receives one message.
    let wire = |distance| Wire {
        slot: 0,
        ..Wire::at_distance(distance, request.ports)
    };
    let mut builder = request.builder();
    if me == root {
        builder.end_round();
        for r in 0..rounds {
            for exchange in round(root, size, request.ports, r) {
                let (to, block) = (Rank(exchange.to), Span::send(exchange.to, 1));
                if zero_copy {
                    builder.await_rtr(to, exchange.distance - 1);
                    builder.put(to, wire(exchange.distance), block, Span::recv(0, 1));
                } else {
                    let staged = Span::scratch(exchange.to, 1);
                    builder.put_staged(to, wire(exchange.distance), block, staged, staged);
                }
            }
            builder.end_round();
        }
        builder.copy(Span::send(root, 1), Span::recv(0, 1));
    } else {
        let distance = before(me, root, size);
        if zero_copy {
            builder.send_rtr(request.root, distance - 1);
        }
        builder.end_rounds(1 + rounds);
        builder.await_put(request.root, wire(distance), 1);
        if !zero_copy {
            builder.copy(Span::scratch(me, 1), Span::recv(0, 1));
        }
    }
    builder.finish(scratch_blocks(request))
}

/// Closed form: equation (2).
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let copies = match protocol {
        Protocol::Eager => 1 + shape.ranks_elsewhere(),
        Protocol::Rendezvous => 1,
    };
    Work {
        copy_blocks: copies,
        ..crate::gather::direct::work(shape, protocol)
    }
}
