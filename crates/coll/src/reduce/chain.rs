//! Chain reduce: from both ends towards the root each rank adds its own vector to what comes from its neighbour.
//!
//! Five ranks, root 1; `a-b` is the reduction of those ranks:
//!
//! ```text
//! round 1   0>1: 0      4>3: 4
//! round 2               3>2: 3-4
//! round 3               2>1: 2-4     1 has 0-4
//! ```
//!
//! * Rounds: N-1 for a root at either end, fewer else. Messages: N-1, whole vectors. Any size, any root, rank order always.
//! * Cost: (N-1) (α + l β) for one piece; pieces follow each other, so that a long vector costs its own length and little more.
//! * The least that all ranks copy and reduce together: what a rank of the same node passes on is written where the next
//!   one reads it. For nodes with fewer cores than ranks.

use crate::algorithm::Request;
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let (me, root, last) = (request.rank.0, request.root.0, request.topology.size() - 1);
    // What comes from ranks before the root has slot and block 0, what comes from those behind it the next if there are both.
    let (before, behind) = (0, u32::from(0 < root && root < last));
    let wire = |slot| Wire { port: 0, slot };
    let arrival = |slot| Span::scratch(slot, 1);
    let rounds = root.max(last - root);
    let (own, total, result) = (Span::send(0, 1), arrival(behind + 1), Span::recv(0, 1));
    let mut builder = request.builder();
    if me == root {
        // In the round in which the longer of both ends has come.
        builder.end_rounds(rounds - 1);
        if root > 0 {
            builder.await_put(Rank(root - 1), wire(before), 1);
            builder.reduce(arrival(before), own, result);
        }
        if root < last {
            let vector = if root > 0 { result } else { own };
            builder.await_put(Rank(root + 1), wire(behind), 1);
            builder.reduce(vector, arrival(behind), result);
        }
        builder.end_round();
    } else {
        let (slot, round, next) = match me < root {
            true => (before, me, me + 1),
            false => (behind, last - me, me - 1),
        };
        let (next, arrival) = (Rank(next), arrival(slot));
        if round == 0 {
            builder.put_staged(next, wire(slot), own, total, arrival);
        } else {
            let (previous, [left, right]) = match me < root {
                true => (me - 1, [arrival, own]),
                false => (me + 1, [own, arrival]),
            };
            builder.end_rounds(round - 1);
            builder.await_put(Rank(previous), wire(slot), 1);
            builder.end_round();
            builder.reduce(left, right, total);
            builder.put_total(next, wire(slot), total, arrival);
        }
        builder.end_rounds(rounds - round);
    }
    let staged = request.topology.node_count() > 1;
    builder.finish(1 + behind + u32::from(staged))
}

/// Closed form, of a root at either end.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    let rounds = u64::from(shape.ranks - 1);
    Work {
        rounds,
        port_blocks: rounds,
        ..Work::copies(1)
    }
}
