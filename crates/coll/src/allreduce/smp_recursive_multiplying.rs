//! SMP-aware all-reduce: leaders reduce their nodes' vectors, exchange, and release the result.
//!
//! Five ranks on nodes (0 1) (2 3) (4), one port: 0 reduces 0-1, 2 reduces 2-3; correction `4>2`,
//! step `0<>2: 0-1 | 2-4`, correction `2>4: 0-4`; 0 and 2 release 1 and 3; everyone copies out.
//!
//! * Rounds, messages and volume: those of `recursive_multiplying` over V nodes.
//! * One node: everyone copies in, waits for all and reduces all vectors for itself; one wait.
//! * Combines in rank order where the ranks of every node are consecutive.

use super::recursive_multiplying::Exchange;
use crate::algorithm::Request;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::node_tree::NodeTree;
use crate::pattern::exchange::Pattern;
use crate::reduction::{Slice, fold};
use crate::schedule::{Buffer, Protocol, Schedule, Span};
use ferrorail_base::NodeRank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let topology = request.topology;
    let mut builder = request.builder();
    builder.node_gather(topology.node_rank_of(request.rank).0);
    if topology.node_count() == 1 {
        builder.node_await_gather();
        let contributions = (0..topology.size()).map(|rank| Span::node(rank, 1));
        fold(&mut builder, contributions, Span::recv(0, 1));
        return builder.finish(topology.size());
    }
    let (group, vector) = (Group::nodes(topology), Slice::whole(Buffer::Node));
    let exchange = Exchange::new(&group, request.ports, vector, topology.node_size_max());
    let result = Span::node(exchange.end(), 1);
    let tree = NodeTree::of(request);
    tree.gather(&mut builder, |builder, ranks| {
        vector.reduce_of(builder, ranks);
    });
    builder.end_round();
    if group.speaks(request.rank) {
        let reduced = exchange.run(&mut builder, group.member_of(request.rank));
        builder.copy(reduced, result);
    } else {
        builder.end_rounds(exchange.pattern.rounds());
    }
    // Contributions have been combined.
    let place = |index| vector.vector(index);
    let result = tree.pass_on(&mut builder, NodeRank(0), result, place);
    builder.copy(result, Span::recv(0, 1));
    builder.finish(exchange.end() + 1)
}

/// Closed form.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let locals = u64::from(shape.node_size);
    if shape.nodes == 1 {
        return Work {
            node_syncs: 1,
            ..Work::copies(locals)
        };
    }
    let pattern = Pattern::new(shape.nodes, shape.ports);
    Work {
        rounds: pattern.rounds().into(),
        port_blocks: pattern.rounds().into(),
        node_syncs: shape.syncs(1),
        ..Work::copies(1 + (locals - 1) + u64::from(pattern.arrivals()) + 2)
    }
}
