//! Speeds of the rails to a new peer: nominal, or measured where shares depend on them.
//!
//! Measuring writes from the rank's first area, where staged pieces lie, to the peer's second one. Nobody else writes
//! there, and nobody reads it.

use super::link::Link;
use super::map::{AREAS, Map, TeamRails};
use super::state::State;
use ferrorail_base::{RailId, Rank};
use ferrorail_fabric::stripe::{Policy, RailWeights};
use ferrorail_fabric::{Endpoint, FabricError, Op, RailInfo, Tracking};
use std::time::{Duration, Instant};

/// Bytes written per rail and trial.
const TRIAL_BYTES: usize = 256 << 10;

/// Trials per rail; the fastest counts, because others may use it at the same time.
const TRIALS: u32 = 3;

/// A trial of this length need not be repeated: what disturbs short ones is lost in it.
const LONG_TRIAL: Duration = Duration::from_millis(20);

/// A rail that takes longer than this for a trial is not measured.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Bandwidths of the rails `local`, as their descriptions state them.
fn stated(infos: &[RailInfo], local: &[RailId]) -> Vec<u64> {
    let speed = |rail: &RailId| infos[rail.index()].bandwidth_mb_s;
    local.iter().map(speed).collect()
}

/// The policy for rails `local`: where they are alike, dividing by their descriptions is to divide evenly.
pub(super) fn policy(wanted: Policy, infos: &[RailInfo], local: &[RailId]) -> Policy {
    let speeds = stated(infos, local);
    match wanted {
        Policy::Nominal if speeds.iter().all(|&speed| speed == speeds[0]) => Policy::Even,
        wanted => wanted,
    }
}

/// What is known of the rails to a peer that `planes` lead to: what their descriptions say.
pub(super) fn nominal(rails: &TeamRails, planes: u8) -> RailWeights {
    let rail_weights = match rails.planner.policy() {
        Policy::Even | Policy::RoundRobin => RailWeights::equal(rails.local.len()),
        Policy::Nominal | Policy::Weighted | Policy::Adaptive => {
            RailWeights::weighted(&stated(rails.fabric.rails(), &rails.local))
        }
    };
    rail_weights
        .without(rails.missing_rails(planes))
        .numa_local(rails.numa_local)
}

/// Measures the rails to `peers`, if shares depend on that.
pub(super) fn weigh(map: &Map, state: &mut State, peers: &[Rank]) {
    let Some(rails) = &map.rails else { return };
    if rails.planner.policy() != Policy::Weighted || rails.local.len() == 1 {
        return;
    }
    for &peer in peers {
        let Some(link) = state.links[peer.index()] else {
            continue;
        };
        let excluded = rails.missing_rails(link.planes);
        let speeds: Result<Vec<u64>, FabricError> = (0..rails.local.len() as u8)
            .map(|rail| match excluded & 1 << rail {
                0 => speed(map, rails, &link, peer, RailId(rail)),
                _ => Ok(0),
            })
            .collect();
        match speeds {
            Ok(speeds) => {
                tracing::debug!("rails to rank {peer}: {speeds:?} KB/s");
                state.links[peer.index()] = Some(Link {
                    rail_weights: RailWeights::weighted(&speeds)
                        .without(excluded)
                        .numa_local(rails.numa_local),
                    ..link
                });
            }
            Err(error) => tracing::warn!("rails to rank {peer} cannot be measured: {error}"),
        }
    }
}

/// Speed of `rail` to `peer` in KB/s, the best of some trials; 0 if it is too slow to tell.
fn speed(
    map: &Map,
    rails: &TeamRails,
    link: &Link,
    peer: Rank,
    rail: RailId,
) -> Result<u64, FabricError> {
    let mut best = 0;
    for _ in 0..TRIALS {
        let start = Instant::now();
        if !trial(map, rails, link, peer, rail)? {
            break;
        }
        let elapsed = start.elapsed();
        best = best.max(TRIAL_BYTES as u128 * 1_000_000 / elapsed.as_nanos().max(1));
        if elapsed > LONG_TRIAL {
            break;
        }
    }
    Ok(u64::try_from(best).unwrap_or(u64::MAX))
}

/// Writes [`TRIAL_BYTES`] and waits for their completion; false if that took too long.
fn trial(
    map: &Map,
    rails: &TeamRails,
    link: &Link,
    peer: Rank,
    rail: RailId,
) -> Result<bool, FabricError> {
    let fabric = &rails.fabric;
    let area = map.segment().area(map.node_rank, 0);
    let piece = area.bytes.min(TRIAL_BYTES);
    let from = rails.slice(area.address - rails.region().range.address, piece);
    let (layout, local) = map.layout_of(peer);
    let op = Op::put(from, link.at(layout.area(local, AREAS - 1)));
    let deadline = Instant::now() + TRIAL_TIMEOUT;
    let mut last = None;
    let mut left = TRIAL_BYTES.div_ceil(piece);
    while left > 0 || last.is_some() {
        if left > 0 {
            // SAFETY: both sides' areas are registered with the segment, and nobody reads what lands
            // there.
            let posted = unsafe { rails.post(link, rail, &op, Tracking::Tracked) }?;
            if posted.is_some() {
                last = posted;
                left -= 1;
                continue;
            }
        } else if let Some(ticket) = last
            && fabric.is_complete(ticket)?
        {
            return Ok(true);
        }
        fabric.progress()?;
        map.context.host.poke();
        if Instant::now() > deadline {
            return Ok(false);
        }
    }
    Ok(true)
}
