//! Standard Exchange all-gather: recursive doubling with radix k+1, corrected for other sizes.
//!
//! With N = (k+1)^m ranks that differ in one digit to base k+1 exchange all that they have. Nine
//! ranks, two ports need two steps: within (0 1 2) (3 4 5) (6 7 8), then within (0 3 6) (1 4 7)
//! (2 5 8).
//!
//! For other sizes the paper says that correction steps are needed, and no more about them than
//! equation (4): (k+1) startups for each of the m = ⌊log_{k+1} N⌋ steps, so k corrections after it,
//! and (N-1)/k blocks through a port. That volume leaves no port idle and lets no block arrive twice,
//! which groups that end at rank N-1 cannot do; so the groups wrap around, as the paper's partners
//! p + j (k+1)^(i-1) "mod N" of the later steps do ([`crate::pattern::corrected`]). The paper's own 16
//! processes on two ports; rank p sends, and receives from as far behind:
//!
//! ```text
//! step 1          to p+1: p                    to p+2: p
//!   correction 1  to p+9: p                    to p+10: p
//!   correction 2  to p+11: p                   to p+12: p
//! step 2          to p+3: p-2 p-1 p            to p+6: p-2 p-1 p
//!   correction 1  to p+13: p                   to p+14: p
//!   correction 2  to p+15: p
//! ```
//!
//! * With N = (k+1)^m: m rounds, volume (N-1)/k per port; cost m α + (N-1)/k l β, equation (3).
//! * Otherwise, with P = (k+1)^m: m + min(k m, ⌈(N-P)/k⌉) rounds, volume ⌈(N-1)/k⌉; cost
//!   (k+1) m α + (N-1)/k l β, equation (4), less a startup for each correction that no block is left
//!   for: (4) counts k m corrections, where N-P blocks may need fewer.
//! * N <= k: one round with N-1 ports, as radix N.
//! * Messages per rank: k per round, fewer in the last. Any number of ranks.
//! * Zero-copy: blocks go to absolute positions, so that a message that wraps around the end is two
//!   puts on one port; one RTR per message.

use super::{SEND, alone, copy_own, recv, work_of_copies};
use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::exchange::Pattern;
use crate::pattern::{after, before, corrected};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    let exchange = Exchange::new(request);
    match request.protocol {
        Protocol::Eager => exchange.through_scratch(request),
        Protocol::Rendezvous => exchange.zero_copy(request),
    }
}

/// Consecutive blocks, around the end.
#[derive(Clone, Copy)]
struct Blocks {
    first: u32,
    count: u32,
}

struct Message {
    port: u8,
    to: u32,
    from: u32,
    sent: Blocks,
    received: Blocks,
}

/// What one rank sends and receives.
struct Exchange {
    size: u32,
    me: u32,
    /// Whether groups wrap around.
    wraps: bool,
    rounds: Vec<Vec<Message>>,
}

impl Exchange {
    fn new(request: &Request<'_>) -> Self {
        let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
        let pattern = Pattern::new(size, ports);
        let wraps = pattern.has_extras();
        Self {
            size,
            me,
            wraps,
            rounds: match wraps {
                true => wrapping(size, me, ports),
                false => within_groups(&pattern, me),
            },
        }
    }

    /// Where `rank` has `block` in scratch: in rank order, or rising to its own at the end, so that
    /// no message wraps around.
    fn place(&self, rank: u32, block: u32) -> u32 {
        match self.wraps {
            true => before(before(block, rank, self.size), 1, self.size),
            false => block,
        }
    }

