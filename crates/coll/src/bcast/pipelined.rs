//! Pipelined broadcast: N parts follow each other along the chain root, root+1, ..., root-1.
//!
//! Three ranks, root 0; parts in digits:
//!
//! ```text
//! round 1   0>1: 0
//! round 2   0>1: 1   1>2: 0
//! round 3   0>1: 2   1>2: 1
//! round 4            1>2: 2
//! ```
//!
//! * Rounds: 2(N-1). Messages per rank: N, on one port. Volume: 2(N-1) parts of l/N bytes.
//! * Cost: 2(N-1) (α + l/N β): a single rail and everyone sends the message once. Any size and root.

use crate::algorithm::Request;
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::pattern::{after, before};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (size, me) = (request.topology.size(), request.rank.0);
    let mut builder = request.builder();
    if size == 1 {
        return builder.finish(0);
    }
    let hop = before(me, request.root.0, size);
    let (previous, next) = (Rank(before(me, 1, size)), Rank(after(me, 1, size)));
    if hop == 0 {
        builder.copy(Span::recv(0, size), Span::scratch(0, size));
    }
    builder.end_round();
    let wire = |part| Wire {
        port: 0,
        slot: part,
    };
    for round in 0..2 * (size - 1) {
        // Part p leaves member h in round p + h.
        if hop + 1 < size
            && let Some(part) = round.checked_sub(hop).filter(|&part| part < size)
        {
            let span = Span::scratch(part, 1);
            builder.put(next, wire(part), span, span);
        }
        if hop > 0
            && let Some(part) = (round + 1).checked_sub(hop).filter(|&part| part < size)
        {
            builder.await_put(previous, wire(part), 1);
            builder.copy(Span::scratch(part, 1), Span::recv(part, 1));
        }
        builder.end_round();
    }
    builder.finish(size)
}

/// Closed form, in parts.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(0);
    }
    let rounds = 2 * (u64::from(shape.ranks) - 1);
    Work {
        rounds,
        port_blocks: rounds,
        ports: 1,
        ..Work::flat(shape, u64::from(shape.ranks))
    }
}
