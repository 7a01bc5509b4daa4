//! How fast a collective could be on this machine: what ranks 0 and 1 can do with a cache line, with memory
//! that both map, with each other's memory and with one core, measured in the run whose cells it bounds.
//!
//! * `pair`: what the two do; `copies`: what they copy, through a `ring` of each; * `machine`: what came of it, and
//!   which cells it bounds.

mod copies;
mod machine;
mod pair;
mod ring;

pub use copies::Messages;
pub use machine::Bounds;

use super::job_sizes::{Job, Team};
use super::shared;
use super::timing::{Block, Limits, Timing, everybodys};
use anyhow::{Context, Result};
use copies::Loop;
use ferrorail_base::ProcessId;
use ferrorail_engine::raw::{Cma, cma_allow, cores_of};
use ferrorail_mpi_abi::Host;
use machine::Copies;
use pair::Pair;
use ring::Rings;
use std::time::Duration;

/// Whether bounds are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Wanted {
    /// With the cells.
    On,
    /// Not at all.
    Off,
}

/// Of each number; all together take less than half a second. Blocks are shorter than the time for
/// which a scheduler lets a process run, so that some are undisturbed.
const LIMITS: Limits = Limits {
    budget: Duration::from_millis(15),
    iterations: None,
    blocks: 15,
};

/// What was measured, or why nothing was.
pub type Found = Result<Bounds, String>;

/// Whether something follows for long messages of `collective`.
pub fn has_copies(collective: &str) -> bool {
    Loop::ALL
        .iter()
        .any(|which| which.collective() == collective)
}

/// Between ranks 0 and 1, while others sleep, with copies of each kind of `messages`; what counts is found at those two.
/// Collective.
///
/// # Errors
/// The MPI library's; cross-memory attach that was allowed and then fails.
pub fn measure(host: &Host, job: &Job<'_>, messages: &[Messages]) -> Result<Found> {
    let ids = shared::processes(host, job.all)?;
    if ids.len() < 2 {
        return Ok(Err("there is only one".to_owned()));
    }
    if ids[0].host != ids[1].host {
        return Ok(Err("they do not share a host".to_owned()));
    }
    let one_host = ids.iter().all(|id| id.host == ids[0].host);
    let pids: Vec<u32> = ids.iter().map(|id| id.pid).collect();
    let cores = one_host.then(|| cores_of(&pids));
    let both = |rank| rank < 2;
    let found = job.with(both, |team| {
        of_pair(host, team, ids[1 - team.place.rank], messages)
    })?;
    Ok(match found {
        Some(found) => found.map(|bounds| Bounds { cores, ..bounds }),
        None => Err("ranks 0 and 1 know them".to_owned()),
    })
}

/// At the two ranks, of which `other` is the other one.
fn of_pair(host: &Host, team: Team, other: ProcessId, messages: &[Messages]) -> Result<Found> {
    let segment = match shared::segment(host, team, Rings::SEGMENT_BYTES)? {
        Ok(segment) => segment,
        Err(problem) => return Ok(Err(problem)),
    };
    let both = |mine: bool| -> Result<bool> {
        let all = everybodys(host, team.comm, [f64::from(u8::from(mine))])?;
        Ok(all.iter().all(|&[one]| one == 1.0))
    };
    let rank = team.place.rank;
    let mut pair = Pair::new(segment, rank);
    // From here on processes of the same user may read this one's memory.
    cma_allow();
    let memories = shared::exchange(host, team, &pair.memory.start().to_ne_bytes())?;
    let memory = memories[1 - rank].as_slice().try_into();
    let there = usize::from_ne_bytes(memory.context("an address")?);
    let attaches = both(pair.memory.reach(Cma::of(other), there))?;
    // Both on the core of rank 0, where that is allowed.
    let core = everybodys(host, team.comm, [pair::first_core() as f64])?[0][0] as usize;
    let pins = pair::Pinned::to(core).is_some();
    let switches = both(pins)?;

    let mut timed = |act: &mut dyn FnMut(&mut Pair, usize) -> Result<Duration>| -> Result<Timing> {
        let block = |_: usize, iterations: u32| -> Result<Block> {
            let longer = pair.longer(|pair| act(pair, iterations as usize))?;
            let us = longer.as_secs_f64() * 1e6 / f64::from(iterations);
            Ok(Block::of(us))
        };
        let (mut timings, _) = LIMITS.measure(1, block)?;
        Ok(timings.pop().unwrap_or_default())
    };
    let mut copies = Vec::new();
    for &messages in messages {
        for which in Loop::ALL {
            let allowed = attaches || !which.attaches();
            let timing =
                allowed.then(|| timed(&mut |pair, times| pair.copy((which, messages), times)));
            copies.push(Copies {
                which,
                messages,
                timing: timing.transpose()?,
            });
        }
    }
    let round_trip = timed(&mut Pair::round_trips)?;
    let there_and_back = switches.then(|| timed(&mut |pair, times| pair.switches(core, times)));
    Ok(Ok(Bounds {
        cores: None,
        round_trip,
        copies,
        switch: there_and_back.transpose()?.map(|timing| timing.scaled(0.5)),
    }))
}
