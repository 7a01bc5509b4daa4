//! Direct all-gather: everyone puts its block to everyone else, k at a time, in wrap-around order.
//!
//! Five ranks, one port; `p>q` is rank p's block put to rank q:
//!
//! ```text
//! round 1   0>1  1>2  2>3  3>4  4>0
//! round 2   0>2  1>3  2>4  3>0  4>1
//! round 3   0>3  1>4  2>0  3>1  4>2
//! round 4   0>4  1>0  2>1  3>2  4>3
//! ```
//!
//! With two ports rounds 1 and 2 are one, 3 and 4 another. A rank posts all its rounds and awaits
//! afterwards: rounds order the injection, they do not synchronise.
//!
//! * Rounds: ⌈(N-1)/k⌉. Messages per rank: N-1. Volume per port: ⌈(N-1)/k⌉ blocks.
//! * Cost: ⌈(N-1)/k⌉ (α + l β), equation (2).
//! * Zero-copy: N-1 RTRs per rank; sources and destinations are `Recv`.
//! * Any number of ranks. Most messages of all algorithms, fewest bytes per message: for large
//!   blocks.
//!
//! `smp_direct` and `multi_leader_direct`: Direct between the leaders, shared memory inside the nodes; with one leader
//! per node, or several, each of which carries the blocks of its share of the node's ranks over its own rail.
//!
//! Five ranks on nodes (0 1) (2 3) (4), one port; leaders 0, 2, 4:
//!
//! ```text
//! gather      all copy into their node's memory      0 1 . . .   . . 2 3 .   . . . . 4
//! round 1     leaders put their node's blocks        0>2: 0 1    2>4: 2 3    4>0: 4
//!   meanwhile all copy their own node's blocks out
//! round 2                                            0>4: 0 1    2>0: 2 3    4>2: 4
//! broadcast   leaders release what has come, in up to four portions; all copy it out
//! ```
//!
//! * Rounds: ⌈(V-1)/k⌉. Messages per leader: V-1. Volume per port: q ⌈(V-1)/k⌉ blocks.
//! * Cost: ⌈(V-1)/k⌉ (α + q l β), equation (2) over nodes, and two copies in shared memory, of
//!   which the second overlaps.
//! * Of L leaders with k/L ports ([`Leaders`]) each takes ⌈(V-1)L/k⌉ rounds with blocks of ⌈q/L⌉
//!   ranks: in `multi_leader_direct` above 0 puts its own block to 2, 1 its own to 3, and so on.
//! * One node: copy in, one wait for all, copy out.
//! * Any node sizes, any placement of ranks; node memory is in node order, copies out permute.

use super::{single_member, work_of_copies, work_of_single_node};
use crate::algorithm::Request;
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::leaders::Leaders;
use crate::pattern::before;
use crate::pattern::direct::{all, place, round, rounds};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;
use std::ops::Range;

/// What has arrived leaves scratch, or is released to the node, in this many portions at most.
const PORTIONS: u32 = 4;

/// One rank's schedule of `direct`.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    match request.protocol {
        Protocol::Eager if request.topology.node_count() == 1 => within_node(request),
        Protocol::Eager => {
            let group = Group::ranks(request.topology);
            through_scratch(request, &group, request.ports)
        }
        Protocol::Rendezvous => zero_copy(request),
    }
}

/// One rank's schedule of `smp_direct` or `multi_leader_direct`.
pub fn build_led(request: &Request<'_>, leaders: Leaders) -> Schedule {
    let group = Group::led(request.topology, leaders, request.rank);
    through_scratch(request, &group, leaders.ports)
}

/// Straight from user memory, which only rails need a copy of.
fn within_node(request: &Request<'_>) -> Schedule {
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let wire = |distance| Wire::at_distance(distance, ports);
    let own = Span::send(0, 1);
    let mut builder = request.builder();
    for r in 0..rounds(size, ports) {
        for exchange in round(me, size, ports, r) {
            let into = Span::scratch(place(me, exchange.to), 1);
            builder.put(Rank(exchange.to), wire(exchange.distance), own, into);
        }
        builder.end_round();
    }
    builder.copy(own, Span::recv(me, 1));
    for exchange in all(me, size, ports) {
        let from = exchange.from;
        builder.await_put(Rank(from), wire(exchange.distance), 1);
        builder.copy(Span::scratch(place(from, me), 1), Span::recv(from, 1));
    }
    builder.finish(size - 1)
}

