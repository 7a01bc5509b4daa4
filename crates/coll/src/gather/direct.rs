//! Direct gather: everyone puts its block straight to the root, which receives k at a time.
//!
//! Five ranks, root 3, two ports: round 1 `4>3 0>3`, round 2 `1>3 2>3`.
//!
//! * Rounds: ⌈(N-1)/k⌉. Messages: N-1, all to the root. Volume per port: ⌈(N-1)/k⌉ blocks.
//! * Cost: ⌈(N-1)/k⌉ (α + l β), equation (2). Rounds model the root's ports; nobody waits for one.
//! * Zero-copy: the root announces its buffer to everyone; they put from `Send`.

use crate::algorithm::Request;
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::pattern::direct::rounds;
use crate::pattern::{after, before};
use crate::schedule::{Buffer, Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (size, me, root) = (request.topology.size(), request.rank.0, request.root.0);
    let zero_copy = request.protocol == Protocol::Rendezvous;
    let wire = |distance| Wire::at_distance(distance, request.ports);
    let rounds = rounds(size, request.ports);
    let mut builder = request.builder();
    if me == root {
        let others = || (1..size).map(|distance| (distance, Rank(after(root, distance, size))));
        if zero_copy {
            others().for_each(|(_, other)| builder.send_rtr(other, 0));
        }
        builder.copy(Span::send(0, 1), Span::recv(root, 1));
        builder.end_rounds(1 + rounds);
        for (distance, other) in others() {
            builder.await_put(other, wire(distance), 1);
        }
        if !zero_copy {
            builder.copy_all_but(root, Buffer::Scratch, Buffer::Recv);
        }
    } else {
        let (own, staged) = (Span::send(0, 1), Span::scratch(me, 1));
        let distance = before(me, root, size);
        let round = (distance - 1) / u32::from(request.ports);
        builder.end_rounds(1 + round);
        if zero_copy {
            builder.await_rtr(request.root, 0);
            builder.put(request.root, wire(distance), own, Span::recv(me, 1));
        } else {
            builder.put_staged(request.root, wire(distance), own, staged, staged);
        }
        builder.end_rounds(rounds - round);
    }
    builder.finish(scratch_blocks(request))
}

/// One for each rank, up to the last that is not the root.
pub(crate) fn scratch_blocks(request: &Request<'_>) -> u32 {
    let size = request.topology.size();
    match request.protocol {
        Protocol::Eager => size - u32::from(request.root.0 + 1 == size),
        Protocol::Rendezvous => 0,
    }
}

/// Closed form: equation (2).
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let rounds = u64::from(rounds(shape.ranks, shape.ports));
    let copies = match protocol {
        Protocol::Eager => u64::from(shape.ranks),
        Protocol::Rendezvous => 1,
    };
    Work {
        rounds,
        port_blocks: rounds,
        ..Work::flat(shape, copies)
    }
}
