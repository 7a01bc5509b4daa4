//! Chain scan: each rank adds its own vector to what comes from the rank before, and passes it on.
//!
//! Three ranks; `a-b` is the reduction of those ranks: 0 puts 0 to 1, which puts 0-1 to 2, which has
//! 0-2 then.
//!
//! * Rounds: N-1. Messages: one per rank, whole vectors. Cost: (N-1) (α + l β) for one piece; pieces
//!   follow each other, so that a long vector costs its own length and little more.
//! * The least that all ranks copy and reduce together: for nodes with fewer cores than ranks.

use super::{Kind, recursive_doubling};
use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule of a scan.
pub fn build_inclusive(request: &Request<'_>) -> Schedule {
    build(request, Kind::Inclusive)
}

/// One rank's schedule of an exclusive scan.
pub fn build_exclusive(request: &Request<'_>) -> Schedule {
    build(request, Kind::Exclusive)
}

fn build(request: &Request<'_>, kind: Kind) -> Schedule {
    let (size, me) = (request.topology.size(), request.rank.0);
    if size == 1 {
        return recursive_doubling::build(request, kind);
    }
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    let wire = Wire { port: 0, slot: 0 };
    if me > 0 {
        builder.end_rounds(me - 1);
        builder.await_put(Rank(me - 1), wire, 1);
        builder.end_round();
    }
    let (own, result) = (Span::send(0, 1), Span::recv(0, 1));
    let (arrival, total) = (Span::scratch(0, 1), Span::scratch(1, 1));
    let passes_on = me + 1 < size;
    let sum = match kind {
        Kind::Inclusive => result,
        Kind::Exclusive => total,
    };
    if me > 0 && (passes_on || kind == Kind::Inclusive) {
        builder.reduce(arrival, own, sum);
    } else if kind == Kind::Inclusive {
        builder.copy(own, result);
    }
    if passes_on && me > 0 && kind == Kind::Exclusive {
        builder.put(Rank(me + 1), wire, total, arrival);
    } else if passes_on {
        let passed = if me > 0 { result } else { own };
        builder.put_staged(Rank(me + 1), wire, passed, total, arrival);
    }
    if me > 0 && kind == Kind::Exclusive {
        builder.copy(arrival, result);
    }
    if passes_on {
        builder.end_rounds(size - 1 - me);
    }
    let staged = request.topology.node_count() > 1;
    let sums = kind == Kind::Exclusive && size > 2;
    builder.finish(1 + u32::from(sums || staged))
}

/// Closed form of the scan.
pub fn work_inclusive(shape: &Shape, _: Protocol) -> Work {
    let copies = match shape.ranks {
        1 => 1,
        _ => 1 + u64::from(shape.nodes > 1),
    };
    work(shape, copies)
}

/// Closed form of the exclusive scan.
pub fn work_exclusive(shape: &Shape, _: Protocol) -> Work {
    let copies = match shape.ranks {
        1 => 0,
        2 => 1,
        _ => 2,
    };
    work(shape, copies)
}

fn work(shape: &Shape, copies: u64) -> Work {
    let rounds = u64::from(shape.ranks - 1);
    Work {
        rounds,
        port_blocks: rounds,
        ..Work::copies(copies)
    }
}
