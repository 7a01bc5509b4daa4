//! Zero-copy rounds of messages of consecutive blocks, which go to where they end in `Recv`.
//!
//! A message that wraps around the end is two puts on one port. There is one RTR per message; messages are numbered
//! from round to round, alike at both ends.

use crate::algorithm::Request;
use crate::builder::Wire;
use crate::schedule::{Schedule, Span};
use ferrorail_base::Rank;

/// Consecutive blocks, around the end.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub first: u32,
    pub count: u32,
}

/// One message out and one in.
pub(super) struct Message {
    pub port: u8,
    pub to: u32,
    pub from: u32,
    pub sent: Blocks,
    pub received: Blocks,
}

/// The whole operation of a rank that has these messages; `slot` is that of message `number`, or of its second part.
pub(super) fn zero_copy(
    request: &Request<'_>,
    rounds: &[Vec<Message>],
    slot: impl Fn(u32, bool) -> u32,
) -> Schedule {
    let (size, me) = (request.topology.size(), request.rank.0);
    let parts = |port, number, Blocks { first, count }| {
        let to_end = count.min(size - first);
        let wire = |second| Wire {
            port,
            slot: slot(number, second),
        };
        let parts = [
            (wire(false), Span::recv(first, to_end)),
            (wire(true), Span::recv(0, count - to_end)),
        ];
        parts.into_iter().filter(|(_, span)| span.count > 0)
    };
    let mut builder = request.builder();
    for (number, message) in (0..).zip(rounds.iter().flatten()) {
        builder.send_rtr(Rank(message.from), number);
    }
    builder.copy(Span::send(0, 1), Span::recv(me, 1));
    builder.end_round();
    let mut number = 0;
    for messages in rounds {
        for (message, number) in messages.iter().zip(number..) {
            let to = Rank(message.to);
            builder.await_rtr(to, number);
            for (wire, span) in parts(message.port, number, message.sent) {
                builder.put(to, wire, span, span);
            }
        }
        for (message, number) in messages.iter().zip(number..) {
            for (wire, span) in parts(message.port, number, message.received) {
                builder.await_put(Rank(message.from), wire, span.count);
            }
        }
        number += messages.len() as u32;
        builder.end_round();
    }
    builder.finish(0)
}
