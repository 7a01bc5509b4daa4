//! Whether long messages of the few ranks of a node go through its segment or by cross-memory attach.
//!
//! Which is faster depends on the processor, on how far apart the cores are, on what the kernel takes for each page, and on
//! what the program does with its buffers. So the program's own calls are timed: when ranks have passed on much in calls of
//! one collective and size class, some of the next ones go one way and some the other, by turns. The times of all ranks
//! together count; the rules of the table say what follows from them (`attach_percent`).
//!
//! Whose turn it is, and when times are compared, all ranks know from the calls they have made.

use super::is_pair;
use super::words::gather_words;
use super::{Call, choice};
use crate::EngineError;
use crate::plan::{Found, PlanKey, selector};
use crate::scratch::Scratch;
use crate::selection::LONG_BYTES_MIN;
use crate::team::map::Map;
use crate::team::state::State;
use crate::ways::{Class, Trial, Turn};
use ferrorail_base::sync::Mutex;
use ferrorail_base::units::size_class;
use ferrorail_base::{ProcessId, Rank};
use ferrorail_coll::select::{ATTACH_SLOWEST, NOT_MEASURED};
use ferrorail_shm::Cma;
use std::time::{Duration, Instant};

/// For how long other communicators of the same processes go by a time.
const RECENT: Duration = Duration::from_secs(10);

/// What a rank says that knows no recent time.
const UNKNOWN: u64 = u64::MAX;

/// What this process has measured, with whom.
struct Measured {
    processes: Vec<ProcessId>,
    /// `FERRORAIL_SCRATCH`: with little of it the segment takes long.
    scratch: Option<u64>,
    class: Class,
    at: Instant,
    percent: u32,
}

impl Measured {
    fn is_of(&self, map: &Map, class: Class) -> bool {
        let of = (&self.processes, self.scratch, self.class);
        of == (&map.processes, map.settings.scratch_bytes, class)
    }
}

/// The latest last.
static MEASURED: Mutex<Vec<Measured>> = Mutex::new(Vec::new());

/// So many are kept: a process has communicators of rows, of columns, of planes, and one that is forgotten is measured
/// anew.
const KEPT: usize = 512;

/// What a long `call` is to be chosen by, or one in which all ranks look, if so. It may be one of those that are timed, from
/// here on.
///
/// # Errors
/// Those of the operations in which ranks compare times.
#[cold]
#[inline(never)]
pub(super) fn key(
    map: &Map,
    state: &mut State,
    call: &Call<'_>,
    looks: bool,
) -> Result<PlanKey, EngineError> {
    let percent = percent(map, state, call, looks)?;
    Ok(call.key().with_attach_percent(percent))
}

fn percent(map: &Map, state: &mut State, call: &Call<'_>, looks: bool) -> Result<u32, EngineError> {
    if !map.measures_ways() {
        return Ok(NOT_MEASURED);
    }
    let Some(block) = block(map, call) else {
        return match is_pair(map) {
            true => Ok(state.ways.of_vectors(call.collective)),
            false => vectors::percent(map, state, call, looks),
        };
    };
    let class = (call.collective, size_class(block as u64));
    let passed = match call.collective.is_rooted() {
        true => block,
        false => block.saturating_mul(map.topology.size() as usize),
    };
    let depends = || selector(map, Found::default()).attach_decides_for(class.0, 1 << class.1);
    loop {
        match state.ways.next(class, (block, passed), depends) {
            Turn::By(percent) => return Ok(percent),
            Turn::Start => return start(map, state, class, passed),
            Turn::Compare(trial) => {
                if let Some(percent) = compare(map, state, class, trial)? {
                    return Ok(percent);
                }
            }
        }
    }
}

