//! All-reduce of which the second half is a multicast: leaders reduce their nodes' vectors, a tree combines
//! those of the nodes at the first leader, which multicasts the result.
//!
//! Five ranks on nodes (0 1) (2 3) (4), one port: 0 reduces 0-1, 2 reduces 2-3; round 1 `2>0: 2-3`, round 2
//! `4>0: 4`; round 3: 0 multicasts to 2 and 4; leaders release their nodes, all copy out.
//!
//! * Rounds: ⌈log_{k+1} V⌉ + 1. Messages: V-1 up, whole vectors, and one down.
//! * Cost: (⌈log_{k+1} V⌉ + 1) (α + l β). One leader brackets all, so results have the same bits.
//! * One node: as `smp_recursive_multiplying`.
//! * Combines in rank order where the ranks of every node are consecutive.
//!
//! Source: Yu et al. 2005, section 1: broadcast as a part of all-reduce.

use super::smp_recursive_multiplying;
use crate::algorithm::Request;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::leaders::Leaders;
use crate::pattern::levels;
use crate::reduce::knomial::arrivals;
use crate::reduce::smp_knomial::reduce_nodes;
use crate::schedule::{Protocol, Schedule, Span};
use crate::tree::Branch;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if request.topology.node_count() == 1 {
        return smp_recursive_multiplying::build(request);
    }
    let group = Group::nodes(request.topology);
    let branch = Branch::new(&group, 0, group.member_of(request.rank), request.ports);
    let vector = Span::node(0, 1);
    let mut builder = request.builder();
    let vectors = reduce_nodes(
        &mut builder,
        request,
        &branch,
        Leaders::one(request.ports),
        1,
    );
    if group.speaks(request.rank) {
        match branch.me {
            0 => builder.multicast(vector),
            _ => builder.await_multicast(group.rank(0), vector),
        }
    }
    builder.node_broadcast();
    builder.copy(vector, Span::recv(0, 1));
    builder.finish(vectors)
}

/// Closed form.
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    if shape.nodes == 1 {
        return smp_recursive_multiplying::work(shape, protocol);
    }
    let levels = u64::from(levels(shape.nodes, shape.ports));
    let reductions = u64::from(shape.node_size - 1 + arrivals(shape.nodes, shape.ports));
    Work {
        rounds: levels + 1,
        port_blocks: levels + 1,
        node_syncs: shape.syncs(1),
        ..Work::copies(2 + reductions)
    }
}
