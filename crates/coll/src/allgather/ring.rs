//! Ring all-gather: in each round everyone passes on to the right what came from the left.
//!
//! Five ranks; the block that each rank puts to its right neighbour:
//!
//! ```text
//! rank      0  1  2  3  4
//! round 1   0  1  2  3  4
//! round 2   4  0  1  2  3
//! round 3   3  4  0  1  2
//! round 4   2  3  4  0  1
//! ```
//!
//! * Rounds: N-1. Messages per rank: N-1. Volume: N-1 blocks, all through port 0.
//! * Cost: (N-1) (α + l β); large messages are striped over the rails by the fabric.
//! * Zero-copy: one RTR per rank, to the left.
//! * Any number of ranks. The native baseline for more than 32 KB; only one rank per node sends
//!   to another node where ranks are consecutive.

use super::work_of_copies;
use crate::algorithm::Request;
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::{after, before};
use crate::schedule::{Buffer, Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let (size, me) = (request.topology.size(), request.rank.0);
    let (left, right) = (Rank(before(me, 1, size)), Rank(after(me, 1, size)));
    let group = Group::ranks(request.topology);
    let mut builder = request.builder();
    let buffer = match request.protocol {
        Protocol::Eager => {
            group.gather(&mut builder, me);
            builder.end_round();
            Buffer::Scratch
        }
        Protocol::Rendezvous => {
            builder.send_rtr(left, 0);
            builder.copy(Span::send(0, 1), Span::recv(me, 1));
            builder.end_round();
            builder.await_rtr(right, 0);
            Buffer::Recv
        }
    };
    for round in 0..size - 1 {
        let block = before(me, round, size);
        let wire = Wire::of_round(round, 1, 0);
        let span = Span::new(buffer, block, 1);
        builder.put(right, wire, span, span);
        if buffer == Buffer::Scratch {
            builder.copy(span, Span::recv(block, 1));
        }
        builder.await_put(left, wire, 1);
        builder.end_round();
    }
    if buffer == Buffer::Scratch {
        group.copy_members_out(&mut builder, after(me, 1, size), 1);
        return builder.finish(size);
    }
    builder.finish(0)
}

/// Closed form.
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let rounds = u64::from(shape.ranks - 1);
    Work {
        rounds,
        port_blocks: rounds,
        ports: 1,
        node_sharers: 1,
        ..work_of_copies(shape, protocol)
    }
}
