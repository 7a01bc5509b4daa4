//! SMP-aware Bruck all-gather: Bruck between the leaders, shared memory inside the nodes.
//!
//! Five ranks on nodes A (0 1), B (2 3), C (4), one port. A node's memory is in relative node
//! order: its own blocks, those of the next node and so on.
//!
//! ```text
//! node        A            B            C
//! gather      0 1          2 3          4
//! round 1     0 1 2 3      2 3 4        4 0 1         leaders put own node's blocks to node - 1
//!   meanwhile all copy their own node's blocks out, to their right places
//! round 2     0 1 2 3 4    2 3 4 0 1    4 0 1 2 3     leaders put own node's blocks to node - 2
//!   meanwhile all copy out what round 1 brought; after it, the rest
//! ```
//!
//! The copies out order the blocks, so there is no shift.
//!
//! * Rounds: ⌈log_{k+1} V⌉. Messages per leader: at most k per round.
//! * Volume per port: q ⌈(V-1)/k⌉ blocks.
//! * Cost: ⌈log_{k+1} V⌉ α + q (V-1)/k l β, equation (1) over nodes, and two copies in shared
//!   memory, of which the second overlaps.
//! * One node: copy in, one wait for all, copy out.
//! * Any node sizes: lengths follow from the node map, which all ranks know.

use super::bruck::Round;
use super::{alone, single_node, work_of_single_node};
use crate::algorithm::Request;
use crate::builder::ScheduleBuilder;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::bruck::rounds;
use crate::pattern::{after, ceil_log};
use crate::schedule::{Protocol, Schedule};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let group = Group::nodes(request.topology);
    if let Some(schedule) = alone(request).or_else(|| single_node(request, &group)) {
        return schedule;
    }
    let node = group.member_of(request.rank);
    let leads = group.speaks(request.rank);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    // Relative order: the own node comes first.
    builder.node_gather(group.place(request.rank) - group.first(node));
    builder.node_await_gather();
    builder.end_round();
    let (mut held, mut copied) = (1, 0);
    for (r, messages) in rounds(group.size(), request.ports).iter().enumerate() {
        let round = Round::new(&group, node, request.ports, r as u32, messages);
        if leads {
            round.post(&mut builder);
        }
        copy_out(&mut builder, &group, node, copied, held);
        if leads {
            round.await_all(&mut builder);
        }
        builder.node_broadcast();
        builder.end_round();
        copied = held;
        held += round.gained();
    }
    copy_out(&mut builder, &group, node, copied, held);
    builder.finish(group.blocks())
}

/// Copies the nodes at relative places `from..to` out.
fn copy_out(builder: &mut ScheduleBuilder<'_>, group: &Group<'_>, node: u32, from: u32, to: u32) {
    let first = after(node, from, group.size());
    group.copy_out(builder, first, to - from, group.blocks_from(node, from));
}

/// Closed form: equation (1) over nodes.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    work_of_single_node(shape).unwrap_or_else(|| {
        let rounds = u64::from(ceil_log(shape.nodes, u32::from(shape.ports) + 1));
        let nodes_per_port = u64::from((shape.nodes - 1).div_ceil(u32::from(shape.ports)));
        Work {
            rounds,
            port_blocks: nodes_per_port * u64::from(shape.node_size),
            node_syncs: shape.syncs(1 + rounds),
            ..Work::copies(1 + u64::from(shape.ranks))
        }
    })
}
