//! Multicast all-gather: every leader multicasts its node's blocks, which cross each link once.
//!
//! Five ranks on nodes (0 1) (2 3) (4):
//!
//! ```text
//! gather      all copy into their node's memory      0 1 . . .   . . 2 3 .   . . . . 4
//! round 1     leaders multicast their node's blocks  0: 0 1      2: 2 3      4: 4
//!   meanwhile all copy their own node's blocks out
//! broadcast   leaders release what has come; all copy it out
//! ```
//!
//! * Rounds: 1. Messages per leader: 1. Volume sent per leader: q blocks, where `smp_direct` sends q (V-1)
//!   and a ring passes on as many; each leader receives q (V-1) blocks.
//! * Cost: α + q (V-1) l β, as the receiving link carries all blocks, and two copies in shared memory.
//! * How many leaders send at once is the transport's to bound: a receive queue bears so many datagrams.
//!
//! Source: Khalilov et al. 2024 (arXiv 2408.13356), concurrent multicasts; the phases of Qian and Afsahi.

use super::{single_member, work_of_single_node};
use crate::algorithm::Request;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::schedule::{Protocol, Schedule};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let group = Group::nodes(request.topology);
    if let Some(schedule) = single_member(request, &group) {
        return schedule;
    }
    let node = group.member_of(request.rank);
    let mut builder = request.builder();
    builder.node_gather(group.place(request.rank));
    builder.node_await_gather();
    builder.end_round();
    let speaks = group.speaks(request.rank);
    if speaks {
        builder.multicast(group.members(node, 1));
    }
    group.copy_members_out(&mut builder, node, 1);
    let others = group.size() - 1;
    if speaks {
        for member in (1..=others).map(|distance| (node + distance) % group.size()) {
            builder.await_multicast(group.rank(member), group.members(member, 1));
        }
    }
    builder.end_round();
    builder.node_broadcast();
    group.copy_members_out(&mut builder, (node + 1) % group.size(), others);
    builder.finish(group.blocks())
}

/// Closed form.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    work_of_single_node(shape).unwrap_or_else(|| Work {
        rounds: 1,
        port_blocks: shape.ranks_elsewhere(),
        ports: 1,
        node_syncs: shape.syncs(2),
        ..Work::copies(1 + u64::from(shape.ranks))
    })
}
