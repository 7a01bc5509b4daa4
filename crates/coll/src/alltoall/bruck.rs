//! Bruck all-to-all: a block travels by the digits, to base k+1, of the distance it has to go.
//!
//! Key j is the block for the rank j further on. In round r, for each digit d in 1..=k, all keys
//! whose digit r is d move `d (k+1)^r` ranks on. Five ranks, one port; keys that move:
//!
//! ```text
//! round 1   1 3    by 1
//! round 2   2 3    by 2
//! round 3   4      by 4
//! ```
//!
//! The paper's first and third phase, the shifts, are folded into packing and unpacking.
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages per rank: at most k per round. Any number of ranks.
//! * Volume per port: with N a power of k+1, N/(k+1) log_{k+1} N blocks: equation (5). Else the
//!   keys below N with digit 1, summed over rounds.
//! * Copies: every block is packed once per digit of its distance that is not 0, unpacked once.

use super::relay::{Hop, by_distance};
use crate::algorithm::Request;
use crate::cost::{Shape, Work};
use crate::pattern::dissemination::{peers, rounds, stride};
use crate::schedule::{Protocol, Schedule};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let (size, ports) = (request.topology.size(), request.ports);
    let round = |round| {
        let hop = |(port, distance)| Hop {
            port,
            distance,
            keys: keys(size, ports, round, u32::from(port) + 1),
        };
        peers(size, ports, round).map(hop).collect()
    };
    by_distance(request, (0..rounds(size, ports)).map(round))
}

/// Keys below `size` whose digit `round` is `digit`.
fn keys(size: u32, ports: u8, round: u32, digit: u32) -> Vec<u32> {
    let stride = stride(ports, round);
    let radix = u32::from(ports) + 1;
    (0..size)
        .filter(|key| key / stride % radix == digit)
        .collect()
}

/// Number of keys below `size` whose digit `round` is `digit`.
pub(super) fn key_count(size: u32, ports: u8, round: u32, digit: u32) -> u64 {
    let stride = u64::from(stride(ports, round));
    let (period, size) = (stride * (u64::from(ports) + 1), u64::from(size));
    let rest = (size % period).saturating_sub(u64::from(digit) * stride);
    size / period * stride + rest.min(stride)
}

/// Closed form: equation (5).
pub fn work(shape: &Shape, _: Protocol) -> Work {
    let (size, ports) = (shape.ranks, shape.ports);
    let digits = |round| 1..=u32::from(ports).min((size - 1) / stride(ports, round));
    let all = (0..rounds(size, ports)).flat_map(|r| digits(r).map(move |d| (r, d)));
    let packed: u64 = all.map(|(r, d)| key_count(size, ports, r, d)).sum();
    Work {
        rounds: rounds(size, ports).into(),
        port_blocks: (0..rounds(size, ports))
            .map(|round| key_count(size, ports, round, 1))
            .sum(),
        ..Work::flat(shape, packed + u64::from(size))
    }
}
