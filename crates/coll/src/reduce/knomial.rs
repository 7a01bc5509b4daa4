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
use crate::pattern::levels;
use crate::pattern::rooted::Edge;
use crate::schedule::{Protocol, Schedule, Span};
use crate::tree::Branch;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let group = Group::ranks(request.topology);
    let branch = Branch::new(&group, request.root.0, request.rank.0, request.ports);
    let mut builder = request.builder();
    let own = if request.rank == request.root {
        Span::recv(0, 1)
    } else {
        Span::scratch(0, 1)
    };
    let arrival = |place| Span::scratch(1 + place, 1);
    up(
        &mut builder,
        &branch,
        (Span::send(0, 1), own),
        None,
        arrival,
    );
    builder.finish(1 + arrivals(group.size(), request.ports))
}

/// Reduces members' vectors, or slices, at the root, into `own`; a round per level. What this member contributes lies
/// in `contribution`, which may be `own`. The message through `port` of `level` arrives at place `level * ports + port`
/// of `arrivals`, in the group's memory.
pub(crate) fn up(
    builder: &mut ScheduleBuilder<'_>,
    Branch { group, tree, me }: &Branch<'_>,
    (contribution, own): (Span, Span),
    like: Option<u32>,
    arrivals: impl Fn(u32) -> Span,
) {
    let mut vector = contribution;
    for level in 0..tree.levels() {
        let wire = |edge: &Edge| Wire::of_round(level, tree.ports, edge.port);
        let arrival = |edge: &Edge| arrivals(wire(edge).slot);
        for edge in tree.children(*me, level) {
            builder.await_put(group.rank(edge.member), wire(&edge), own.count);
        }
        for edge in tree.children(*me, level).filter(|edge| !edge.before) {
            builder.reduce_like(like, vector, arrival(&edge), own);
            vector = own;
        }
        for edge in tree.children(*me, level).rev().filter(|edge| edge.before) {
            builder.reduce_like(like, arrival(&edge), vector, own);
            vector = own;
        }
        if let Some(edge) = tree.parent(*me, level) {
            let (to, into) = (group.rank(edge.member), arrival(&edge));
            match vector == own {
                true => builder.put_total(to, wire(&edge), own, into),
                false => builder.put_staged(to, wire(&edge), vector, own, into),
            }
        }
        builder.end_round();
    }
}

/// Blocks that arrivals take: k per level, those of the last as many as the root has children.
pub(crate) fn arrivals(size: u32, ports: u8) -> u32 {
    let levels = levels(size, ports);
    if levels == 0 {
        return 0;
    }
    let groups = size.div_ceil((u32::from(ports) + 1).pow(levels - 1));
    (levels - 1) * u32::from(ports) + groups - 1
}

/// Closed form.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    let levels = u64::from(levels(shape.ranks, shape.ports));
    Work {
        rounds: levels,
        port_blocks: levels,
        ..Work::flat(shape, arrivals(shape.ranks, shape.ports).max(1).into())
    }
}
