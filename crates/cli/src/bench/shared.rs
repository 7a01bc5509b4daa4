//! Ranks of a host that share memory without a team: how they come to it, and how they wait there.

use super::job_sizes::Team;
use super::timing::everybodys;
use anyhow::{Context, Result, bail};
use ferrorail_base::ProcessId;
use ferrorail_base::config::ShmKind;
use ferrorail_engine::raw::{Segment, SegmentHandle, process_id};
use ferrorail_mpi_abi::Host;
use std::time::{Duration, Instant};

/// A peer that says nothing for so long has failed.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Who waits longer than messages take gives its core up, which the other may need.
const SPIN: Duration = Duration::from_micros(20);
/// Polls between two looks at the clock. There is none before the first poll, which short waits would feel.
const POLLS: u32 = 64;

/// Waits until `done`, which may have to drive something.
///
/// # Errors
/// Those of `done`; if it takes a minute.
pub fn wait(mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let mut start = None;
    let mut polls = 0u32;
    while !done()? {
        polls += 1;
        if !polls.is_multiple_of(POLLS) {
            continue;
        }
        let waited = start.get_or_insert_with(Instant::now).elapsed();
        if waited > SPIN {
            std::thread::yield_now();
        }
        if waited > TIME_LIMIT {
            bail!("a message did not come within {} s", TIME_LIMIT.as_secs());
        }
    }
    Ok(())
}

/// Everybody's bytes, of any lengths, by rank. Collective.
///
/// # Errors
/// The MPI library's.
pub fn exchange(host: &Host, team: Team, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
    let lengths = everybodys(host, team.comm, [mine.len() as f64])?;
    let lengths: Vec<usize> = lengths.into_iter().map(|[bytes]| bytes as usize).collect();
    let all = host.allgatherv_bytes(mine, &lengths, team.comm)?;
    let mut rest = all.as_slice();
    let parts = lengths.into_iter().map(|bytes| {
        let (part, others) = rest.split_at(bytes);
        rest = others;
        part.to_vec()
    });
    Ok(parts.collect())
}

/// Everybody's process, by rank. Collective.
///
/// # Errors
/// The MPI library's.
pub fn processes(host: &Host, team: Team) -> Result<Vec<ProcessId>> {
    let all = exchange(host, team, &process_id().to_wire())?;
    let all = all.iter().map(|id| ProcessId::from_wire(id));
    all.map(|id| id.context("a process")).collect()
}

/// Memory that all ranks of `team` map, or why not all of them do, which is the same at all of them. Collective.
///
/// # Errors
/// The MPI library's.
pub fn segment(host: &Host, team: Team, bytes: usize) -> Result<Result<Segment, String>> {
    let text = |error: &dyn std::error::Error| format!("cannot share memory: {error}");
    let made = (team.place.rank == 0).then(|| Segment::create(ShmKind::Auto, bytes));
    let handle = match &made {
        Some(Ok(segment)) => segment.handle().to_wire(),
        _ => Vec::new(),
    };
    let all = exchange(host, team, &handle)?;
    let mapped = match made {
        Some(made) => made.map_err(|error| text(&error)),
        None => match SegmentHandle::from_wire(&all[0]) {
            Some(handle) => Segment::attach(&handle).map_err(|error| text(&error)),
            None => Err(String::new()),
        },
    };
    // The creator's name for it is gone once all are attached.
    let problem = mapped.as_ref().err().map_or("", String::as_str);
    let problems = exchange(host, team, problem.as_bytes())?;
    let first = problems.iter().find(|problem| !problem.is_empty());
    Ok(match first {
        Some(problem) => Err(String::from_utf8_lossy(problem).into_owned()),
        None => mapped,
    })
}
