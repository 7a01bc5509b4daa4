//! Tree gather to rank 0, then tree broadcast: the native baseline for small blocks.
//!
//! Five ranks, one port; `p>q: blocks`:
//!
//! ```text
//! gather      round 1   1>0: 1        3>2: 3
//!             round 2   2>0: 2 3
//!             round 3   4>0: 4
//! broadcast   round 4   0>4: 0 1 2 3 4
//!             round 5   0>2: 0 1 2 3 4
//!             round 6   0>1: 0 1 2 3 4   2>3: 0 1 2 3 4
//! ```
//!
//! * Rounds: 2 ⌈log_{k+1} N⌉. Messages: N-1 up, N-1 down; per rank at most k per round.
//! * Volume per port: Σ min((k+1)^i, N - (k+1)^i) for the gather, which is equation (1)'s (N-1)/k
//!   where N is a power of k+1; N ⌈log_{k+1} N⌉ for the broadcast.
//! * Cost of the gather: equation (1); of both: 2 ⌈log_{k+1} N⌉ α + the volume × l β.
//! * Any number of ranks. The single-port tree of the baseline is k = 1.

use super::{SEND, alone, work_of_copies};
use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::knomial::{children, levels, parent};
use crate::schedule::{Protocol, Schedule};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    let group = Group::ranks(request.topology);
    let (me, ports) = (request.rank.0, request.ports);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    builder.copy(SEND, group.members(me, 1));
    builder.end_round();
    gather(&mut builder, &group, me, ports);
    let first_round = levels(group.size(), ports);
    broadcast(&mut builder, &group, me, ports, first_round, |_| {});
    group.copy_members_out(&mut builder, 0, group.size());
    builder.finish(group.blocks())
}

/// Gathers members' blocks, in member order, at member 0; [`levels`] rounds from round 0.
pub(super) fn gather(builder: &mut ScheduleBuilder<'_>, group: &Group<'_>, me: u32, ports: u8) {
    let size = group.size();
    for level in 0..levels(size, ports) {
        for edge in children(me, size, ports, level) {
            let wire = Wire::of_round(level, ports, edge.port);
            let blocks = group.members(edge.member, edge.subtree).count;
            builder.await_put(group.rank(edge.member), wire, blocks);
        }
        if let Some(edge) = parent(me, size, ports, level) {
            let wire = Wire::of_round(level, ports, edge.port);
            let span = group.members(me, edge.subtree);
            builder.put(group.rank(edge.member), wire, span, span);
        }
        builder.end_round();
    }
}

/// Broadcasts all blocks from member 0 in [`levels`] rounds, after `first_round` others. Calls
/// `received` at each member as soon as it has them.
pub(super) fn broadcast(
    builder: &mut ScheduleBuilder<'_>,
    group: &Group<'_>,
    me: u32,
    ports: u8,
    first_round: u32,
    received: impl Fn(&mut ScheduleBuilder<'_>),
) {
    let size = group.size();
    let everything = group.members(0, size);
    // Each member receives once.
    let slot = first_round * u32::from(ports);
    if me == 0 {
        received(builder);
    }
    for level in (0..levels(size, ports)).rev() {
        if let Some(edge) = parent(me, size, ports, level) {
            let wire = Wire {
                port: edge.port,
                slot,
            };
            builder.await_put(group.rank(edge.member), wire, everything.count);
            received(builder);
        }
        for edge in children(me, size, ports, level) {
            let wire = Wire {
                port: edge.port,
                slot,
            };
            builder.put(group.rank(edge.member), wire, everything, everything);
        }
        builder.end_round();
    }
}

/// Members in the longest message of each gather round, summed: equation (1).
pub(super) fn gather_volume(size: u32, ports: u8) -> u64 {
    (0..levels(size, ports))
        .map(|level| {
            let stride = (u64::from(ports) + 1).pow(level);
            stride.min(u64::from(size) - stride)
        })
        .sum()
}

/// Closed form: equation (1) up, full length down.
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let levels = u64::from(levels(shape.ranks, shape.ports));
    Work {
        rounds: 2 * levels,
        port_blocks: gather_volume(shape.ranks, shape.ports) + u64::from(shape.ranks) * levels,
        node_sharers: shape.node_size,
        ..work_of_copies(shape, protocol)
    }
}
