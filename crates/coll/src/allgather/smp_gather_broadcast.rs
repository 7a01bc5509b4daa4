//! SMP-aware Gather and Broadcast: gather to the first leader, broadcast to all leaders, shared
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
//! * Volume per port: the gather's, as equation (1) (see `tree_gather_broadcast`) or (2) says, over
//!   nodes of q blocks; and N ⌈log_{k+1} V⌉ for the broadcast, or N by multicast.
//! * Nothing is copied out before a node has everything, as the broadcast overwrites the node's
//!   own blocks: for small blocks one copy is better than several.
//! * One node: copy in, one wait for all, copy out. Any node sizes, any placement of ranks.

use super::tree_gather_broadcast::{broadcast, gather, gather_volume};
use super::{alone, single_node, work_of_single_node};
use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::direct;
use crate::pattern::knomial::levels;
use crate::schedule::{Protocol, Schedule};

/// How everything reaches the other leaders.
#[derive(Clone, Copy, PartialEq)]
enum Broadcast {
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

#[derive(Clone, Copy)]
enum Gather {
    Tree,
    Direct,
}

impl Gather {
    fn rounds(self, nodes: u32, ports: u8) -> u32 {
        match self {
            Self::Tree => levels(nodes, ports),
            Self::Direct => direct::rounds(nodes, ports),
        }
    }

    /// Nodes whose blocks pass the root's busiest port.
    fn volume(self, nodes: u32, ports: u8) -> u64 {
        match self {
            Self::Tree => gather_volume(nodes, ports),
            Self::Direct => u64::from(direct::rounds(nodes, ports)),
        }
    }
}

/// One rank's schedule of `smp_gather_broadcast_tree`.
pub fn build_tree(request: &Request<'_>) -> Schedule {
    build(request, Gather::Tree, Broadcast::Tree)
}

/// One rank's schedule of `smp_gather_broadcast_direct`.
pub fn build_direct(request: &Request<'_>) -> Schedule {
    build(request, Gather::Direct, Broadcast::Tree)
}

/// One rank's schedule of `smp_gather_broadcast_multicast`.
pub fn build_multicast(request: &Request<'_>) -> Schedule {
    build(request, Gather::Direct, Broadcast::Multicast)
}

fn build(request: &Request<'_>, kind: Gather, spread: Broadcast) -> Schedule {
    let group = Group::nodes(request.topology);
    if let Some(schedule) = alone(request).or_else(|| single_node(request, &group)) {
        return schedule;
    }
    let (nodes, ports) = (group.size(), request.ports);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    builder.node_gather(group.place(request.rank));
    if group.speaks(request.rank) {
        let node = group.member_of(request.rank);
        builder.node_await_gather();
        builder.end_round();
        match kind {
            Gather::Tree => gather(&mut builder, &group, node, ports),
            Gather::Direct => gather_direct(&mut builder, &group, node, ports),
        }
        let first_round = kind.rounds(nodes, ports);
        match spread {
            Broadcast::Tree => {
                broadcast(&mut builder, &group, node, ports, first_round, |builder| {
                    builder.node_broadcast()
                })
            }
            Broadcast::Multicast => multicast(&mut builder, &group, node),
        }
    } else {
        let rounds = 1 + kind.rounds(nodes, ports) + spread.rounds(nodes, ports);
        (0..rounds).for_each(|_| builder.end_round());
        builder.node_broadcast();
    }
    group.copy_members_out(&mut builder, 0, nodes);
    builder.finish(group.blocks())
}

/// Member 0 multicasts all that it has gathered.
fn multicast(builder: &mut ScheduleBuilder<'_>, group: &Group<'_>, me: u32) {
    let everything = group.members(0, group.size());
    match me {
        0 => builder.multicast(everything),
        _ => builder.await_multicast(group.rank(0), everything),
    }
    builder.node_broadcast();
    builder.end_round();
}

/// Member m puts straight to member 0, in round ⌈m/k⌉.
fn gather_direct(builder: &mut ScheduleBuilder<'_>, group: &Group<'_>, me: u32, ports: u8) {
    let k = u32::from(ports);
    for round in 0..direct::rounds(group.size(), ports) {
        let senders = round * k + 1..((round + 1) * k + 1).min(group.size());
        for (port, member) in senders.enumerate() {
            let wire = Wire::of_round(round, ports, port as u8);
            let span = group.members(member, 1);
            if me == 0 {
                builder.await_put(group.rank(member), wire, span.count);
            } else if me == member {
                builder.put(group.rank(0), wire, span, span);
            }
        }
        builder.end_round();
    }
}

/// Closed form of `smp_gather_broadcast_tree`: equation (1) over nodes up, full length down.
pub fn work_tree(shape: &Shape, _: Protocol) -> Work {
    work(shape, Gather::Tree, Broadcast::Tree)
}

/// Closed form of `smp_gather_broadcast_direct`: equation (2) over nodes up, full length down.
pub fn work_direct(shape: &Shape, _: Protocol) -> Work {
    work(shape, Gather::Direct, Broadcast::Tree)
}

/// Closed form of `smp_gather_broadcast_multicast`: equation (2) over nodes up, one message down.
pub fn work_multicast(shape: &Shape, _: Protocol) -> Work {
    work(shape, Gather::Direct, Broadcast::Multicast)
}

fn work(shape: &Shape, kind: Gather, spread: Broadcast) -> Work {
    work_of_single_node(shape).unwrap_or_else(|| {
        let levels = u64::from(spread.rounds(shape.nodes, shape.ports));
        let gathered = kind.volume(shape.nodes, shape.ports) * u64::from(shape.node_size);
        Work {
            rounds: u64::from(kind.rounds(shape.nodes, shape.ports)) + levels,
            port_blocks: gathered + levels * u64::from(shape.ranks),
            node_syncs: shape.syncs(1),
            ..Work::copies(1 + u64::from(shape.ranks))
        }
    })
}
