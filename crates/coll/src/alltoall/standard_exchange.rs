//! Standard Exchange all-to-all: in step i the ranks that differ in digit i, to base k+1, exchange.
//!
//! A rank holds one block per key; before step i the digits of a key below i are its source's, the
//! others its destination's. In step i the keys with digit v go to the rank with digit v, and what
//! comes from there takes their places. Four ranks, one port; `p<>q: keys of p | keys of q`:
//!
//! ```text
//! step 1   0<>1: 1 3 | 0 2    2<>3: 1 3 | 0 2
//! step 2   0<>2: 2 3 | 0 1    1<>3: 2 3 | 0 1
//! ```
//!
//! * Rounds: log_{k+1} N. Messages per rank: k per round, N/(k+1) blocks each.
//! * Cost: log_{k+1} N α + N/(k+1) log_{k+1} N l β, equation (5).
//! * Restriction: N a power of k+1. Corrections would carry up to k+1 times the blocks; other
//!   sizes therefore go by Bruck's distances, in as many rounds as the next power.

use super::relay::{Message, Relay};
use super::{alone, bruck};
use crate::cost::{Shape, Work};
use crate::pattern::exchange::Pattern;
use crate::registry::Request;
use crate::schedule::{Landing, Schedule};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (size, me, ports) = (request.topology.size(), request.rank.0, request.ports);
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    if !applies(size, ports) {
        return bruck::build(request);
    }
    let pattern = Pattern::new(size, ports);
    let mut relay = Relay::new(request, |key| key);
    for step in 0..pattern.steps {
        let stride = pattern.radix.pow(step);
        let digit = |rank: u32| rank / stride % pattern.radix;
        let keys = |digit_wanted| {
            (0..size)
                .filter(|&key| digit(key) == digit_wanted)
                .collect()
        };
        let messages: Vec<_> = pattern
            .step(me, step)
            .map(|exchange| Message {
                port: exchange.port,
                to: exchange.to,
                from: exchange.from,
                out: keys(digit(exchange.to)),
                into: keys(digit(exchange.from)),
            })
            .collect();
        relay.round(&messages);
    }
    relay.finish(me, |key| key)
}

/// Whether digits to base k+1 (or N, if that is less) name exactly N ranks.
fn applies(size: u32, ports: u8) -> bool {
    !Pattern::new(size, ports).has_extras()
}

/// Closed form: equation (5).
pub fn work(shape: &Shape, landing: Landing) -> Work {
    if shape.ranks == 1 || !applies(shape.ranks, shape.ports) {
        return bruck::work(shape, landing);
    }
    let pattern = Pattern::new(shape.ranks, shape.ports);
    let message = u64::from(shape.ranks / pattern.radix);
    let steps = u64::from(pattern.steps);
    let packed = steps * message * u64::from(pattern.radix - 1);
    Work {
        rounds: steps,
        port_blocks: steps * message,
        node_sharers: shape.node_size,
        ..Work::copies(packed + u64::from(shape.ranks))
    }
}
