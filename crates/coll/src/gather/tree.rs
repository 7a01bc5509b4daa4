//! Tree gather: the k-port spanning binomial tree, messages k+1 times as long at each level.
//!
//! Five ranks, root 3, one port; `p>q: blocks`:
//!
//! ```text
//! round 1   1>0: 1        2>3: 2
//! round 2   0>3: 0 1
//! round 3   4>3: 4
//! ```
//!
//! Subtrees are runs of consecutive ranks whatever the root is, so no block is moved twice.
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages: N-1; at most k received per rank and round.
//! * Volume per port: with N a power of k+1, (N-1)/k for every root: equation (1),
//!   ⌈log_{k+1} N⌉ α + (N-1)/k l β. Else Σ min((k+1)^i, N - (k+1)^i) for root 0, and at most
//!   Σ (k+1)^i for others.

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::ceil_log;
use crate::pattern::rooted::{Tree, volume};
use crate::schedule::{Protocol, Schedule, Span};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (size, me, root) = (request.topology.size(), request.rank.0, request.root.0);
    let group = Group::ranks(request.topology);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    if size == 1 {
        builder.copy(Span::send(0, 1), Span::recv(0, 1));
        return builder.finish(0);
    }
    if me != root {
        builder.copy(Span::send(0, 1), Span::scratch(me, 1));
    }
    builder.end_round();
    if me == root {
        builder.copy(Span::send(0, 1), Span::recv(me, 1));
    }
    let tree = Tree::new(root, size, request.ports);
    up(&mut builder, &group, &tree, me, request.ports);
    if me == root {
        copy_others_out(&mut builder, root, size);
    }
    // With two ranks and root 1 the last block of scratch stays unused.
    builder.finish(if root + 1 == size { size - 1 } else { size })
}

/// Copies all blocks but the root's from scratch to `Recv`.
pub(super) fn copy_others_out(builder: &mut ScheduleBuilder<'_>, root: u32, size: u32) {
    for (first, count) in [(0, root), (root + 1, size - root - 1)] {
        builder.copy(Span::scratch(first, count), Span::recv(first, count));
    }
}

/// Gathers members' blocks, in member order, at the root; a round per level, from round 0.
pub(super) fn up(
    builder: &mut ScheduleBuilder<'_>,
    group: &Group<'_>,
    tree: &Tree,
    me: u32,
    ports: u8,
) {
    for level in 0..tree.levels() {
        for edge in tree.children(me, level) {
            let wire = Wire::of_round(level, ports, edge.port);
            let blocks = group.members(edge.first, edge.count).count;
            builder.await_put(group.rank(edge.member), wire, blocks);
        }
        if let Some(edge) = tree.parent(me, level) {
            let wire = Wire::of_round(level, ports, edge.port);
            let span = group.members(edge.first, edge.count);
            builder.put(group.rank(edge.member), wire, span, span);
        }
        builder.end_round();
    }
}

/// Closed form: equation (1).
pub fn work(shape: &Shape, _: Protocol) -> Work {
    Work {
        rounds: u64::from(ceil_log(shape.ranks, u32::from(shape.ports) + 1)),
        port_blocks: volume(shape.ranks, shape.ports),
        node_sharers: shape.node_size,
        ..Work::copies(u64::from(shape.ranks))
    }
}
