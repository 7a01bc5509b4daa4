//! Tree scatter: the tree gather the other way round; each level splits the blocks k+1 ways.
//!
//! Five ranks, root 3, one port; `p>q: blocks`:
//!
//! ```text
//! round 1   3>4: 4
//! round 2   3>0: 0 1
//! round 3   0>1: 1        3>2: 2
//! ```
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages: N-1. Volume per port as in the tree gather, equation (1).

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::pattern::ceil_log;
use crate::pattern::rooted::{Tree, volume};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (size, me, root) = (request.topology.size(), request.rank.0, request.root.0);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    if me == root {
        for (first, count) in [(0, root), (root + 1, size - root - 1)] {
            builder.copy(Span::send(first, count), Span::scratch(first, count));
        }
    }
    builder.end_round();
    down(&mut builder, &Tree::new(root, size, request.ports), me);
    if me == root {
        builder.copy(Span::send(root, 1), Span::recv(0, 1));
    } else {
        builder.copy(Span::scratch(me, 1), Span::recv(0, 1));
    }
    builder.finish(if root + 1 == size { size - 1 } else { size })
}

/// The blocks of a subtree go down to its holder, in absolute places; a round per level, slot 0.
pub(crate) fn down(builder: &mut ScheduleBuilder<'_>, tree: &Tree, me: u32) {
    for level in (0..tree.levels()).rev() {
        if let Some(edge) = tree.parent(me, level) {
            let (port, slot) = (edge.port, 0);
            builder.await_put(Rank(edge.member), Wire { port, slot }, edge.count);
        }
        for edge in tree.children(me, level) {
            let (port, slot) = (edge.port, 0);
            let span = Span::scratch(edge.first, edge.count);
            builder.put(Rank(edge.member), Wire { port, slot }, span, span);
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
