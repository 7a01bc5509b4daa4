//! SMP-aware Direct all-gather: Direct between the leaders, shared memory inside the nodes.
//!
//! Five ranks on nodes (0 1) (2 3) (4), one port; leaders 0, 2, 4:
//!
//! ```text
//! gather      all copy into their node's memory      0 1 . . .   . . 2 3 .   . . . . 4
//! round 1     leaders put their node's blocks        0>2: 0 1    2>4: 2 3    4>0: 4
//!   meanwhile all copy their own node's blocks out
//! round 2                                            0>4: 0 1    2>0: 2 3    4>2: 4
//! broadcast   leaders release what has come, in up to four portions; all copy it out
//! ```
//!
//! * Rounds: ⌈(V-1)/k⌉. Messages per leader: V-1. Volume per port: q ⌈(V-1)/k⌉ blocks.
//! * Cost: ⌈(V-1)/k⌉ (α + q l β), equation (2) over nodes, and two copies in shared memory, of
//!   which the second overlaps.
//! * One node: copy in, one wait for all, copy out.
//! * Any node sizes, any placement of ranks; node memory is in node order, copies out permute.

use super::direct::{await_portion, copy_portion_out, portion_count, portions, post};
use super::{alone, single_node, work_of_single_node};
use crate::builder::ScheduleBuilder;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::direct::rounds;
use crate::registry::Request;
use crate::schedule::{Landing, Schedule};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let group = Group::nodes(request.topology);
    if let Some(schedule) = alone(request).or_else(|| single_node(request, &group)) {
        return schedule;
    }
    let ports = request.ports;
    let node = group.member_of(request.rank);
    let leads = group.speaks(request.rank);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    builder.node_gather(group.place(request.rank));
    builder.node_await_gather();
    builder.end_round();
    if leads {
        post(&mut builder, &group, node, ports);
    } else {
        (0..rounds(group.size(), ports)).for_each(|_| builder.end_round());
    }
    group.copy_members_out(&mut builder, node, 1);
    for portion in portions(group.size(), ports) {
        if leads {
            await_portion(&mut builder, &group, node, ports, portion.clone());
        }
        builder.node_broadcast();
        copy_portion_out(&mut builder, &group, node, ports, portion);
    }
    builder.finish(group.blocks())
}

/// Closed form: equation (2) over nodes.
pub fn work(shape: &Shape, _: Landing) -> Work {
    work_of_single_node(shape).unwrap_or_else(|| {
        let rounds = u64::from(rounds(shape.nodes, shape.ports));
        let releases = portion_count(shape.nodes, shape.ports);
        Work {
            rounds,
            port_blocks: rounds * u64::from(shape.node_size),
            node_syncs: shape.syncs(1 + releases),
            ..Work::copies(1 + u64::from(shape.ranks))
        }
    })
}
