//! Whether long messages of the few ranks of a node go through its segment or by cross-memory attach.
//!
//! Which is faster depends on the processor, on how far apart the cores are, and on what the kernel takes for each page:
//! between near cores of one machine the segment takes two thirds of the time, between cores of another one half as long
//! again. So all ranks, after some long calls and again now and then, make the same all-to-all both ways. The times of
//! all together count; the rules of the table say what follows from them (`attach_percent`), for other collectives as
//! well: what differs is how far the cores are apart.

use super::by_length::long_pair;
use super::words::gather_words;
use super::{Call, scheduled};
use crate::EngineError;
use crate::choice::{self, Chooser};
use crate::plan::{Found, Plan, selector};
use crate::run::Even;
use crate::scratch::Scratch;
use crate::selection::{LONG_BYTES_MIN, Selector};
use crate::sequence::turning_bytes;
use crate::team::map::{CHANNELS, Map};
use crate::team::state::State;
use ferrorail_base::memory::{NoMemory, filled};
use ferrorail_base::sync::Mutex;
use ferrorail_base::{NodeRank, ProcessId, Rank};
use ferrorail_coll::Collective;
use ferrorail_coll::select::{NOT_MEASURED, Table};
use ferrorail_shm::Cma;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Length of the blocks that are timed: on both machines that were compared what is faster for these is so for longer ones.
const TRIAL_BYTES: usize = 128 << 10;

/// How often each way is timed, by turns; the median counts.
const ROUNDS: usize = 5;

/// How often before that: new scratch takes some rounds to get to the caches where it stays.
const FIRST_ROUNDS: usize = 3;

/// Operations in a row that are timed together. When a rank goes on after one depends on who else had its core.
const OPERATIONS: usize = 3;

/// A team makes so many long calls before it measures: what that takes, a program that makes few would not get back.
const CALLS_MIN: u32 = 16;

/// In so many operations the ranks look whether times are recent.
const INTERVAL: u64 = 64;

/// For how long they are, of two ranks: virtual processors move. Trials take 0.5 ms for two ranks, 3 ms for 4 and 13 ms for
/// 8 that share 2 cores.
const RECENT: Duration = Duration::from_secs(2);

/// What a rank says that knows no recent time.
const UNKNOWN: u64 = u64::MAX;

/// Teams of up to so many ranks measure.
const RANKS_MAX: u32 = 8;

/// What this process has measured, with whom.
struct Measured {
    processes: Vec<ProcessId>,
    /// `FERRORAIL_SCRATCH`: with little of it the segment takes long.
    scratch: Option<u64>,
    at: Instant,
    percent: u64,
}

impl Measured {
    fn is_of(&self, map: &Map) -> bool {
        self.processes == map.processes && self.scratch == map.settings.scratch_bytes
    }
}

/// The latest last.
static MEASURED: Mutex<Vec<Measured>> = Mutex::new(Vec::new());

/// So many are kept: a process has communicators of rows, of columns, of planes, and one that is forgotten is measured
/// anew as often as it asks.
const KEPT: usize = 128;

/// Measures, if `call` is long and it is time to.
///
/// # Errors
/// Those of the operations that are timed.
#[cold]
#[inline(never)]
pub(super) fn look(map: &Map, state: &mut State, call: &Call<'_>) -> Result<(), EngineError> {
    if state.sequence.op() < state.plans.measures_from {
        return Ok(());
    }
    let found = state.plans.found();
    let of = *(state.plans.measures_for).get_or_insert_with(|| dependent(map, found));
    if of & bit(call.collective) == 0 || !is_long(map, call) {
        return Ok(());
    }
    state.plans.long_calls += 1;
    if state.plans.long_calls < CALLS_MIN {
        return Ok(());
    }
    let mut percent = gather_words(map, state, recent(map).unwrap_or(UNKNOWN))?[0];
    if percent == UNKNOWN {
        percent = measure(map, state)?;
        tracing::debug!(
            percent,
            "long messages by cross-memory attach instead of through the segment"
        );
        keep(map, percent);
    }
    state.plans.set_attach_percent(map, percent as u32);
    state.plans.measures_from = state.sequence.op() + INTERVAL;
    Ok(())
}

