//! k-nomial reduce: partial results of neighbouring ranks combine on their way up a tree.
//!
//! Five ranks, root 3, one port; `a-b` is the reduction of those ranks:
//!
//! ```text
//! round 1   1>0: 1    2>3: 2      0 has 0-1, 3 has 2-3
//! round 2   0>3: 0-1              3 has 0-3
//! round 3   4>3: 4                3 has 0-4
//! ```
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages: N-1, whole vectors. Any size, any root, rank order always.
//! * Cost: ⌈log_{k+1} N⌉ (α + l β), and at most k reductions per round.

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::ceil_log;
use crate::pattern::rooted::Tree;
use crate::reduction::alone;
use crate::schedule::{Protocol, Schedule, Span};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let group = Group::ranks(request.topology);
    let tree = Tree::new(request.root.0, size, ports);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    let own = if request.rank == request.root {
        Span::recv(0, 1)
    } else {
        Span::scratch(0, 1)
    };
    let vector = (Span::send(0, 1), own);
    let arrival = |place| Span::scratch(1 + place, 1);
    let from = (None, arrival);
    up(&mut builder, (&group, me), &tree, ports, vector, from);
    builder.finish(1 + arrivals(size, ports))
}

/// Reduces members' vectors, or slices, at the root, into `own`; a round per level. What this member contributes lies
/// in `contribution`, which may be `own`. The message through `port` of `level` arrives at place `level * ports + port`
/// of `arrivals`, in the group's memory.
pub(crate) fn up(
    builder: &mut ScheduleBuilder<'_>,
    (group, me): (&Group<'_>, u32),
    tree: &Tree,
    ports: u8,
    (contribution, own): (Span, Span),
    (like, arrivals): (Option<u32>, impl Fn(u32) -> Span),
) {
    let mut vector = contribution;
    for level in 0..tree.levels() {
        let arrival = |port: u8| arrivals(level * u32::from(ports) + u32::from(port));
        for edge in tree.children(me, level) {
            let wire = Wire::of_round(level, ports, edge.port);
            builder.await_put(group.rank(edge.member), wire, own.count);
        }
        for edge in tree.children(me, level).filter(|edge| !edge.before) {
            builder.reduce_like(like, vector, arrival(edge.port), own);
            vector = own;
        }
        for edge in tree.children(me, level).rev().filter(|edge| edge.before) {
            builder.reduce_like(like, arrival(edge.port), vector, own);
            vector = own;
        }
        if let Some(edge) = tree.parent(me, level) {
            let wire = Wire::of_round(level, ports, edge.port);
            let (to, into) = (group.rank(edge.member), arrival(edge.port));
            match vector == own {
                true => builder.put(to, wire, own, into),
                false => builder.put_staged(to, wire, vector, own, into),
            }
        }
        builder.end_round();
    }
}

/// Blocks that arrivals take: k per level, those of the last as many as the root has children.
pub(crate) fn arrivals(size: u32, ports: u8) -> u32 {
    let levels = ceil_log(size, u32::from(ports) + 1);
    if levels == 0 {
        return 0;
    }
    let groups = size.div_ceil((u32::from(ports) + 1).pow(levels - 1));
    (levels - 1) * u32::from(ports) + groups - 1
}

/// Closed form.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    let levels = u64::from(ceil_log(shape.ranks, u32::from(shape.ports) + 1));
    Work {
        rounds: levels,
        port_blocks: levels,
        node_sharers: shape.node_size,
        ..Work::copies(arrivals(shape.ranks, shape.ports).max(1).into())
    }
}
