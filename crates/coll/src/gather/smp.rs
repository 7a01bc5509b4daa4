//! SMP-aware gather: node gather in shared memory, then `smp_tree` or `smp_direct` between leaders
//! (phases 1 and 2 of the paper's section 5.2.1).
//!
//! Five ranks on nodes (0 1) (2 3) (4), root 1, one port:
//!
//! ```text
//! node gather   0 1 . . . | . . 2 3 . | . . . . 4
//! tree          round 1  2>0: 2 3     round 2  4>0: 4
//! direct        round 1  2>0: 2 3     round 2  4>0: 4
//! 0 hands over to 1, which copies everything out of the node's memory
//! ```
//!
//! * Rounds: ⌈log_{k+1} V⌉ or ⌈(V-1)/k⌉; messages: V-1; volume as in the flat forms, over nodes of
//!   q blocks. Where the root does not lead its node, its leader receives for it.
//! * One node: all copy in concurrently, the root waits for them and copies out.

use super::tree::up;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::rooted::{Tree, volume};
use crate::pattern::{after, before, ceil_log, direct};
use crate::registry::Request;
use crate::schedule::{Landing, Schedule, Span};

/// One rank's schedule of `smp_tree`.
pub fn build_tree(request: &Request<'_>) -> Schedule {
    build(request, ceil_log, |builder, group, node, root| {
        let tree = Tree::new(root, group.size(), request.ports);
        up(builder, group, &tree, node, request.ports);
    })
}

/// One rank's schedule of `smp_direct`.
pub fn build_direct(request: &Request<'_>) -> Schedule {
    let rounds = |nodes, radix| direct::rounds(nodes, (radix - 1) as u8);
    build(request, rounds, |builder, group, node, root| {
        straight(builder, group, node, root, request.ports);
    })
}

fn build(
    request: &Request<'_>,
    rounds: impl Fn(u32, u32) -> u32,
    between_leaders: impl Fn(&mut ScheduleBuilder<'_>, &Group<'_>, u32, u32),
) -> Schedule {
    let topology = request.topology;
    let group = Group::nodes(topology);
    let mut builder = ScheduleBuilder::new(topology, request.rank);
    if topology.size() == 1 {
        builder.copy(Span::send(0, 1), Span::recv(0, 1));
        return builder.finish(0);
    }
    let (node, root_node) = (group.member_of(request.rank), group.member_of(request.root));
    let is_root = request.rank == request.root;
    builder.node_gather(group.place(request.rank));
    if is_root || (group.speaks(request.rank) && node != root_node) {
        builder.node_await_gather();
    }
    builder.end_round();
    if group.speaks(request.rank) {
        between_leaders(&mut builder, &group, node, root_node);
    } else {
        builder.end_rounds(rounds(group.size(), u32::from(request.ports) + 1));
    }
    if node == root_node && group.size() > 1 {
        builder.node_hand_over(topology.node_rank_of(request.root));
    }
    if is_root {
        group.copy_members_out(&mut builder, 0, group.size());
    }
    builder.finish(group.blocks())
}

/// Node at distance d from the root's puts to it in round ⌈d/k⌉.
fn straight(builder: &mut ScheduleBuilder<'_>, group: &Group<'_>, node: u32, root: u32, ports: u8) {
    let size = group.size();
    let own = before(node, root, size);
    for round in 0..direct::rounds(size, ports) {
        for exchange in direct::round(root, size, ports, round) {
            let wire = Wire::of_round(round, ports, exchange.port);
            if node == root {
                let blocks = group.members(exchange.to, 1).count;
                builder.await_put(
                    group.rank(after(root, exchange.distance, size)),
                    wire,
                    blocks,
                );
            } else if own == exchange.distance {
                let span = group.members(node, 1);
                builder.put(group.rank(root), wire, span, span);
            }
        }
        builder.end_round();
    }
}

/// Closed form of `smp_tree`: equation (1) over nodes.
pub fn work_tree(shape: &Shape, _: Landing) -> Work {
    let rounds = ceil_log(shape.nodes, u32::from(shape.ports) + 1);
    work(shape, rounds, volume(shape.nodes, shape.ports))
}

/// Closed form of `smp_direct`: equation (2) over nodes.
pub fn work_direct(shape: &Shape, _: Landing) -> Work {
    let rounds = direct::rounds(shape.nodes, shape.ports);
    work(shape, rounds, rounds.into())
}

fn work(shape: &Shape, rounds: u32, nodes_through_port: u64) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    Work {
        rounds: rounds.into(),
        port_blocks: nodes_through_port * u64::from(shape.node_size),
        node_syncs: shape.syncs(1),
        ..Work::copies(1 + u64::from(shape.ranks))
    }
}
