//! Dissemination barrier: in round r everyone notifies those `d (k+1)^r` further on, d in 1..=k.
//!
//! Five ranks, one port: round 1 `p>p+1`, round 2 `p>p+2`, round 3 `p>p+4`. After it rank 0 has
//! heard of 4, of 3 and 2 through 3, and of 1 through 1.
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages per rank: at most k per round, empty. Any number of ranks.
//! * Cost: ⌈log_{k+1} N⌉ α.

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::dissemination::{peers, rounds};
use crate::pattern::{after, before};
use crate::schedule::{Protocol, Schedule};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let group = Group::ranks(request.topology);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    exchange(&mut builder, &group, request.rank.0, request.ports);
    builder.finish(0)
}

/// All rounds of member `me`.
pub(super) fn exchange(builder: &mut ScheduleBuilder<'_>, group: &Group<'_>, me: u32, ports: u8) {
    let size = group.size();
    for round in 0..rounds(size, ports) {
        for (port, distance) in peers(size, ports, round) {
            let to = group.rank(after(me, distance, size));
            builder.notify(to, Wire::of_round(round, ports, port));
        }
        for (port, distance) in peers(size, ports, round) {
            let from = group.rank(before(me, distance, size));
            builder.await_put(from, Wire::of_round(round, ports, port), 0);
        }
        builder.end_round();
    }
}

/// Closed form.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    Work {
        rounds: u64::from(rounds(shape.ranks, shape.ports)),
        node_sharers: shape.node_size,
        ..Work::copies(0)
    }
}
