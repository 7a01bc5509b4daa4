//! Gather to the first member, then broadcast of everything.
//!
//! `tree_gather_broadcast`: tree gather to rank 0, then tree broadcast: the native baseline for small blocks.
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
//!
//! SMP-aware: gather to the first leader, broadcast to all leaders, shared
//! memory inside the nodes. Two names, `smp_gather_broadcast_tree` and `smp_gather_broadcast_direct`,
//! after the gather between the leaders; a third, `smp_gather_broadcast_multicast`, gathers as Direct does
//! and broadcasts as the paper does.
//!
//! Five ranks on nodes (0 1) (2 3) (4), one port; leaders 0, 2, 4:
//!
//! ```text
//!                                    tree                    direct
//! node gather   0 1 | 2 3 | 4        round 1  2>0: 2 3       round 1  2>0: 2 3
//!                                    round 2  4>0: 4         round 2  4>0: 4
//! broadcast, both                    round 3  0>4: all   round 4  0>2: all
//! node broadcast: a leader that has all releases its node, puts on, and copies out meanwhile
//! ```
//!
//! The paper broadcasts in hardware. Multicast is that; where it is not to be had, a tree of radix k+1
//! stands in for it.
//!
//! * Rounds: tree 2 ⌈log_{k+1} V⌉; direct ⌈(V-1)/k⌉ + ⌈log_{k+1} V⌉; multicast ⌈(V-1)/k⌉ + 1. Messages: V-1
//!   up, V-1 down, or one.
//! * Volume per port: the gather's, as equation (1) (see above) or (2) says, over
//!   nodes of q blocks; and N ⌈log_{k+1} V⌉ for the broadcast, or N by multicast.
//! * Nothing is copied out before a node has everything, as the broadcast overwrites the node's
//!   own blocks: for small blocks one copy is better than several.
//! * One node: copy in, one wait for all, copy out. Any node sizes, any placement of ranks.

use super::{single_member, work_of_copies, work_of_single_node};
use crate::algorithm::Request;
use crate::cost::{Shape, Work};
use crate::gather::smp::Way;
use crate::group::Group;
use crate::pattern::levels;
use crate::pattern::rooted::volume;
use crate::schedule::{Protocol, Schedule};
use crate::tree::Branch;

/// How everything reaches the other members.
#[derive(Clone, Copy)]
pub(super) enum Broadcast {
    Tree,
    Multicast,
}

impl Broadcast {
    fn rounds(self, nodes: u32, ports: u8) -> u32 {
        match self {
            Self::Tree => levels(nodes, ports),
            Self::Multicast => 1,
        }
    }
}

/// One rank's schedule of `tree_gather_broadcast`.
pub fn build(request: &Request<'_>) -> Schedule {
    let group = Group::ranks(request.topology);
    among_members(request, &group, Way::Tree, Broadcast::Tree)
}

/// One rank's schedule of an SMP-aware form.
pub(super) fn build_smp(request: &Request<'_>, way: Way, broadcast: Broadcast) -> Schedule {
    among_members(request, &Group::nodes(request.topology), way, broadcast)
}

fn among_members(
    request: &Request<'_>,
    group: &Group<'_>,
    way: Way,
    broadcast: Broadcast,
) -> Schedule {
    if let Some(schedule) = single_member(request, group) {
        return schedule;
    }
    let (size, ports) = (group.size(), request.ports);
    let gather_rounds = way.rounds(size, ports);
    let mut builder = request.builder();
    group.gather(&mut builder, group.place(request.rank));
    if group.speaks(request.rank) {
        let branch = Branch::new(group, 0, group.member_of(request.rank), ports);
        let everything = group.members(0, size);
        group.await_gather(&mut builder);
        builder.end_round();
        way.gather(&mut builder, &branch, 0);
        match broadcast {
            Broadcast::Tree => {
                if branch.me == 0 {
                    group.release(&mut builder);
                }
                let slot = gather_rounds * u32::from(ports);
                branch.broadcast(&mut builder, slot, everything, |builder| {
                    group.release(builder)
                });
            }
            Broadcast::Multicast => {
                match branch.me {
                    0 => builder.multicast(everything),
                    _ => builder.await_multicast(group.rank(0), everything),
                }
                group.release(&mut builder);
                builder.end_round();
            }
        }
    } else {
        builder.end_rounds(1 + gather_rounds + broadcast.rounds(size, ports));
        group.release(&mut builder);
    }
    group.copy_members_out(&mut builder, 0, size);
    builder.finish(group.blocks())
}

/// Closed form of `tree_gather_broadcast`: equation (1) up, full length down.
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let levels = u64::from(levels(shape.ranks, shape.ports));
    Work {
        rounds: 2 * levels,
        port_blocks: volume(shape.ranks, shape.ports) + u64::from(shape.ranks) * levels,
        ..work_of_copies(shape, protocol)
    }
}

/// Closed form of an SMP-aware form: equation (1) or (2) over nodes up, full length down.
pub(super) fn work_smp(shape: &Shape, way: Way, broadcast: Broadcast) -> Work {
    work_of_single_node(shape).unwrap_or_else(|| {
        let down = u64::from(broadcast.rounds(shape.nodes, shape.ports));
        let gathered = way.volume(shape.nodes, shape.ports) * u64::from(shape.node_size);
        Work {
            rounds: u64::from(way.rounds(shape.nodes, shape.ports)) + down,
            port_blocks: gathered + down * u64::from(shape.ranks),
            node_syncs: shape.syncs(1),
            ..Work::copies(1 + u64::from(shape.ranks))
        }
    })
}
