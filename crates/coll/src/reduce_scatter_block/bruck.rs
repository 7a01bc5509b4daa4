//! Bruck reduce-scatter: Bruck's all-gather backwards, reducing where that copies.
//!
//! Five ranks, one port. Scratch of rank p is in relative order: place j is block p+j. What the
//! all-gather would have brought last leaves first:
//!
//! ```text
//! rank       0          1          2          3          4
//! start      0 1 2 3 4  1 2 3 4 0  2 3 4 0 1  3 4 0 1 2  4 0 1 2 3
//! round 1    puts place 4 to p+4, which reduces it with its place 0
//! round 2    puts places 2 3 to p+2, which reduces them with its places 0 1
//! round 3    puts place 1 to p+1, which reduces it with its place 0
//! ```
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages per rank: at most k per round. Volume per port: ⌈(N-1)/k⌉
//!   blocks: fewest of both, for any number of ranks.
//! * Cost: ⌈log_{k+1} N⌉ α + (N-1)/k l β, equation (1), and N-1 reductions of a block.
//! * Combines ranks in the order of the ring, so that the operation must commute.

use super::work_alone;
use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::pattern::bruck::rounds;
use crate::pattern::{Message, after, before, levels};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let mut builder = request.builder();
    let to_end = size - me;
    builder.copy(Span::send(me, to_end), Span::scratch(0, to_end));
    builder.copy(Span::send(0, me), Span::scratch(to_end, me));
    builder.end_round();
    // What leaves from a place arrives as far behind all places.
    let arrival = |message: &Message| Span::scratch(size - 1 + message.distance, message.blocks);
    for (round, messages) in (0..).zip(rounds(size, ports).iter().rev()) {
        let wire = |message: &Message| Wire::of_round(round, ports, message.port);
        for message in messages {
            let to = Rank(after(me, message.distance, size));
            let from = Span::scratch(message.distance, message.blocks);
            builder.put(to, wire(message), from, arrival(message));
        }
        for message in messages {
            let from = Rank(before(me, message.distance, size));
            builder.await_put(from, wire(message), message.blocks);
            reduce(&mut builder, (me, size), arrival(message));
        }
        builder.end_round();
    }
    builder.copy(Span::scratch(0, 1), Span::recv(0, 1));
    builder.finish(2 * size - 1)
}

/// Reduces `from` with the first places, which are blocks from `me` on, around the end.
fn reduce(builder: &mut ScheduleBuilder<'_>, (me, size): (u32, u32), from: Span) {
    let to_end = from.count.min(size - me);
    for (place, count) in [(0, to_end), (to_end, from.count - to_end)] {
        let like = Some(after(me, place, size));
        let from = Span::scratch(from.first + place, count);
        let into = Span::scratch(place, count);
        builder.reduce_like(like, into, from, into);
    }
}

/// Closed form: equation (1).
pub fn work(shape: &Shape, _: Protocol) -> Work {
    work_alone(shape).unwrap_or_else(|| Work {
        rounds: levels(shape.ranks, shape.ports).into(),
        port_blocks: (shape.ranks - 1).div_ceil(u32::from(shape.ports)).into(),
        ..Work::flat(shape, 2 * u64::from(shape.ranks))
    })
}
