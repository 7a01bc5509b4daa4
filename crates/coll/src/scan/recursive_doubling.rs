//! Recursive doubling scan, with radix k+1: partial results move on by `d (k+1)^r`, d in 1..=k.
//!
//! Five ranks, one port; `a-b` is the reduction of those ranks, held before each round:
//!
//! ```text
//! start     0   1    2    3    4       each puts to the rank 1 further on
//! round 2   0   0-1  1-2  2-3  3-4     ... 2 further on
//! round 3   0   0-1  0-2  0-3  1-4     ... 4 further on
//! end       0   0-1  0-2  0-3  0-4
//! ```
//!
//! The exclusive scan combines only what arrives, beside it.
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages per rank: at most k per round, whole vectors. Any size.
//! * Cost: ⌈log_{k+1} N⌉ (α + l β), and at most k reductions per round, 2k exclusive.

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::pattern::dissemination::{peers, rounds};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build<const INCLUSIVE: bool>(request: &Request<'_>) -> Schedule {
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let mut builder = request.builder();
    if size == 1 {
        if INCLUSIVE {
            builder.copy(Span::send(0, 1), Span::recv(0, 1));
        }
        return builder.finish(0);
    }
    builder.copy(Span::send(0, 1), Span::scratch(0, 1));
    builder.end_round();
    let mut partial = Span::scratch(0, 1);
    let mut received = false;
    for round in 0..rounds(size, ports) {
        let wire = |port| Wire::of_round(round, ports, port);
        let arrival = |port: u8| Span::scratch(1 + wire(port).slot, 1);
        for (port, distance) in peers(size, ports, round) {
            if me + distance < size {
                builder.put(Rank(me + distance), wire(port), partial, arrival(port));
            }
        }
        let incoming = || peers(size, ports, round).filter(|&(_, distance)| distance <= me);
        for (port, distance) in incoming() {
            builder.await_put(Rank(me - distance), wire(port), 1);
        }
        if !INCLUSIVE {
            for (port, _) in incoming() {
                prepend(&mut builder, arrival(port), &mut received);
            }
        }
        partial = combine(
            &mut builder,
            partial,
            incoming().map(|(port, _)| arrival(port)),
        );
        builder.end_round();
    }
    if INCLUSIVE {
        builder.copy(partial, Span::recv(0, 1));
    }
    builder.finish(1 + arrivals(size, ports))
}

/// The exclusive result grows to the left.
fn prepend(builder: &mut ScheduleBuilder<'_>, arrival: Span, received: &mut bool) {
    if std::mem::replace(received, true) {
        builder.reduce(arrival, Span::recv(0, 1), Span::recv(0, 1));
    } else {
        builder.copy(arrival, Span::recv(0, 1));
    }
}

/// Combines `own`, which is being put, with `arrivals`, nearest first, in the place of the nearest.
fn combine(
    builder: &mut ScheduleBuilder<'_>,
    own: Span,
    mut arrivals: impl Iterator<Item = Span>,
) -> Span {
    let Some(nearest) = arrivals.next() else {
        return own;
    };
    builder.reduce(nearest, own, nearest);
    arrivals.for_each(|span| builder.reduce(span, nearest, nearest));
    nearest
}

/// Blocks that arrivals take: one past the slot of the last.
fn arrivals(size: u32, ports: u8) -> u32 {
    let rounds = rounds(size, ports);
    let last = rounds.checked_sub(1).map(|round| {
        let in_last = peers(size, ports, round).count() as u32;
        round * u32::from(ports) + in_last
    });
    last.unwrap_or(0)
}

/// Closed form.
pub fn work<const INCLUSIVE: bool>(shape: &Shape, _: Protocol) -> Work {
    let (size, ports) = (shape.ranks, shape.ports);
    let rounds = rounds(size, ports);
    // What the last rank receives, which receives most.
    let received = (0..rounds).map(|round| peers(size, ports, round).count() as u64);
    let received: u64 = received.sum();
    let others = u64::from(size > 1);
    Work {
        rounds: rounds.into(),
        port_blocks: rounds.into(),
        ..Work::flat(
            shape,
            match INCLUSIVE {
                true => 1 + others + received,
                false => others + 2 * received,
            },
        )
    }
}
