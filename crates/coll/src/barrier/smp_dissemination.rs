//! SMP-aware barrier: all signal their leader, leaders disseminate, leaders release their nodes.
//!
//! Five ranks on nodes (0 1) (2 3) (4), one port: leaders 0, 2, 4 wait for their nodes; round 1
//! `0>2 2>4 4>0`, round 2 `0>4 2>0 4>2`; 0 releases 1, 2 releases 3.
//!
//! * Rounds: ⌈log_{k+1} V⌉. Messages per leader: at most k per round, empty.
//! * Cost: ⌈log_{k+1} V⌉ α and two flags in shared memory.
//! * One node: everyone signals and waits for all; nobody waits for the leader in particular.

use super::dissemination::exchange;
use crate::algorithm::Request;
use crate::builder::ScheduleBuilder;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::dissemination::rounds;
use crate::schedule::{Protocol, Schedule};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let group = Group::nodes(request.topology);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    if group.size() == 1 {
        builder.node_barrier();
        return builder.finish(0);
    }
    builder.node_arrive();
    if group.speaks(request.rank) {
        builder.node_await_gather();
        builder.end_round();
        let node = group.member_of(request.rank);
        exchange(&mut builder, &group, node, request.ports);
    } else {
        builder.end_rounds(1 + rounds(group.size(), request.ports));
    }
    builder.node_broadcast();
    builder.finish(0)
}

/// Closed form.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    Work {
        rounds: u64::from(rounds(shape.nodes, shape.ports)),
        node_syncs: shape.syncs(1),
        ..Work::copies(0)
    }
}