fn recent(map: &Map) -> Option<u64> {
    let all = MEASURED.lock();
    let last = all.iter().find(|known| known.is_of(map))?;
    let pairs = (map.topology.size() / 2).pow(2);
    (last.at.elapsed() < RECENT * pairs).then_some(last.percent)
}

fn keep(map: &Map, percent: u64) {
    let mut all = MEASURED.lock();
    all.retain(|known| !known.is_of(map));
    if all.len() == KEPT {
        all.remove(0);
    }
    all.push(Measured {
        processes: map.processes.clone(),
        scratch: map.settings.scratch_bytes,
        at: Instant::now(),
        percent,
    });
}

/// The collectives whose choices depend on the times, a [`bit`] each.
fn dependent(map: &Map, found: Found) -> u32 {
    let measures = (2..=RANKS_MAX).contains(&map.topology.size())
        && map.topology.node_count() == 1
        && map.zero_copy
        && map.settings.attach_percent.is_none();
    let selector = selector(map, found);
    let all = Collective::ALL.iter().filter(|_| measures);
    all.filter(|&&of| selector.attach_decides(of))
        .fold(0, |mask, &of| mask | bit(of))
}

fn bit(collective: Collective) -> u32 {
    1 << collective as u32
}

/// Whether all ranks know that `call` has a block of [`LONG_BYTES_MIN`] bytes: of forms in which lengths are known to the two
/// ends alone, where there are no others.
fn is_long(map: &Map, call: &Call<'_>) -> bool {
    match choice::by_length(call.collective) {
        true => long_pair(map, call, LONG_BYTES_MIN - 1).is_some(),
        false => call.bytes >= LONG_BYTES_MIN,
    }
}

/// Time by cross-memory attach in percent of the time through the segment, of all ranks together; [`NOT_MEASURED`] if a
/// rank has no memory for that, or does not reach another's any more.
fn measure(map: &Map, state: &mut State) -> Result<u64, EngineError> {
    let ranks = map.topology.size();
    let bytes = ranks as usize * TRIAL_BYTES;
    let buffers = filled(bytes, 0u8).and_then(|sent| Ok((sent, filled(bytes, 0)?)));
    let is_ready = reaches_all(map, state, &buffers)?;
    let ready = gather_words(map, state, is_ready.into())?;
    let (Ok((mut sent, mut received)), true) = (buffers, ready.iter().all(|&ready| ready == 1))
    else {
        return Ok(NOT_MEASURED.into());
    };
    let send = Even::new(sent.as_mut_ptr(), ranks, TRIAL_BYTES);
    let recv = Even::new(received.as_mut_ptr(), ranks, TRIAL_BYTES);
    let call = Call::new(Collective::Alltoall, send, recv, TRIAL_BYTES).general();
    let times = time_both_ways(map, state, &call, &mut sent);
    if times.is_err() {
        // Another rank may be late, and still write there.
        std::mem::forget(received);
    }
    let [segment, attach] = times?;
    let all = gather_words(map, state, u64::from(segment) << 32 | u64::from(attach))?;
    let segment: u64 = all.iter().map(|times| times >> 32).sum();
    let attach: u64 = all.iter().map(|&times| u64::from(times as u32)).sum();
    Ok((100 * attach / segment).min(u64::from(NOT_MEASURED) - 1))
}

/// What `call`, which sends all of `sent`, takes through the segment and by cross-memory attach, in nanoseconds.
fn time_both_ways(
    map: &Map,
    state: &mut State,
    call: &Call<'_>,
    sent: &mut [u8],
) -> Result<[u32; 2], EngineError> {
    let mut ways = both_ways(map, call).map(|plan| (plan, Vec::new()));
    populate_scratch(map, call.collective);
    for round in 0..FIRST_ROUNDS + ROUNDS {
        for (plan, times) in &mut ways {
            let start = Instant::now();
            for _ in 0..OPERATIONS {
                // Programs send what they have just written.
                // SAFETY: all of `sent`; nobody reads it between operations.
                unsafe { sent.as_mut_ptr().write_bytes(round as u8, sent.len()) };
                scheduled(map, state, plan, call)?;
            }
            // Of ranks that share cores one may be through while others have yet to copy.
            gather_words(map, state, 0)?;
            if round >= FIRST_ROUNDS {
                times.push(start.elapsed());
            }
        }
    }
    Ok(ways.map(|(_, mut times)| {
        times.sort_unstable();
        let median = times[ROUNDS / 2].as_nanos().max(1);
        u32::try_from(median).unwrap_or(u32::MAX)
    }))
}

