//! How fast a collective could be on this machine: what ranks 0 and 1 can do with a cache line, with memory
//! that both map, with each other's memory and with one core, measured in the run whose cells it bounds.
//!
//! * `pair`: what the two do; * `machine`: what came of it, and which cells it bounds.

mod machine;
mod pair;

pub use machine::Bounds;

use super::job_sizes::{Job, Team};
use super::shared;
use super::timing::{Block, Limits, Timing, everybodys};
use anyhow::{Context, Result};
use ferrorail_base::ProcessId;
use ferrorail_engine::raw::{cores_of, process_id};
use ferrorail_mpi_abi::Host;
use machine::SIZES;
use pair::Pair;
use std::time::Duration;

/// Whether bounds are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Wanted {
    /// With the cells.
    On,
    /// Not at all.
    Off,
}

/// Of each of the nine numbers; all together take less than half a second. Blocks are shorter than the time for
/// which a scheduler lets a process run, so that some are undisturbed.
const LIMITS: Limits = Limits {
    budget: Duration::from_millis(15),
    iterations: None,
    blocks: 15,
};

/// What was measured, or why nothing was.
pub type Found = Result<Bounds, String>;

/// Between ranks 0 and 1, while others sleep; what counts is found at those two. Collective.
///
/// # Errors
/// The MPI library's; cross-memory attach that was allowed and then fails.
pub fn measure(host: &Host, job: &Job<'_>) -> Result<Found> {
    let ids = shared::exchange(host, job.all, &process_id().to_wire())?;
    let ids = ids
        .iter()
        .map(|id| ProcessId::from_wire(id).context("a process"))
        .collect::<Result<Vec<_>>>()?;
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
    let found = job.with(both, |team| of_pair(host, team, ids[1 - team.place.rank]))?;
    Ok(match found {
        Some(found) => found.map(|bounds| Bounds { cores, ..bounds }),
        None => Err("ranks 0 and 1 know them".to_owned()),
    })
}

/// At the two ranks, of which `other` is the other one.
fn of_pair(host: &Host, team: Team, other: ProcessId) -> Result<Found> {
    let segment = match shared::segment(host, team, Pair::SEGMENT_BYTES)? {
        Ok(segment) => segment,
        Err(problem) => return Ok(Err(problem)),
    };
    let both = |mine: bool| -> Result<bool> {
        let all = everybodys(host, team.comm, [f64::from(u8::from(mine))])?;
        Ok(all.iter().all(|&[one]| one == 1.0))
    };
    let rank = team.place.rank;
    let mut pair = Pair::new(segment, rank);
    let memories = shared::exchange(host, team, &pair.memory().to_ne_bytes())?;
    let memory = memories[1 - rank].as_slice().try_into();
    let reaches = pair.reach(other, u64::from_ne_bytes(memory.context("an address")?));
    let attach = both(reaches)?;
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
    let mut sized = |act: fn(&mut Pair, usize, usize) -> Result<Duration>| {
        let [short, long] = SIZES;
        Ok::<_, anyhow::Error>([
            timed(&mut |pair, times| act(pair, short, times))?,
            timed(&mut |pair, times| act(pair, long, times))?,
        ])
    };
    let one_way = sized(Pair::one_way)?;
    let exchange = sized(Pair::exchange)?;
    let attach = attach.then(|| sized(Pair::cross_memory)).transpose()?;
    let own_copy = timed(&mut |pair, times| pair.own_copies(SIZES[1], times))?;
    let round_trip = timed(&mut Pair::round_trips)?;
    let there_and_back = switches.then(|| timed(&mut |pair, times| pair.switches(core, times)));
    Ok(Ok(Bounds {
        cores: None,
        round_trip,
        one_way,
        exchange,
        own_copy,
        attach,
        switch: there_and_back.transpose()?.map(|timing| timing.scaled(0.5)),
    }))
}
