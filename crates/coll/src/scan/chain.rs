//! Chain scan: each rank adds its own vector to what comes from the rank before, and passes it on.
//!
//! Three ranks; `a-b` is the reduction of those ranks: 0 puts 0 to 1, which puts 0-1 to 2, which has
//! 0-2 then.
//!
//! * Rounds: N-1. Messages: one per rank, whole vectors. Cost: (N-1) (α + l β) for one piece; pieces
//!   follow each other, so that a long vector costs its own length and little more.
//! * The least that all ranks copy and reduce together: for nodes with fewer cores than ranks.

use super::recursive_doubling;
use crate::algorithm::Request;
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build<const INCLUSIVE: bool>(request: &Request<'_>) -> Schedule {
    let (size, me) = (request.topology.size(), request.rank.0);
    if size == 1 {
        return recursive_doubling::build::<INCLUSIVE>(request);
    }
    let mut builder = request.builder();
    let wire = Wire { port: 0, slot: 0 };
    if me > 0 {
        builder.end_rounds(me - 1);
        builder.await_put(Rank(me - 1), wire, 1);
        builder.end_round();
    }
    let (own, result) = (Span::send(0, 1), Span::recv(0, 1));
    let (arrival, total) = (Span::scratch(0, 1), Span::scratch(1, 1));
    let passes_on = me + 1 < size;
    let sum = if INCLUSIVE { result } else { total };
    if me > 0 && (passes_on || INCLUSIVE) {
        builder.reduce(arrival, own, sum);
    } else if INCLUSIVE {
        builder.copy(own, result);
    }
    if passes_on && me > 0 && !INCLUSIVE {
        builder.put_total(Rank(me + 1), wire, total, arrival);
    } else if passes_on {
        let passed = if me > 0 { result } else { own };
        builder.put_staged(Rank(me + 1), wire, passed, total, arrival);
    }
    if me > 0 && !INCLUSIVE {
        builder.copy(arrival, result);
    }
    if passes_on {
        builder.end_rounds(size - 1 - me);
    }
    let staged = request.topology.node_count() > 1;
    builder.finish(1 + u32::from(staged))
}

/// Closed form.
pub fn work<const INCLUSIVE: bool>(shape: &Shape, _: Protocol) -> Work {
    let rounds = u64::from(shape.ranks - 1);
    let copies = match (INCLUSIVE, rounds) {
        (true, 0) => 1,
        (true, _) => 1 + u64::from(shape.nodes > 1),
        (false, _) => rounds.min(2),
    };
    Work {
        rounds,
        port_blocks: rounds,
        ..Work::copies(copies)
    }
}
