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

use super::{SEND, alone, copy_own, recv, work_of_copies};
use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::direct::{Exchange, place, round, rounds};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// What has arrived leaves scratch, or is released to the node, in this many portions at most.
const PORTIONS: u32 = 4;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    match request.protocol {
        Protocol::Eager if request.topology.node_count() == 1 => within_node(request),
        Protocol::Eager => through_scratch(request),
        Protocol::Rendezvous => zero_copy(request),
    }
}

/// Straight from user memory, which only rails need a copy of.
fn within_node(request: &Request<'_>) -> Schedule {
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    for r in 0..rounds(size, ports) {
        for Exchange { port, to, .. } in round(me, size, ports, r) {
            let wire = Wire::of_round(r, ports, port);
            builder.put(Rank(to), wire, SEND, Span::scratch(place(me, to), 1));
        }
        builder.end_round();
    }
    copy_own(&mut builder, request.rank);
    for (r, Exchange { port, from, .. }) in all(me, size, ports) {
        builder.await_put(Rank(from), Wire::of_round(r, ports, port), 1);
        builder.copy(Span::scratch(place(from, me), 1), recv(from, 1));
    }
    builder.finish(size - 1)
}

fn through_scratch(request: &Request<'_>) -> Schedule {
    let group = Group::ranks(request.topology);
    let (me, ports) = (request.rank.0, request.ports);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    builder.copy(SEND, group.members(me, 1));
    builder.end_round();
    post(&mut builder, &group, me, ports);
    group.copy_members_out(&mut builder, me, 1);
    for portion in portions(group.size(), ports) {
        await_portion(&mut builder, &group, me, ports, portion.clone());
        copy_portion_out(&mut builder, &group, me, ports, portion);
    }
    builder.finish(group.blocks())
}

fn zero_copy(request: &Request<'_>) -> Schedule {
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let group = Group::ranks(request.topology);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    for exchange in all(me, size, ports) {
        // The origin numbers its puts by distance.
        builder.send_rtr(group.rank(exchange.1.from), exchange.1.distance - 1);
    }
    copy_own(&mut builder, request.rank);
    builder.end_round();
    let own = recv(me, 1);
    for r in 0..rounds(size, ports) {
        for exchange in round(me, size, ports, r) {
            let to = group.rank(exchange.to);
            builder.await_rtr(to, exchange.distance - 1);
            builder.put(to, Wire::of_round(r, ports, exchange.port), own, own);
        }
        builder.end_round();
    }
    await_portion(&mut builder, &group, me, ports, 0..rounds(size, ports));
    builder.finish(0)
}

fn all(me: u32, size: u32, ports: u8) -> impl Iterator<Item = (u32, Exchange)> {
    (0..rounds(size, ports)).flat_map(move |r| round(me, size, ports, r).map(move |e| (r, e)))
}

/// Posts the puts of member `me`'s blocks to all others, a round each.
pub(super) fn post(builder: &mut ScheduleBuilder<'_>, group: &Group<'_>, me: u32, ports: u8) {
    let own = group.share(me);
    for r in 0..rounds(group.size(), ports) {
        for exchange in round(me, group.size(), ports, r) {
            let wire = Wire::of_round(r, ports, exchange.port);
            builder.put(group.rank(exchange.to), wire, own, own);
        }
        builder.end_round();
    }
}

/// The rounds, in runs of which each is awaited and copied out at once.
pub(super) fn portions(size: u32, ports: u8) -> impl Iterator<Item = std::ops::Range<u32>> {
    let rounds = rounds(size, ports);
    let length = rounds.div_ceil(PORTIONS).max(1);
    (0..rounds)
        .step_by(length as usize)
        .map(move |first| first..(first + length).min(rounds))
}

/// Awaits what arrives in `portion`.
pub(super) fn await_portion(
    builder: &mut ScheduleBuilder<'_>,
    group: &Group<'_>,
    me: u32,
    ports: u8,
    portion: std::ops::Range<u32>,
) {
    for r in portion {
        for exchange in round(me, group.size(), ports, r) {
            let wire = Wire::of_round(r, ports, exchange.port);
            let blocks = group.share(exchange.from).count;
            builder.await_put(group.rank(exchange.from), wire, blocks);
        }
    }
}

/// Copies what arrived in `portion` to `Recv`.
pub(super) fn copy_portion_out(
    builder: &mut ScheduleBuilder<'_>,
    group: &Group<'_>,
    me: u32,
    ports: u8,
    portion: std::ops::Range<u32>,
) {
    let nearest = portion.start * u32::from(ports) + 1;
    let farthest = (portion.end * u32::from(ports)).min(group.size() - 1);
    let first = crate::pattern::before(me, farthest, group.size());
    group.copy_members_out(builder, first, farthest - nearest + 1);
}

/// Portions that a team or group of `size` has.
pub(super) fn portion_count(size: u32, ports: u8) -> u64 {
    let rounds = rounds(size, ports);
    u64::from(rounds.div_ceil(rounds.div_ceil(PORTIONS).max(1)))
}

/// Closed form: equation (2).
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let rounds = u64::from(rounds(shape.ranks, shape.ports));
    Work {
        rounds,
        port_blocks: rounds,
        node_sharers: shape.node_size,
        ..match (protocol, shape.nodes) {
            (Protocol::Eager, 1) => Work::copies(shape.ranks.into()),
            _ => work_of_copies(shape, protocol),
        }
    }
}
