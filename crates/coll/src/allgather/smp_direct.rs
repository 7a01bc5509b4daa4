//! SMP-aware Direct all-gather: Direct between the leaders, shared memory inside the nodes. Two
//! names: `smp_direct` with one leader per node, `multi_leader_direct` with several, each of which
//! carries the blocks of its share of the node's ranks over its own rail.
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
//! * Of L leaders with k/L ports ([`Leaders`]) each takes ⌈(V-1)L/k⌉ rounds with blocks of ⌈q/L⌉
//!   ranks: in `multi_leader_direct` above 0 puts its own block to 2, 1 its own to 3, and so on.
//! * One node: copy in, one wait for all, copy out.
//! * Any node sizes, any placement of ranks; node memory is in node order, copies out permute.

use super::direct::{await_portion, copy_portion_out, portion_count, portions, post};
use super::{alone, single_node, work_of_single_node};
use crate::algorithm::Request;
use crate::builder::ScheduleBuilder;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::leaders::Leaders;
use crate::pattern::direct::rounds;
use crate::schedule::{Protocol, Schedule};

/// One rank's schedule of `smp_direct`.
pub fn build(request: &Request<'_>) -> Schedule {
    build_led(request, Leaders::one(request.ports))
}

/// One rank's schedule of `multi_leader_direct`.
pub fn build_multi_leader(request: &Request<'_>) -> Schedule {
    build_led(request, request.node_leaders())
}

fn build_led(request: &Request<'_>, leaders: Leaders) -> Schedule {
    let leader = leaders.index(request.topology.node_rank_of(request.rank));
    let group = Group::led_by(request.topology, leaders, leader.unwrap_or(0));
    if let Some(schedule) = alone(request).or_else(|| single_node(request, &group)) {
        return schedule;
    }
    let ports = leaders.ports;
    let node = group.member_of(request.rank);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    builder.node_gather(group.place(request.rank));
    builder.node_await_gather();
    builder.end_round();
    if let Some(leader) = leader {
        leaders.take_ports(&mut builder, leader);
        post(&mut builder, &group, node, ports);
    } else {
        builder.end_rounds(rounds(group.size(), ports));
    }
    group.copy_members_out(&mut builder, node, 1);
    for portion in portions(group.size(), ports) {
        if leader.is_some() {
            await_portion(&mut builder, &group, node, ports, portion.clone());
        }
        leaders.release(&mut builder);
        copy_portion_out(&mut builder, &group, node, ports, portion);
    }
    builder.finish(group.blocks())
}

/// Closed form of `smp_direct`: equation (2) over nodes.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    work_led(shape, Leaders::one(shape.ports))
}

/// Closed form of `multi_leader_direct`.
pub fn work_multi_leader(shape: &Shape, _: Protocol) -> Work {
    work_led(shape, shape.node_leaders())
}

fn work_led(shape: &Shape, leaders: Leaders) -> Work {
    work_of_single_node(shape).unwrap_or_else(|| {
        let rounds = u64::from(rounds(shape.nodes, leaders.ports));
        let releases = portion_count(shape.nodes, leaders.ports);
        let waits = match leaders.count {
            1 => 1,
            _ => leaders.release_syncs(shape.node_size),
        };
        Work {
            rounds,
            port_blocks: rounds * u64::from(leaders.share_max(shape.node_size)),
            ports: leaders.ports,
            node_sharers: leaders.count,
            node_syncs: shape.syncs(1 + releases * waits),
            ..Work::copies(1 + u64::from(shape.ranks))
        }
    })
}
