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
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::pattern::ceil_log;
use crate::pattern::direct;
use crate::pattern::rooted::{Tree, volume};
use crate::scatter::tree::down;
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    let is_root = request.rank == request.root;
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    if size == 1 {
        return builder.finish(0);
    }
    let everything = (Span::recv(0, size), Span::scratch(0, size));
    if is_root {
        builder.copy(everything.0, everything.1);
    }
    builder.end_round();
    down(&mut builder, &Tree::new(request.root.0, size, ports), me);
    let own = Span::scratch(me, 1);
    let rounds = direct::rounds(size, ports);
    let exchanges = || (0..rounds).flat_map(|r| direct::round(me, size, ports, r));
    // The scatter has slot 0, the exchange those of its distances.
    let wire = |exchange: &direct::Exchange| Wire {
        port: exchange.port,
        slot: exchange.distance,
    };
    for round in 0..rounds {
        for exchange in direct::round(me, size, ports, round) {
            if Rank(exchange.to) != request.root {
                builder.put(Rank(exchange.to), wire(&exchange), own, own);
            }
        }
        builder.end_round();
    }
    if !is_root {
        for exchange in exchanges() {
            builder.await_put(Rank(exchange.from), wire(&exchange), 1);
        }
        builder.copy(everything.1, everything.0);
    }
    builder.finish(size)
}

/// Closed form, in parts.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(0);
    }
    let exchange = u64::from(direct::rounds(shape.ranks, shape.ports));
    let levels = u64::from(ceil_log(shape.ranks, u32::from(shape.ports) + 1));
    Work {
        rounds: levels + exchange,
        port_blocks: volume(shape.ranks, shape.ports) + exchange,
        node_sharers: shape.node_size,
        ..Work::copies(u64::from(shape.ranks))
    }
}
