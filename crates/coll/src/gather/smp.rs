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

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::leaders::{Run, runs};
use crate::pattern::rooted::volume;
use crate::pattern::{direct, levels};
use crate::schedule::{Protocol, Schedule, Span};
use crate::tree::Branch;
use ferrorail_base::NodeId;

/// How what nodes have reaches the leader of the root's.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    Tree,
    /// The node at distance d from the root's puts to it in round ⌈d/k⌉.
    Direct,
}

impl Way {
    pub fn rounds(self, nodes: u32, ports: u8) -> u32 {
        match self {
            Self::Tree => levels(nodes, ports),
            Self::Direct => direct::rounds(nodes, ports),
        }
    }

    /// Nodes whose blocks pass the root's busiest port.
    pub fn volume(self, nodes: u32, ports: u8) -> u64 {
        match self {
            Self::Tree => volume(nodes, ports),
            Self::Direct => direct::rounds(nodes, ports).into(),
        }
    }

    /// Gathers members' blocks, in member order, at the root.
    pub fn gather(self, builder: &mut ScheduleBuilder<'_>, branch: &Branch<'_>, root: u32) {
        if let Self::Tree = self {
            return branch.gather(builder);
        }
        let Branch { group, tree, me } = *branch;
        for round in 0..direct::rounds(group.size(), tree.ports) {
            for exchange in direct::round(root, group.size(), tree.ports, round) {
                let wire = Wire::at_distance(exchange.distance, tree.ports);
                let blocks = group.members(exchange.to, 1);
                if me == root {
                    builder.await_put(group.rank(exchange.to), wire, blocks.count);
                } else if me == exchange.to {
                    builder.put(group.rank(root), wire, blocks, blocks);
                }
            }
            builder.end_round();
        }
    }
}

/// One rank's schedule of `smp_direct`.
pub fn build_direct(request: &Request<'_>) -> Schedule {
    match request.protocol {
        Protocol::Eager if request.topology.node_count() > 1 => build(request, Way::Direct),
        _ => into_final_buffer(request),
    }
}

/// One rank's schedule, through scratch.
pub fn build(request: &Request<'_>, way: Way) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let topology = request.topology;
    let group = Group::nodes(topology);
    let (node, root_node) = (group.member_of(request.rank), group.member_of(request.root));
    let is_root = request.rank == request.root;
    let mut builder = request.builder();
    builder.node_gather(group.place(request.rank));
    if is_root || (group.speaks(request.rank) && node != root_node) {
        builder.node_await_gather();
    }
    builder.end_round();
    if group.speaks(request.rank) {
        let branch = Branch::new(&group, root_node, node, request.ports);
        way.gather(&mut builder, &branch, root_node);
    } else {
        builder.end_rounds(way.rounds(group.size(), request.ports));
    }
    if node == root_node && group.size() > 1 {
        builder.node_hand_over(topology.node_rank_of(request.root));
    }
    if is_root {
        group.copy_members_out(&mut builder, 0, group.size());
    }
    builder.finish(group.blocks())
}

/// `smp_direct` under [`Protocol::Rendezvous`], and on one node, where there is nobody to announce a buffer to.
fn into_final_buffer(request: &Request<'_>) -> Schedule {
    let (topology, root) = (request.topology, request.root);
    let group = Group::nodes(topology);
    let mut builder = request.builder();
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
    let gathered = |run: &Run| Span::node(run.place, run.count);
    let at_root = |run: &Run| Span::recv(run.rank, run.count);
    if is_root {
        for run in runs(group.ranks_of(node).filter(|&rank| rank != root)) {
            builder.copy(gathered(&run), at_root(&run));
        }
    }
    builder.end_round();
    for round in 0..direct::rounds(group.size(), request.ports) {
        for exchange in direct::round(root_node, group.size(), request.ports, round) {
            let (from, port) = (exchange.to, exchange.port);
            for run in runs(group.ranks_of(from)) {
                let slot = run.rank;
                if is_root {
                    builder.await_put(group.rank(from), Wire { port, slot }, run.count);
                } else if sends && node == from {
                    if run.place == 0 {
                        builder.await_rtr(root, 0);
                    }
                    builder.put(root, Wire { port, slot }, gathered(&run), at_root(&run));
                }
            }
        }
        builder.end_round();
    }
    builder.finish(gathered_blocks(request))
}

/// Blocks of `Node` that are used on any node: the root's own block is in none.
fn gathered_blocks(request: &Request<'_>) -> u32 {
    let topology = request.topology;
    let root_node = topology.node_of(request.root);
    let of_node = |node| {
        let all = topology.ranks_of(node).len() as u32;
        all - u32::from(node == root_node)
    };
    let nodes = (0..topology.node_count()).map(NodeId);
    nodes.map(of_node).max().unwrap_or(0)
}

/// Closed form of `smp_direct`.
pub fn work_direct(shape: &Shape, protocol: Protocol) -> Work {
    let work = work(shape, Way::Direct);
    match protocol {
        Protocol::Eager if shape.nodes > 1 => work,
        _ => Work {
            copy_blocks: shape.node_size.into(),
            ..work
        },
    }
}

/// Closed form through scratch: equation (1) or (2) over nodes.
pub fn work(shape: &Shape, way: Way) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    Work {
        rounds: way.rounds(shape.nodes, shape.ports).into(),
        port_blocks: way.volume(shape.nodes, shape.ports) * u64::from(shape.node_size),
        node_syncs: shape.syncs(1),
        ..Work::copies(1 + u64::from(shape.ranks))
    }
}
