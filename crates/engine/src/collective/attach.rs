//! Whether long messages of two ranks of a node go through its segment or by cross-memory attach.
//!
//! Which is faster depends on the processor, on how far apart the two cores are, and on what the kernel takes for each
//! page: between near cores of one machine the segment takes two thirds of the time, between cores of another one half
//! as long again. So both ranks, in the first long call and again now and then, make the same all-gather both ways.
//! Rank 0's times count; the rules of the table say what follows from them (`attach_percent`), for rooted collectives as
//! well: what differs is how far the cores are apart.

use super::by_length::long_pair;
use super::words::gather_words;
use super::{Call, scheduled};
use crate::EngineError;
use crate::plan::{Found, Plan, selector};
use crate::run::Even;
use crate::team::map::Map;
use crate::team::state::State;
use ferrorail_base::ProcessId;
use ferrorail_base::sync::Mutex;
use ferrorail_coll::Collective;
use ferrorail_coll::select::NOT_MEASURED;
use std::time::{Duration, Instant};

/// Shorter calls are not long: no shipped rule has them go by attach.
pub(super) const BYTES_MIN: usize = 16 << 10;

/// Length of the blocks that are timed: on both machines that were compared what is faster for these is so for longer ones.
const TRIAL_BYTES: usize = 128 << 10;

/// How often each way is timed, the least counts: the first times touch scratch that nobody had touched, channel by
/// channel.
const ROUNDS: usize = 12;

/// In so many operations the ranks look whether times are recent.
const INTERVAL: u64 = 64;

/// For how long they are: virtual processors move. All trials take less than a thousandth of the time.
const RECENT: Duration = Duration::from_secs(1);

/// What a rank says that knows no recent time.
const UNKNOWN: u64 = u64::MAX;

/// What this process measured last.
struct Measured {
    peer: ProcessId,
    at: Instant,
    percent: u64,
}

static LAST: Mutex<Option<Measured>> = Mutex::new(None);

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
    if !depends(map, state.plans.found()) {
        state.plans.measures_from = u64::MAX;
        return Ok(());
    }
    if !is_long(map, call) {
        return Ok(());
    }
    let mut percent = gather_words(map, state, recent(map).unwrap_or(UNKNOWN))?[0];
    if percent == UNKNOWN {
        let mine = measure(map, state)?;
        percent = gather_words(map, state, mine)?[0];
        tracing::debug!(percent, "long messages of two ranks by cross-memory attach");
        *LAST.lock() = Some(Measured {
            peer: peer(map),
            at: Instant::now(),
            percent,
        });
    }
    state.plans.set_attach_percent(map, percent as u32);
    state.plans.measures_from = state.sequence.op() + INTERVAL;
    Ok(())
}

fn peer(map: &Map) -> ProcessId {
    map.processes[1 - map.rank.index()]
}

fn recent(map: &Map) -> Option<u64> {
    let last = LAST.lock();
    let same = last.as_ref().filter(|last| last.peer == peer(map))?;
    (same.at.elapsed() < RECENT).then_some(same.percent)
}

/// Whether any choice of the team depends on the times.
fn depends(map: &Map, found: Found) -> bool {
    let could = map.topology.size() == 2
        && map.topology.node_count() == 1
        && map.has_cores
        && map.zero_copy
        && map.settings.attach_percent.is_none();
    let protocol = |collective, attach_percent| {
        let found = Found {
            attach_percent,
            ..found
        };
        let selector = selector(map, found);
        let query = selector.query(collective, TRIAL_BYTES as u64);
        selector.chooser.choose(&query).protocol
    };
    could
        && (Collective::ALL.iter())
            .any(|&collective| protocol(collective, 0) != protocol(collective, NOT_MEASURED))
}

/// Whether both ranks know that `call` has a block of [`BYTES_MIN`] bytes for the other.
fn is_long(map: &Map, call: &Call<'_>) -> bool {
    match call.collective {
        Collective::Gatherv | Collective::Scatterv | Collective::Alltoallv => {
            long_pair(map, call, BYTES_MIN - 1).is_some()
        }
        _ => call.bytes >= BYTES_MIN,
    }
}

/// Time by cross-memory attach in percent of the time through the segment.
fn measure(map: &Map, state: &mut State) -> Result<u64, EngineError> {
    let [mut sent, mut received] = [vec![0u8; TRIAL_BYTES], vec![0; 2 * TRIAL_BYTES]];
    let send = Even::new(sent.as_mut_ptr(), 1, TRIAL_BYTES);
    let recv = Even::new(received.as_mut_ptr(), 2, TRIAL_BYTES);
    let call = Call::new(Collective::Allgather, send, recv, TRIAL_BYTES).general();
    let mut ways = [NOT_MEASURED, 0].map(|attach_percent| {
        let found = Found {
            attach_percent,
            ..state.plans.found()
        };
        (Plan::new(map, call.key(), found), Duration::MAX)
    });
    for round in 0..ROUNDS {
        for (plan, least) in &mut ways {
            // Programs send what they have just written.
            // SAFETY: all of `sent`; nobody reads it between operations.
            unsafe { sent.as_mut_ptr().write_bytes(round as u8, TRIAL_BYTES) };
            let start = Instant::now();
            scheduled(map, state, plan, &call)?;
            *least = start.elapsed().min(*least);
        }
    }
    let [segment, attach] = ways.map(|(_, least)| least.as_nanos().max(1));
    Ok((100 * attach / segment).min(u128::from(NOT_MEASURED) - 1) as u64)
}
