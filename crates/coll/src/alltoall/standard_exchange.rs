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
//! That is for N = (k+1)^m. For other sizes the paper gives "the same grouping scheme" as for
//! all-gather, so groups wrap around here too: with P = (k+1)^m the largest power below N, rank p
//! sends to `(p + j (k+1)^(i-1)) mod N` in step i of 1..=m. Equation (5) has ⌈log_{k+1} N⌉ startups,
//! which leaves one correction: blocks whose destination is P or more ranks on take their last hop
//! there, divided evenly among the ports, and by the steps go no further than from its other end.
//! The paper's own 16 processes on two ports; rank p sends to, as how far the blocks have to go in all:
//!
//! ```text
//! step 1        p+1: 1 4 7 10 13       p+2: 2 5 8 11 14
//! step 2        p+3: 3 4 5 15          p+6: 6 7 8
//!   correction  p+9: 9 10 11           p+12: 12 13 14 15
//! ```
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages per rank: k per round, or one for each block of the correction.
//! * Volume: N/(k+1) log_{k+1} N blocks, equation (5), with N = (k+1)^m. For other sizes its logarithm
//!   is no whole number: 13.5 blocks with N = 16, k = 2, where the schedule has 5 + 4 + 4.
//! * N <= k: one round, as radix N.

use super::bruck::key_count;
use super::relay::{Hop, Message, Relay, by_distance};
use crate::algorithm::Request;
use crate::cost::{Shape, Work};
use crate::pattern::exchange::Pattern;
use crate::pattern::shares;
use crate::schedule::{Protocol, Schedule};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let pattern = Pattern::new(request.topology.size(), request.ports);
    match pattern.has_extras() {
        true => by_distance(request, wrapping(request, &pattern).into_iter()),
        false => within_groups(request, &pattern),
    }
}

fn within_groups(request: &Request<'_>, pattern: &Pattern) -> Schedule {
    let (size, me) = (request.topology.size(), request.rank.0);
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

fn wrapping(request: &Request<'_>, pattern: &Pattern) -> Vec<Vec<Hop>> {
    let (size, power, radix) = (request.topology.size(), pattern.cores, pattern.radix);
    let corrections: Vec<_> = shares(size - power, request.ports)
        .map(|(port, first, count)| (port, power + first, count))
        .collect();
    // How far each block goes by the steps.
    let mut by_steps: Vec<u32> = (0..power).collect();
    by_steps.extend(corrections.iter().flat_map(|&(_, _, count)| 0..count));
    let step = |step| {
        let stride = radix.pow(step);
        let hop = |digit: u32| Hop {
            port: (digit - 1) as u8,
            distance: digit * stride,
            keys: (0..size)
                .filter(|&key| by_steps[key as usize] / stride % radix == digit)
                .collect(),
        };
        (1..radix).map(hop).collect()
    };
    let mut rounds: Vec<Vec<Hop>> = (0..pattern.steps).map(step).collect();
    let last = |(port, distance, count)| Hop {
        port,
        distance,
        keys: (distance..distance + count).collect(),
    };
    rounds.push(corrections.into_iter().map(last).collect());
    rounds
}

/// Closed form: equation (5).
pub fn work(shape: &Shape, _: Protocol) -> Work {
    let (size, ports) = (shape.ranks, shape.ports);
    if size == 1 {
        return Work::copies(1);
    }
    let pattern = Pattern::new(size, ports);
    let (power, steps) = (pattern.cores, u64::from(pattern.steps));
    let message = u64::from(power / pattern.radix);
    // Blocks with `digit` in `step`, of those that a correction takes on.
    let corrected = |step, digit| -> u64 {
        let of = |(_, _, count)| key_count(count, ports, step, digit);
        shares(size - power, ports).map(of).sum()
    };
    let sent = |step, digit| message + corrected(step, digit);
    let digits = (0..pattern.steps).flat_map(|i| (1..pattern.radix).map(move |d| (i, d)));
    let packed: u64 = digits.map(|(step, digit)| sent(step, digit)).sum();
    let last = (size - power).div_ceil(ports.into());
    Work {
        rounds: steps + u64::from(pattern.has_extras()),
        port_blocks: (0..pattern.steps).map(|step| sent(step, 1)).sum::<u64>() + u64::from(last),
        ..Work::flat(shape, packed + u64::from(size - power) + u64::from(size))
    }
}