    fn through_scratch(&self, request: &Request<'_>) -> Schedule {
        let group = Group::ranks(request.topology);
        let mut builder = ScheduleBuilder::new(request.topology, request.rank);
        builder.copy(SEND, group.span(self.place(self.me, self.me), 1));
        builder.end_round();
        let mut slot = 0;
        for messages in &self.rounds {
            for (message, slot) in messages.iter().zip(slot..) {
                let Blocks { first, count } = message.sent;
                builder.put(
                    Rank(message.to),
                    Wire {
                        port: message.port,
                        slot,
                    },
                    group.span(self.place(self.me, first), count),
                    group.span(self.place(message.to, first), count),
                );
            }
            for (message, slot) in messages.iter().zip(slot..) {
                let wire = Wire {
                    port: message.port,
                    slot,
                };
                builder.await_put(Rank(message.from), wire, message.received.count);
            }
            slot += messages.len() as u32;
            builder.end_round();
        }
        match self.wraps {
            true => group.copy_out(&mut builder, after(self.me, 1, self.size), self.size, 0),
            false => group.copy_members_out(&mut builder, 0, self.size),
        }
        builder.finish(self.size)
    }

    fn zero_copy(&self, request: &Request<'_>) -> Schedule {
        let mut builder = ScheduleBuilder::new(request.topology, request.rank);
        for (number, message) in self.rounds.iter().flatten().enumerate() {
            builder.send_rtr(Rank(message.from), number as u32);
        }
        copy_own(&mut builder, request.rank);
        builder.end_round();
        let mut number = 0;
        for messages in &self.rounds {
            for (message, number) in messages.iter().zip(number..) {
                let to = Rank(message.to);
                builder.await_rtr(to, number);
                for (wire, span) in self.absolute(message.port, number, message.sent) {
                    builder.put(to, wire, span, span);
                }
            }
            for (message, number) in messages.iter().zip(number..) {
                for (wire, span) in self.absolute(message.port, number, message.received) {
                    builder.await_put(Rank(message.from), wire, span.count);
                }
            }
            number += messages.len() as u32;
            builder.end_round();
        }
        builder.finish(0)
    }

    /// The one or two puts of message `number`. Only one message to a rank goes around the end,
    /// whose second part has the slot after all numbers.
    fn absolute(
        &self,
        port: u8,
        number: u32,
        blocks: Blocks,
    ) -> impl Iterator<Item = (Wire, Span)> + use<> {
        let last: usize = self.rounds.iter().map(Vec::len).sum();
        let to_end = blocks.count.min(self.size - blocks.first);
        let parts = [
            (number, recv(blocks.first, to_end)),
            (last as u32, recv(0, blocks.count - to_end)),
        ];
        let parts = parts.into_iter().filter(|(_, span)| span.count > 0);
        parts.map(move |(slot, span)| (Wire { port, slot }, span))
    }
}

fn within_groups(pattern: &Pattern, me: u32) -> Vec<Vec<Message>> {
    let held = |rank, step| {
        let blocks = pattern.held(rank, step);
        Blocks {
            first: blocks.start,
            count: blocks.end - blocks.start,
        }
    };
    let step = |step| {
        pattern.step(me, step).map(move |exchange| Message {
            port: exchange.port,
            to: exchange.to,
            from: exchange.from,
            sent: held(me, step),
            received: held(exchange.from, step),
        })
    };
    (0..pattern.steps).map(|i| step(i).collect()).collect()
}

fn wrapping(size: u32, me: u32, ports: u8) -> Vec<Vec<Message>> {
    let newest = |rank, count| Blocks {
        first: before(rank, count - 1, size),
        count,
    };
    let message = |message: corrected::Message| {
        let from = before(me, message.distance, size);
        Message {
            port: message.port,
            to: after(me, message.distance, size),
            from,
            sent: newest(me, message.blocks),
            received: newest(from, message.blocks),
        }
    };
    let rounds = corrected::rounds(size, ports).into_iter();
    rounds
        .map(|round| round.messages.into_iter().map(message).collect())
        .collect()
}

/// Closed form: equations (3) and (4).
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let (size, ports) = (shape.ranks, shape.ports);
    let pattern = Pattern::new(size, ports);
    let rounds = match pattern.has_extras() {
        true => corrected::round_count(size, ports),
        false => pattern.steps,
    };
    Work {
        rounds: rounds.into(),
        port_blocks: (size - 1).div_ceil(ports.into()).into(),
        node_sharers: shape.node_size,
        ..work_of_copies(shape, protocol)
    }
}
