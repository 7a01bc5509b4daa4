//! The native baselines: `pairwise` and `permission_to_send`, on one port.
//!
//! In step i (1..N) rank p puts to `p xor i` where N is a power of two, else to p+i, and receives
//! from `p xor i` or p-i, before it goes on. Four ranks: `0<>1 2<>3`, `0<>2 1<>3`, `0<>3 1<>2`.
//!
//! Nothing keeps a fast rank from putting to one that another still puts to: a hot spot. With
//! `permission_to_send` a rank puts only after the receiver has told it to, which it does when its
//! message of the step before has come. Through scratch the permission is an empty message, with
//! zero-copy the RTR.
//!
//! * Rounds: N-1, with permissions through scratch too, which share the round of their message.
//!   Messages per rank: N-1, and N-1 permissions. Volume: N-1 blocks. Cost: (N-1) (α + l β).

use crate::algorithm::Request;
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::pattern::{after, before};
use crate::schedule::{Buffer, Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule, with permissions or without.
pub fn build(request: &Request<'_>, asks: bool) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let (size, me) = (request.topology.size(), request.rank.0);
    let zero_copy = request.protocol == Protocol::Rendezvous;
    let mut builder = request.builder();
    let peers = |step: u32| match size.is_power_of_two() {
        true => (Rank(me ^ step), Rank(me ^ step)),
        false => (Rank(after(me, step, size)), Rank(before(me, step, size))),
    };
    let message = |step| Wire {
        port: 0,
        slot: step - 1,
    };
    let permission = |step| Wire {
        port: 0,
        slot: size - 1 + step - 1,
    };
    if zero_copy && !asks {
        for step in 1..size {
            builder.send_rtr(peers(step).1, step - 1);
        }
    }
    if !zero_copy {
        builder = builder.without_rtr();
        builder.copy_all_but(me, Buffer::Send, Buffer::Scratch);
    }
    builder.copy(Span::send(me, 1), Span::recv(me, 1));
    builder.end_round();
    for step in 1..size {
        let (to, from) = peers(step);
        if asks && zero_copy {
            builder.send_rtr(from, step - 1);
        } else if asks {
            builder.notify(from, permission(step));
            builder.await_put(to, permission(step), 0);
        }
        if zero_copy {
            builder.await_rtr(to, step - 1);
            builder.put(to, message(step), Span::send(to.0, 1), Span::recv(me, 1));
        } else {
            let arrival = Span::scratch(size + me, 1);
            builder.put(to, message(step), Span::scratch(to.0, 1), arrival);
        }
        builder.await_put(from, message(step), 1);
        if !zero_copy {
            builder.copy(Span::scratch(size + from.0, 1), Span::recv(from.0, 1));
        }
        builder.end_round();
    }
    builder.finish(if zero_copy { 0 } else { 2 * size })
}

/// Closed form.
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let rounds = u64::from(shape.ranks) - 1;
    Work {
        rounds,
        port_blocks: rounds,
        ports: 1,
        ..Work::flat(
            shape,
            match protocol {
                Protocol::Eager => 2 * rounds + 1,
                Protocol::Rendezvous => 1,
            },
        )
    }
}