/// Has calls of `class` timed from the next one on, unless their time is known from another communicator.
fn start(map: &Map, state: &mut State, class: Class, passed: usize) -> Result<u32, EngineError> {
    let known = recent(map, class).map_or(UNKNOWN, u64::from);
    let [known] = gather_words(map, state, [known])?[0];
    // In a fiber a call's time is that of what the program does meanwhile.
    if known == UNKNOWN && !map.wait.suspends && reaches_all(map, state)? {
        return Ok(state.ways.start(class, trial(map, passed)));
    }
    let percent = u32::try_from(known).unwrap_or(NOT_MEASURED);
    Ok(decide(map, state, class, percent))
}

/// A trial of calls in which a rank passes on `passed` bytes.
fn trial(map: &Map, passed: usize) -> Trial {
    Trial::new(passed, Scratch::of(map).in_turn() as usize)
}

/// Compares what all ranks took in the last round of `trial`. None if it goes on.
fn compare(
    map: &Map,
    state: &mut State,
    class: Class,
    mut trial: Trial,
) -> Result<Option<u32>, EngineError> {
    let all = gather_words(map, state, trial.times())?;
    let Some(percent) = trial.compared(&all, map.has_cores) else {
        state.ways.start(class, trial);
        return Ok(None);
    };
    let percent = found(map, class, Some(1 << class.1), percent);
    Ok(Some(decide(map, state, class, percent)))
}

/// Keeps what a trial of `class` found, whose blocks have up to so many bytes, if that is known. What calls go by then.
fn found(map: &Map, class: Class, bytes_max: Option<u64>, percent: u64) -> u32 {
    let percent = percent.min(ATTACH_SLOWEST.into()) as u32;
    tracing::debug!(
        collective = class.0.name(),
        bytes_max,
        percent,
        "long messages by cross-memory attach instead of through the segment"
    );
    keep(map, class, percent);
    percent
}

fn decide(map: &Map, state: &mut State, class: Class, percent: u32) -> u32 {
    for (collective, before) in state.ways.decide(class, percent) {
        state.plans.forget(map, collective, before);
    }
    percent
}

fn recent(map: &Map, class: Class) -> Option<u32> {
    let all = MEASURED.lock();
    let last = all.iter().find(|known| known.is_of(map, class))?;
    (last.at.elapsed() < RECENT).then_some(last.percent)
}

fn keep(map: &Map, class: Class, percent: u32) {
    let mut all = MEASURED.lock();
    all.retain(|known| !known.is_of(map, class));
    if all.len() == KEPT {
        all.remove(0);
    }
    all.push(Measured {
        processes: map.processes.clone(),
        scratch: map.settings.scratch_bytes,
        class,
        at: Instant::now(),
        percent,
    });
}

/// Length of the blocks of `call`, if all ranks know that it is at least [`LONG_BYTES_MIN`]: of forms in which lengths are known
/// to the two ends alone, where there are no others.
fn block(map: &Map, call: &Call<'_>) -> Option<usize> {
    let bytes = match choice::by_length(call.collective) {
        true => is_pair(map).then(|| call.pair_bytes(map.rank)),
        false => Some(call.bytes),
    };
    bytes.filter(|&bytes| bytes >= LONG_BYTES_MIN)
}

/// A word that others look for.
static REACHED: u64 = u64::from_be_bytes(*b"reached!");

/// Whether each rank reaches the memory of all others. One that gave up the right to be attached to after the team was made
/// shall not lose its calls by being timed.
fn reaches_all(map: &Map, state: &mut State) -> Result<bool, EngineError> {
    let addresses = gather_words(map, state, [(&raw const REACHED) as u64])?;
    let reaches = |rank: Rank| {
        let [address] = addresses[rank.index()];
        Cma::of(map.processes[rank.index()]).reads(address, REACHED)
    };
    let mine = map.others().all(reaches);
    let all = gather_words(map, state, [mine.into()])?;
    Ok(all.iter().all(|&reaches| reaches == [1]))
}

mod vectors;

#[cfg(test)]
mod tests;
