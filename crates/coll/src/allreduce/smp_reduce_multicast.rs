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
use crate::builder::ScheduleBuilder;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::ceil_log;
use crate::pattern::rooted::Tree;
use crate::reduce::knomial::{arrivals, up};
use crate::reduction::fold;
use crate::schedule::{Protocol, Schedule, Span};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (topology, ports) = (request.topology, request.ports);
    if topology.node_count() == 1 {
        return smp_recursive_multiplying::build(request);
    }
    let group = Group::nodes(topology);
    let node = group.member_of(request.rank);
    let locals = group.members(node, 1).count;
    let contributions = (0..locals).map(|local| Span::node(local, 1));
    let tree = Tree::new(0, group.size(), ports);
    let vector = Span::node(0, 1);
    let mut builder = ScheduleBuilder::new(topology, request.rank);
    builder.node_gather(topology.node_rank_of(request.rank).0);
    if group.speaks(request.rank) {
        builder.node_await_gather();
        fold(&mut builder, contributions, vector);
        builder.end_round();
        let first = topology.node_size_max();
        let arrival = |place| Span::node(first + place, 1);
        up(
            &mut builder,
            (&group, node),
            &tree,
            ports,
            (vector, vector),
            (None, arrival),
        );
        match node {
            0 => builder.multicast(vector),
            _ => builder.await_multicast(group.rank(0), vector),
        }
    } else {
        builder.end_rounds(1 + tree.levels());
    }
    builder.node_broadcast();
    builder.copy(vector, Span::recv(0, 1));
    builder.finish(topology.node_size_max() + arrivals(group.size(), ports))
}

/// Closed form.
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    if shape.nodes == 1 {
        return smp_recursive_multiplying::work(shape, protocol);
    }
    let levels = u64::from(ceil_log(shape.nodes, u32::from(shape.ports) + 1));
    let reductions = u64::from(shape.node_size - 1 + arrivals(shape.nodes, shape.ports));
    Work {
        rounds: levels + 1,
        port_blocks: levels + 1,
        node_syncs: shape.syncs(1),
        ..Work::copies(2 + reductions)
    }
}
