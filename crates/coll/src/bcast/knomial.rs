//! k-nomial broadcast: whoever has the message puts it to k others in each round.
//!
//! Five ranks, root 3, one port:
//!
//! ```text
//! round 1   3>4
//! round 2   3>0
//! round 3   3>2  0>1
//! ```
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages: N-1; per rank at most k per round. Any size, any root.
//! * Volume per port: ⌈log_{k+1} N⌉ messages. Cost: ⌈log_{k+1} N⌉ (α + l β).
//! * Zero-copy: one RTR per rank, to its parent.

use crate::algorithm::Request;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::levels;
use crate::schedule::{Protocol, Schedule, Span};
use crate::tree::Branch;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let mut builder = request.builder();
    if request.topology.size() == 1 {
        return builder.finish(0);
    }
    let group = Group::ranks(request.topology);
    let branch = Branch::new(&group, request.root.0, request.rank.0, request.ports);
    let (message, copy) = (Span::recv(0, 1), Span::scratch(0, 1));
    if request.protocol == Protocol::Rendezvous {
        branch.broadcast_announced(&mut builder, message);
        return builder.finish(0);
    }
    if request.rank == request.root {
        builder.copy(message, copy);
    }
    builder.end_round();
    branch.broadcast(&mut builder, 0, copy, |_| {});
    if request.rank != request.root {
        builder.copy(copy, message);
    }
    builder.finish(1)
}

/// Closed form.
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let levels = u64::from(levels(shape.ranks, shape.ports));
    Work {
        rounds: levels,
        port_blocks: levels,
        ..Work::flat(
            shape,
            u64::from(shape.ranks > 1 && protocol == Protocol::Eager),
        )
    }
}
