//! Bruck all-gather: everyone's blocks multiply by k+1 in each round, for any number of ranks.
//!
//! Five ranks, one port. Scratch of rank p is in relative order: place j holds block p+j.
//!
//! ```text
//! rank       0          1          2          3          4
//! start      0          1          2          3          4
//! round 1    0 1        1 2        2 3        3 4        4 0        puts 1 block to p-1
//! round 2    0 1 2 3    1 2 3 4    2 3 4 0    3 4 0 1    4 0 1 2    puts 2 blocks to p-2
//! round 3    0 1 2 3 4  1 2 3 4 0  2 3 4 0 1  3 4 0 1 2  4 0 1 2 3  puts 1 block to p-4
//! ```
//!
//! What a round brought is copied to its right place in `Recv` while the puts of the next one are
//! under way; there is no shift at the end.
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages per rank: at most k per round.
//! * Volume per port: ⌈(N-1)/k⌉ blocks, as the last round is divided evenly among the ports.
//! * Cost: ⌈log_{k+1} N⌉ α + (N-1)/k l β, equation (1).
//! * Zero-copy: blocks go to absolute positions, so that a message that wraps around the end is
//!   two puts on one port; one RTR per message.
//!
//! `smp_bruck`: Bruck between the leaders, shared memory inside the nodes.
//!
//! Five ranks on nodes A (0 1), B (2 3), C (4), one port. A node's memory is in relative node
//! order: its own blocks, those of the next node and so on.
//!
//! ```text
//! node        A            B            C
//! gather      0 1          2 3          4
//! round 1     0 1 2 3      2 3 4        4 0 1         leaders put own node's blocks to node - 1
//!   meanwhile all copy their own node's blocks out, to their right places
//! round 2     0 1 2 3 4    2 3 4 0 1    4 0 1 2 3     leaders put own node's blocks to node - 2
//!   meanwhile all copy out what round 1 brought; after it, the rest
//! ```
//!
//! The copies out order the blocks, so there is no shift.
//!
//! * Rounds: ⌈log_{k+1} V⌉. Messages per leader: at most k per round.
//! * Volume per port: q ⌈(V-1)/k⌉ blocks.
//! * Cost: ⌈log_{k+1} V⌉ α + q (V-1)/k l β, equation (1) over nodes, and two copies in shared
//!   memory, of which the second overlaps.
//! * One node: copy in, one wait for all, copy out.
//! * Any node sizes: lengths follow from the node map, which all ranks know.

use super::absolute::{self, Blocks, zero_copy};
use super::{single_member, work_of_copies, work_of_single_node};
use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::bruck::rounds;
use crate::pattern::{Message, after, before, levels};
use crate::schedule::{Protocol, Schedule};

/// One rank's schedule of `bruck`.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    match request.protocol {
        Protocol::Eager => through_scratch(request, &Group::ranks(request.topology)),
        Protocol::Rendezvous => {
            let rounds = absolute(request);
            zero_copy(request, &rounds, |number, second| {
                2 * number + u32::from(second)
            })
        }
    }
}

/// One rank's schedule of `smp_bruck`.
pub fn build_smp(request: &Request<'_>) -> Schedule {
    through_scratch(request, &Group::nodes(request.topology))
}

/// Among the members of a group, whose memory is in relative order: the own blocks come first.
fn through_scratch(request: &Request<'_>, group: &Group<'_>) -> Schedule {
    if let Some(schedule) = single_member(request, group) {
        return schedule;
    }
    let (me, size) = (group.member_of(request.rank), group.size());
    let leads = group.speaks(request.rank);
    let mut builder = request.builder();
    group.gather(&mut builder, group.place(request.rank) - group.first(me));
    group.await_gather(&mut builder);
    builder.end_round();
    let copy_out = |builder: &mut ScheduleBuilder<'_>, from, to| {
        let (first, at) = (after(me, from, size), group.blocks_from(me, from));
        group.copy_out(builder, first, to - from, at);
    };
    let (mut held, mut copied) = (1, 0);
    for (round, messages) in (0..).zip(rounds(size, request.ports)) {
        let wire = |message: &Message| Wire::of_round(round, request.ports, message.port);
        if leads {
            for message in &messages {
                let to = before(me, message.distance, size);
                let length = group.blocks_from(me, message.blocks);
                let place = group.blocks_from(to, message.distance);
                let (from, into) = (group.span(0, length), group.span(place, length));
                builder.put(group.rank(to), wire(message), from, into);
            }
        }
        copy_out(&mut builder, copied, held);
        if leads {
            for message in &messages {
                let from = after(me, message.distance, size);
                let length = group.blocks_from(from, message.blocks);
                builder.await_put(group.rank(from), wire(message), length);
            }
        }
        group.release(&mut builder);
        builder.end_round();
        copied = held;
        held += messages.iter().map(|message| message.blocks).sum::<u32>();
    }
    copy_out(&mut builder, copied, held);
    builder.finish(group.blocks())
}

/// The messages of all rounds, in absolute positions.
fn absolute(request: &Request<'_>) -> Vec<Vec<absolute::Message>> {
    let (size, me) = (request.topology.size(), request.rank.0);
    let message = |message: Message| {
        let (count, from) = (message.blocks, after(me, message.distance, size));
        absolute::Message {
            port: message.port,
            to: before(me, message.distance, size),
            from,
            sent: Blocks { first: me, count },
            received: Blocks { first: from, count },
        }
    };
    let rounds = rounds(size, request.ports).into_iter();
    let round = |messages: Vec<Message>| messages.into_iter().map(message).collect();
    rounds.map(round).collect()
}

/// Closed form of `bruck`: equation (1).
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    Work {
        rounds: levels(shape.ranks, shape.ports).into(),
        port_blocks: (shape.ranks - 1).div_ceil(shape.ports.into()).into(),
        ..work_of_copies(shape, protocol)
    }
}

/// Closed form of `smp_bruck`: equation (1) over nodes.
pub fn work_smp(shape: &Shape, _: Protocol) -> Work {
    work_of_single_node(shape).unwrap_or_else(|| {
        let rounds = u64::from(levels(shape.nodes, shape.ports));
        let nodes_per_port = (shape.nodes - 1).div_ceil(shape.ports.into());
        Work {
            rounds,
            port_blocks: u64::from(nodes_per_port) * u64::from(shape.node_size),
            node_syncs: shape.syncs(1 + rounds),
            ..Work::copies(1 + u64::from(shape.ranks))
        }
    })
}
