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

use super::{SEND, alone, copy_own, recv, work_of_copies};
use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::ring::{incoming, left, outgoing, right};
use crate::schedule::{Buffer, Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    let (size, me) = (request.topology.size(), request.rank.0);
    let (left, right) = (Rank(left(me, size)), Rank(right(me, size)));
    let group = Group::ranks(request.topology);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    let buffer = match request.protocol {
        Protocol::Eager => {
            builder.copy(SEND, group.members(me, 1));
            builder.end_round();
            Buffer::Scratch
        }
        Protocol::Rendezvous => {
            builder.send_rtr(left, 0);
            copy_own(&mut builder, request.rank);
            builder.end_round();
            builder.await_rtr(right, 0);
            Buffer::Recv
        }
    };
    for round in 0..size - 1 {
        let block = outgoing(me, size, round);
        let wire = Wire::of_round(round, 1, 0);
        let span = Span::new(buffer, block, 1);
        builder.put(right, wire, span, span);
        if buffer == Buffer::Scratch {
            builder.copy(span, recv(block, 1));
        }
        builder.await_put(left, wire, 1);
        builder.end_round();
    }
    if buffer == Buffer::Scratch {
        group.copy_members_out(&mut builder, incoming(me, size, size - 2), 1);
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
