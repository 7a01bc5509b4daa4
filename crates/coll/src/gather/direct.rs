//! Direct gather: everyone puts its block straight to the root, which receives k at a time.
//!
//! Five ranks, root 3, two ports: round 1 `4>3 0>3`, round 2 `1>3 2>3`.
//!
//! * Rounds: ⌈(N-1)/k⌉. Messages: N-1, all to the root. Volume per port: ⌈(N-1)/k⌉ blocks.
//! * Cost: ⌈(N-1)/k⌉ (α + l β), equation (2). Rounds model the root's ports; nobody waits for one.
//! * Zero-copy: the root announces its buffer to everyone; they put from `Send`.

use super::tree::copy_others_out;
use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::pattern::{after, before, direct};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (size, me, root) = (request.topology.size(), request.rank.0, request.root.0);
    let ports = u32::from(request.ports);
    let zero_copy = request.protocol == Protocol::Rendezvous;
    let distance = before(me, root, size);
    let wire = |distance: u32| Wire {
        port: ((distance - 1) % ports) as u8,
        slot: distance - 1,
    };
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    if me == root {
        if zero_copy {
            for distance in 1..size {
                builder.send_rtr(Rank(after(root, distance, size)), 0);
            }
        }
        builder.copy(Span::send(0, 1), Span::recv(root, 1));
        builder.end_rounds(1 + direct::rounds(size, request.ports));
        for distance in 1..size {
            builder.await_put(Rank(after(root, distance, size)), wire(distance), 1);
        }
        if !zero_copy {
            copy_others_out(&mut builder, root, size);
        }
    } else {
        let (own, staged) = (Span::send(0, 1), Span::scratch(me, 1));
        let round = (distance - 1) / ports;
        builder.end_rounds(1 + round);
        if zero_copy {
            builder.await_rtr(request.root, 0);
            builder.put(request.root, wire(distance), own, Span::recv(me, 1));
        } else {
            builder.put_staged(request.root, wire(distance), own, staged, staged);
        }
        builder.end_rounds(direct::rounds(size, request.ports) - round);
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
        Protocol::Eager => u64::from(shape.ranks),
        Protocol::Rendezvous => 1,
    };
    Work {
        rounds,
        port_blocks: rounds,
        node_sharers: shape.node_size,
        ..Work::copies(copies)
    }
}
