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
    let (before, behind) = Link::both(root, last);
    let rounds = root.max(last - root);
    let (own, total) = (Span::send(0, 1), Span::scratch(behind.arrivals(), 1));
    let mut builder = request.builder();
    if me == root {
        // In the round in which the longer of both ends has come.
        builder.end_rounds(rounds - 1);
        let result = Span::recv(0, 1);
        if root > 0 {
            builder.await_put(Rank(root - 1), before.wire(), 1);
            builder.reduce(before.arrival(), own, result);
        }
        if root < last {
            let vector = if root > 0 { result } else { own };
            builder.await_put(Rank(root + 1), behind.wire(), 1);
            builder.reduce(vector, behind.arrival(), result);
        }
        builder.end_round();
    } else {
        let (link, round, next) = match me < root {
            true => (before, me, me + 1),
            false => (behind, last - me, me - 1),
        };
        let next = (Rank(next), link.wire());
        if round == 0 {
            builder.put_staged(next.0, next.1, own, total, link.arrival());
        } else {
            let previous = if me < root { me - 1 } else { me + 1 };
            builder.end_rounds(round - 1);
            builder.await_put(Rank(previous), link.wire(), 1);
            builder.end_round();
            let operands = match me < root {
                true => [link.arrival(), own],
                false => [own, link.arrival()],
            };
            builder.put_reduced(next, None, operands, (total, link.arrival()));
        }
        builder.end_rounds(rounds - round);
    }
    builder.finish(behind.arrivals() + u32::from(request.topology.node_count() > 1))
}

/// How vectors come from one end of the chain: the root may have a neighbour at either side.
#[derive(Clone, Copy)]
struct Link(u32);

impl Link {
    /// Those of ranks before `root`, and of ranks behind it up to `last`.
    fn both(root: u32, last: u32) -> (Self, Self) {
        let is_between = 0 < root && root < last;
        (Self(0), Self(is_between.into()))
    }

    fn wire(self) -> Wire {
        Wire {
            port: 0,
            slot: self.0,
        }
    }

    /// Where a vector arrives in scratch.
    fn arrival(self) -> Span {
        Span::scratch(self.0, 1)
    }

    /// Blocks that arrivals take up to this one's.
    fn arrivals(self) -> u32 {
        self.0 + 1
    }
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