/// Has the scratch mapped that calls of `collective` use, of all ranks. Until it is, which without this takes a hundred
/// operations, these take twice as long.
fn populate_scratch(map: &Map, collective: Collective) {
    let (segment, scratch) = (map.segment(), Scratch::of(map));
    let turning = turning_bytes(scratch.ranks, scratch.rotating as usize);
    for rank in (0..scratch.ranks).map(NodeRank) {
        segment.populate(match scratch.rotates(collective) {
            true => segment.rotating(rank, 0, turning),
            false => segment.wide_scratch(rank, 0, CHANNELS),
        });
    }
}

/// Whether this rank reaches the memory of all others, each of which says where it has some. One that gave up the right to
/// be attached to after the team was made shall not lose its calls by being timed.
fn reaches_all(
    map: &Map,
    state: &mut State,
    memory: &Result<(Vec<u8>, Vec<u8>), NoMemory>,
) -> Result<bool, EngineError> {
    let mine = memory.as_ref().map_or(0, |(sent, _)| sent.as_ptr() as u64);
    let all = gather_words(map, state, mine)?;
    let reaches = |rank: Rank| {
        let address = all[rank.index()];
        address != 0 && Cma::of(map.processes[rank.index()]).reads(address, 0)
    };
    Ok(memory.is_ok() && map.others().all(reaches))
}

/// `call` through the segment, and by cross-memory attach: whatever is forced, or rules of the user's say, it goes both ways.
fn both_ways(map: &Map, call: &Call<'_>) -> [Plan; 2] {
    let none = BTreeMap::new();
    [NOT_MEASURED, 0].map(|attach_percent| {
        let selector = Selector {
            chooser: Chooser {
                table: Table::shipped(),
                forced: &none,
                zero_copy: None,
            },
            attach_percent,
            ..selector(map, Found::default())
        };
        Plan::chosen_by(map, call.key(), &selector)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_threads::on_ranks;
    use ferrorail_base::config::Settings;
    use ferrorail_coll::Protocol;

    #[test]
    fn what_is_timed_goes_both_ways_whatever_is_forced() {
        for forced in ["", "direct", "pairwise", "bruck"] {
            let algorithm = BTreeMap::from([("alltoall".to_owned(), forced.to_owned())]);
            let settings = Settings {
                algorithm,
                ..Settings::default()
            };
            on_ranks(2, &settings, |team| {
                let none = Even::NONE;
                let call = Call::new(Collective::Alltoall, none, none, TRIAL_BYTES).general();
                let ways = both_ways(&team.map, &call).map(|plan| plan.protocol);
                assert_eq!(ways, [Protocol::Eager, Protocol::Rendezvous], "{forced}");
            });
        }
    }

    #[test]
    fn all_ranks_come_to_the_same_time() {
        let settings = Settings::default();
        let percents = Mutex::new(Vec::new());
        on_ranks(3, &settings, |team| {
            let percent = measure(&team.map, &mut team.state()).expect("measured");
            percents.lock().push(percent);
        });
        let percents = percents.lock();
        assert!(percents.len() == 3 && percents[0] > 0, "{percents:?}");
        assert!(percents[0] < NOT_MEASURED.into(), "{percents:?}");
        assert!(
            percents.iter().all(|&percent| percent == percents[0]),
            "{percents:?}"
        );
    }

    #[test]
    fn times_are_of_teams_with_as_much_scratch() {
        let of = |scratch_bytes| Settings {
            scratch_bytes,
            ..Settings::default()
        };
        on_ranks(2, &of(Some(8 << 10)), |team| keep(&team.map, 77));
        on_ranks(2, &of(Some(8 << 10)), |team| {
            assert_eq!(recent(&team.map), Some(77));
        });
        on_ranks(2, &of(Some(16 << 10)), |team| {
            assert_eq!(recent(&team.map), None);
        });
    }
}