/// Among the members of a group.
fn through_scratch(request: &Request<'_>, group: &Group<'_>, ports: u8) -> Schedule {
    if let Some(schedule) = single_member(request, group) {
        return schedule;
    }
    let (me, size) = (group.member_of(request.rank), group.size());
    let leads = group.speaks(request.rank);
    let wire = |distance| Wire::at_distance(distance, ports);
    let mut builder = request.builder();
    group.gather(&mut builder, group.place(request.rank));
    group.await_gather(&mut builder);
    builder.end_round();
    if leads {
        group.take_ports(&mut builder);
    }
    let own = group.share(me);
    for r in 0..rounds(size, ports) {
        if leads {
            for exchange in round(me, size, ports, r) {
                builder.put(group.rank(exchange.to), wire(exchange.distance), own, own);
            }
        }
        builder.end_round();
    }
    group.copy_members_out(&mut builder, me, 1);
    for portion in portions(size, ports) {
        let nearest = portion.start * u32::from(ports) + 1;
        let farthest = (portion.end * u32::from(ports)).min(size - 1);
        let arrivals = portion.flat_map(|r| round(me, size, ports, r));
        if leads {
            for exchange in arrivals {
                let (from, blocks) = (exchange.from, group.share(exchange.from).count);
                builder.await_put(group.rank(from), wire(exchange.distance), blocks);
            }
        }
        group.release(&mut builder);
        let first = before(me, farthest, size);
        group.copy_members_out(&mut builder, first, farthest - nearest + 1);
    }
    builder.finish(group.blocks())
}

fn zero_copy(request: &Request<'_>) -> Schedule {
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let wire = |distance| Wire::at_distance(distance, ports);
    let mut builder = request.builder();
    for exchange in all(me, size, ports) {
        // The origin numbers its puts by distance.
        builder.send_rtr(Rank(exchange.from), exchange.distance - 1);
    }
    let own = Span::recv(me, 1);
    builder.copy(Span::send(0, 1), own);
    builder.end_round();
    for r in 0..rounds(size, ports) {
        for exchange in round(me, size, ports, r) {
            let to = Rank(exchange.to);
            builder.await_rtr(to, exchange.distance - 1);
            builder.put(to, wire(exchange.distance), own, own);
        }
        builder.end_round();
    }
    for exchange in all(me, size, ports) {
        builder.await_put(Rank(exchange.from), wire(exchange.distance), 1);
    }
    builder.finish(0)
}

/// The rounds, in runs of which each is awaited and copied out at once.
fn portions(size: u32, ports: u8) -> impl ExactSizeIterator<Item = Range<u32>> {
    let rounds = rounds(size, ports);
    let length = rounds.div_ceil(PORTIONS).max(1);
    (0..rounds)
        .step_by(length as usize)
        .map(move |first| first..(first + length).min(rounds))
}

/// Closed form of `direct`: equation (2).
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let rounds = u64::from(rounds(shape.ranks, shape.ports));
    Work {
        rounds,
        port_blocks: rounds,
        ..match (protocol, shape.nodes) {
            (Protocol::Eager, 1) => Work::flat(shape, shape.ranks.into()),
            _ => work_of_copies(shape, protocol),
        }
    }
}

/// Closed form of `smp_direct` and `multi_leader_direct`: equation (2) over nodes.
pub fn work_led(shape: &Shape, leaders: Leaders) -> Work {
    work_of_single_node(shape).unwrap_or_else(|| {
        let rounds = u64::from(rounds(shape.nodes, leaders.ports));
        let releases = portions(shape.nodes, leaders.ports).len() as u64;
        let waits = leaders.release_syncs(shape.node_size);
        Work {
            rounds,
            port_blocks: rounds * u64::from(leaders.share_max(shape.node_size)),
            node_syncs: shape.syncs(1 + releases * waits),
            ..Work::led(leaders, 1 + u64::from(shape.ranks))
        }
    })
}
