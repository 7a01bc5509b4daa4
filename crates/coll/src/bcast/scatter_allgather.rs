//! Broadcast by scatter and all-gather: the root scatters N parts over a tree, then everyone puts
//! its part to everyone.
//!
//! Four ranks, root 0, one port; parts in digits:
//!
//! ```text
//! round 1   0>2: 2 3
//! round 2   0>1: 1    2>3: 3
//! round 3   0>1 1>2 2>3        each its own part; nobody puts to the root
//! round 4   0>2 1>3 3>1
//! round 5   0>3 2>1 3>2
//! ```
//!
//! * Rounds: ⌈log_{k+1} N⌉ + ⌈(N-1)/k⌉. Volume per port: the scatter's (equation (1)) and
//!   ⌈(N-1)/k⌉ parts of l/N bytes; about 2 l/k bytes, however many ranks there are.
//! * Any size, any root.

use crate::algorithm::Request;
use crate::builder::Wire;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::direct::{all, round, rounds};
use crate::pattern::levels;
use crate::pattern::rooted::volume;
use crate::schedule::{Protocol, Schedule, Span};
use crate::tree::Branch;
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let is_root = request.rank == request.root;
    let mut builder = request.builder();
    if size == 1 {
        return builder.finish(0);
    }
    let (message, copy) = (Span::recv(0, size), Span::scratch(0, size));
    if is_root {
        builder.copy(message, copy);
    }
    builder.end_round();
    let group = Group::ranks(request.topology);
    Branch::new(&group, request.root.0, me, ports).scatter(&mut builder);
    let own = Span::scratch(me, 1);
    // The scatter has slot 0, the exchange those of its distances.
    let wire = |distance| Wire {
        slot: distance,
        ..Wire::at_distance(distance, ports)
    };
    for r in 0..rounds(size, ports) {
        for exchange in round(me, size, ports, r) {
            if Rank(exchange.to) != request.root {
                builder.put(Rank(exchange.to), wire(exchange.distance), own, own);
            }
        }
        builder.end_round();
    }
    if !is_root {
        for exchange in all(me, size, ports) {
            builder.await_put(Rank(exchange.from), wire(exchange.distance), 1);
        }
        builder.copy(copy, message);
    }
    builder.finish(size)
}

/// Closed form, in parts.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(0);
    }
    let exchange = u64::from(rounds(shape.ranks, shape.ports));
    Work {
        rounds: u64::from(levels(shape.ranks, shape.ports)) + exchange,
        port_blocks: volume(shape.ranks, shape.ports) + exchange,
        ..Work::flat(shape, shape.ranks.into())
    }
}
