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
//! * Zero-copy, `smp_direct`: the root announces its buffer to the leaders of other nodes, and each puts
//!   the blocks that its node gathered right to their places there: a put for each run of consecutive
//!   ranks. `Node` holds no blocks but its own node's.
//! * One node: all but the root copy in concurrently, the root waits for them and copies out. `smp_direct` has no
//!   place for the root's own block, as where it goes to the final buffer.

use super::tree::up;
use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::rooted::{Tree, volume};
use crate::pattern::{after, before, ceil_log, direct};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::{NodeId, Rank};

/// One rank's schedule of `smp_tree`.
pub fn build_tree(request: &Request<'_>) -> Schedule {
    build(request, ceil_log, |builder, group, node, root| {
        let tree = Tree::new(root, group.size(), request.ports);
        up(builder, group, &tree, node, request.ports);
    })
}

/// One rank's schedule of `smp_direct`.
pub fn build_direct(request: &Request<'_>) -> Schedule {
    if request.protocol == Protocol::Rendezvous || request.topology.node_count() == 1 {
        return into_final_buffer(request);
    }
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

/// `smp_direct` under [`Protocol::Rendezvous`], and on one node, where there is nobody to announce a buffer to.
fn into_final_buffer(request: &Request<'_>) -> Schedule {
    let (topology, root) = (request.topology, request.root);
    let group = Group::nodes(topology);
    let mut builder = ScheduleBuilder::new(topology, request.rank);
    let (node, root_node) = (group.member_of(request.rank), group.member_of(root));
    let is_root = request.rank == root;
    let sends = group.speaks(request.rank) && node != root_node;
    if is_root {
        for other in (0..group.size()).filter(|&other| other != root_node) {
            builder.send_rtr(group.rank(other), 0);
        }
        builder.copy(Span::send(0, 1), Span::recv(root.0, 1));
        builder.node_arrive();
    } else {
        let own = topology.node_rank_of(request.rank).0;
        let after_root = node == root_node && own > topology.node_rank_of(root).0;
        builder.node_gather(own - u32::from(after_root));
    }
    if is_root || sends {
        builder.node_await_gather();
    }
    if is_root {
        for run in runs(topology.ranks_of(NodeId(node)), Some(root)) {
            builder.copy(run.gathered(), run.at_root());
        }
    }
    builder.end_round();
    let (size, ports) = (group.size(), request.ports);
    for round in 0..direct::rounds(size, ports) {
        for exchange in direct::round(root_node, size, ports, round) {
            let from = exchange.to;
            let port = exchange.port;
            for run in runs(topology.ranks_of(NodeId(from)), None) {
                let slot = run.rank;
                if is_root {
                    builder.await_put(group.rank(from), Wire { port, slot }, run.count);
                } else if sends && node == from {
                    if run.place == 0 {
                        builder.await_rtr(root, 0);
                    }
                    builder.put(root, Wire { port, slot }, run.gathered(), run.at_root());
                }
            }
        }
        builder.end_round();
    }
    builder.finish(gathered_blocks(request))
}

/// Ranks of a node that follow each other, in rank order and in the node.
struct Run {
    rank: u32,
    place: u32,
    count: u32,
}

impl Run {
    fn gathered(&self) -> Span {
        Span::node(self.place, self.count)
    }

    fn at_root(&self) -> Span {
        Span::recv(self.rank, self.count)
    }
}

/// The runs of `ranks`, but for `left_out`.
fn runs(ranks: &[Rank], left_out: Option<Rank>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (place, rank) in (0..).zip(ranks.iter().filter(|&&rank| Some(rank) != left_out)) {
        match runs.last_mut() {
            Some(run) if run.rank + run.count == rank.0 => run.count += 1,
            _ => runs.push(Run {
                rank: rank.0,
                place,
                count: 1,
            }),
        }
    }
    runs
}

/// Blocks of `Node` that are used on any node: the root's own block is in none.
fn gathered_blocks(request: &Request<'_>) -> u32 {
    let topology = request.topology;
    let root_node = topology.node_of(request.root);
    let of_node = |node| {
        let all = topology.ranks_of(node).len() as u32;
        all - u32::from(node == root_node)
    };
    (0..topology.node_count())
        .map(NodeId)
        .map(of_node)
        .max()
        .unwrap_or(0)
}

/// Closed form of `smp_tree`: equation (1) over nodes.
pub fn work_tree(shape: &Shape, _: Protocol) -> Work {
    let rounds = ceil_log(shape.nodes, u32::from(shape.ports) + 1);
    work(shape, rounds, volume(shape.nodes, shape.ports))
}

/// Closed form of `smp_direct`: equation (2) over nodes.
pub fn work_direct(shape: &Shape, protocol: Protocol) -> Work {
    let rounds = direct::rounds(shape.nodes, shape.ports);
    let work = work(shape, rounds, rounds.into());
    match protocol {
        Protocol::Eager if shape.nodes > 1 => work,
        _ => Work {
            copy_blocks: shape.node_size.into(),
            ..work
        },
    }
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
