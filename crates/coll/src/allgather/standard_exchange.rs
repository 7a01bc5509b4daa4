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

use super::absolute::{Blocks, Message, zero_copy};
use super::work_of_copies;
use crate::algorithm::Request;
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::exchange::Pattern;
use crate::pattern::{self, after, before, corrected};
use crate::schedule::{Protocol, Schedule};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let pattern = Pattern::new(size, ports);
    let wraps = pattern.has_extras();
    let rounds = match wraps {
        true => wrapping(size, me, ports),
        false => within_groups(&pattern, me),
    };
    // Only one message to a rank goes around the end, whose second part has the slot after all numbers.
    let last = rounds.iter().map(Vec::len).sum::<usize>() as u32;
    match request.protocol {
        Protocol::Eager => through_scratch(request, &rounds, wraps),
        Protocol::Rendezvous => {
            let slot = |number, second| if second { last } else { number };
            zero_copy(request, &rounds, slot)
        }
    }
}

fn through_scratch(request: &Request<'_>, rounds: &[Vec<Message>], wraps: bool) -> Schedule {
    let (size, me) = (request.topology.size(), request.rank.0);
    // Where `rank` has `block` in scratch: in rank order, or where groups wrap around rising to its own at the end, so
    // that no message does.
    let place = |rank, block| match wraps {
        true => before(before(block, rank, size), 1, size),
        false => block,
    };
    let group = Group::ranks(request.topology);
    let mut builder = request.builder();
    group.gather(&mut builder, place(me, me));
    builder.end_round();
    let mut slot = 0;
    for messages in rounds {
        let wire = |message: &Message, slot| Wire {
            port: message.port,
            slot,
        };
        for (message, slot) in messages.iter().zip(slot..) {
            let Blocks { first, count } = message.sent;
            let from = group.span(place(me, first), count);
            let into = group.span(place(message.to, first), count);
            builder.put(Rank(message.to), wire(message, slot), from, into);
        }
        for (message, slot) in messages.iter().zip(slot..) {
            let blocks = message.received.count;
            builder.await_put(Rank(message.from), wire(message, slot), blocks);
        }
        slot += messages.len() as u32;
        builder.end_round();
    }
    let first = if wraps { after(me, 1, size) } else { 0 };
    group.copy_out(&mut builder, first, size, 0);
    builder.finish(size)
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
    let message = |message: pattern::Message| {
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
        .map(|round| round.into_iter().map(message).collect())
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
        ..work_of_copies(shape, protocol)
    }
}
