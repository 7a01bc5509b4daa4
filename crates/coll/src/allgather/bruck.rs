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

use super::{SEND, alone, copy_own, recv, work_of_copies};
use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::bruck::{Message, rounds};
use crate::pattern::{after, before, ceil_log};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    match request.protocol {
        Protocol::Eager => through_scratch(request),
        Protocol::Rendezvous => zero_copy(request),
    }
}

fn through_scratch(request: &Request<'_>) -> Schedule {
    let group = Group::ranks(request.topology);
    let me = request.rank.0;
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    builder.copy(SEND, group.span(0, 1));
    builder.end_round();
    let mut held = 1;
    let mut copied = 0;
    for (r, messages) in rounds(group.size(), request.ports).iter().enumerate() {
        let sent = Round::new(&group, me, request.ports, r as u32, messages);
        sent.post(&mut builder);
        group.copy_out(
            &mut builder,
            after(me, copied, group.size()),
            held - copied,
            copied,
        );
        sent.await_all(&mut builder);
        builder.end_round();
        copied = held;
        held += sent.gained();
    }
    group.copy_out(
        &mut builder,
        after(me, copied, group.size()),
        held - copied,
        copied,
    );
    builder.finish(group.blocks())
}

/// One round of one member of a group whose memory is in relative order.
pub(super) struct Round<'a> {
    group: &'a Group<'a>,
    me: u32,
    ports: u8,
    round: u32,
    messages: &'a [Message],
}

impl<'a> Round<'a> {
    pub(super) fn new(
        group: &'a Group<'a>,
        me: u32,
        ports: u8,
        round: u32,
        messages: &'a [Message],
    ) -> Self {
        Self {
            group,
            me,
            ports,
            round,
            messages,
        }
    }

    /// Members whose blocks the round brings.
    pub(super) fn gained(&self) -> u32 {
        self.messages.iter().map(|message| message.places).sum()
    }

    pub(super) fn post(&self, builder: &mut ScheduleBuilder<'_>) {
        for message in self.messages {
            let to = before(self.me, message.distance, self.group.size());
            let length = self.group.blocks_from(self.me, message.places);
            let place = self.group.blocks_from(to, message.distance);
            builder.put(
                self.group.rank(to),
                Wire::of_round(self.round, self.ports, message.port),
                self.group.span(0, length),
                self.group.span(place, length),
            );
        }
    }

    pub(super) fn await_all(&self, builder: &mut ScheduleBuilder<'_>) {
        for message in self.messages {
            let from = after(self.me, message.distance, self.group.size());
            let wire = Wire::of_round(self.round, self.ports, message.port);
            let length = self.group.blocks_from(from, message.places);
            builder.await_put(self.group.rank(from), wire, length);
        }
    }
}

fn zero_copy(request: &Request<'_>) -> Schedule {
    let (size, me) = (request.topology.size(), request.rank.0);
    let rounds = rounds(size, request.ports);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    for (number, message) in rounds.iter().flatten().enumerate() {
        builder.send_rtr(Rank(after(me, message.distance, size)), number as u32);
    }
    copy_own(&mut builder, request.rank);
    builder.end_round();
    let mut number = 0;
    for messages in &rounds {
        for (message, number) in messages.iter().zip(number..) {
            let to = Rank(before(me, message.distance, size));
            builder.await_rtr(to, number);
            for (wire, span) in absolute(message, number, me, size) {
                builder.put(to, wire, span, span);
            }
        }
        for (message, number) in messages.iter().zip(number..) {
            let from = after(me, message.distance, size);
            for (wire, span) in absolute(message, number, from, size) {
                builder.await_put(Rank(from), wire, span.count);
            }
        }
        number += messages.len() as u32;
        builder.end_round();
    }
    builder.finish(0)
}

/// The one or two puts of the message number `number` of `origin`, in absolute positions.
fn absolute(
    message: &Message,
    number: u32,
    origin: u32,
    size: u32,
) -> impl Iterator<Item = (Wire, Span)> {
    let to_end = message.places.min(size - origin);
    let port = message.port;
    [recv(origin, to_end), recv(0, message.places - to_end)]
        .into_iter()
        .enumerate()
        .filter(|(_, span)| span.count > 0)
        .map(move |(part, span)| {
            let slot = 2 * number + part as u32;
            (Wire { port, slot }, span)
        })
}

/// Closed form: equation (1).
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    Work {
        rounds: u64::from(ceil_log(shape.ranks, u32::from(shape.ports) + 1)),
        port_blocks: u64::from((shape.ranks - 1).div_ceil(u32::from(shape.ports))),
        node_sharers: shape.node_size,
        ..work_of_copies(shape, protocol)
    }
}
