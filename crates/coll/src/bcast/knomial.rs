//! k-nomial broadcast: whoever has the message puts it to k others in each round.
//!
//! Five ranks, root 3, one port:
//!
//! ```text
//! round 1   3>4
//! round 2   3>0
//! round 3   3>2  0>1
//! ```
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages: N-1; per rank at most k per round. Any size, any root.
//! * Volume per port: ⌈log_{k+1} N⌉ messages. Cost: ⌈log_{k+1} N⌉ (α + l β).
//! * Zero-copy: one RTR per rank, to its parent.

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::ceil_log;
use crate::pattern::rooted::Tree;
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (size, me) = (request.topology.size(), request.rank.0);
    let tree = Tree::new(request.root.0, size, request.ports);
    let group = Group::ranks(request.topology);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    if size == 1 {
        return builder.finish(0);
    }
    match request.protocol {
        Protocol::Eager => {
            if request.rank == request.root {
                builder.copy(Span::recv(0, 1), Span::scratch(0, 1));
            }
            builder.end_round();
            down(&mut builder, &group, &tree, me, Span::scratch(0, 1), |_| {});
            if request.rank != request.root {
                builder.copy(Span::scratch(0, 1), Span::recv(0, 1));
            }
            builder.finish(1)
        }
        Protocol::Rendezvous => {
            zero_copy(&mut builder, &tree, me, request.ports);
            builder.finish(0)
        }
    }
}

/// Sends `span` down the tree, a round per level. Calls `received` at each member but the root as
/// soon as it has it. Uses slot 0.
pub(crate) fn down<'a>(
    builder: &mut ScheduleBuilder<'a>,
    group: &Group<'_>,
    tree: &Tree,
    me: u32,
    span: Span,
    received: impl Fn(&mut ScheduleBuilder<'a>),
) {
    for level in (0..tree.levels()).rev() {
        if let Some(edge) = tree.parent(me, level) {
            let (port, slot) = (edge.port, 0);
            builder.await_put(group.rank(edge.member), Wire { port, slot }, span.count);
            received(builder);
        }
        for edge in tree.children(me, level) {
            let (port, slot) = (edge.port, 0);
            builder.put(group.rank(edge.member), Wire { port, slot }, span, span);
        }
        builder.end_round();
    }
}

/// Permissions are numbered by level and port.
fn zero_copy(builder: &mut ScheduleBuilder<'_>, tree: &Tree, me: u32, ports: u8) {
    let number = |level: u32, port: u8| level * u32::from(ports) + u32::from(port);
    let message = Span::recv(0, 1);
    let height = tree.height(me);
    if let Some(edge) = tree.parent(me, height) {
        builder.send_rtr(Rank(edge.member), number(height, edge.port));
    }
    builder.end_round();
    for level in (0..tree.levels()).rev() {
        if let Some(edge) = tree.parent(me, level) {
            let (port, slot) = (edge.port, 0);
            builder.await_put(Rank(edge.member), Wire { port, slot }, 1);
        }
        for edge in tree.children(me, level) {
            let (port, slot) = (edge.port, 0);
            builder.await_rtr(Rank(edge.member), number(level, port));
            builder.put(Rank(edge.member), Wire { port, slot }, message, message);
        }
        builder.end_round();
    }
}

/// Closed form.
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let levels = u64::from(ceil_log(shape.ranks, u32::from(shape.ports) + 1));
    Work {
        rounds: levels,
        port_blocks: levels,
        node_sharers: shape.node_size,
        ..Work::copies(u64::from(shape.ranks > 1 && protocol == Protocol::Eager))
    }
}
