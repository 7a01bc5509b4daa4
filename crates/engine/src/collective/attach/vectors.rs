//! The ways of vector forms of which no rank knows all lengths: what ranks tell each other of them.

use super::{UNKNOWN, found, reaches_all, recent, trial};
use crate::EngineError;
use crate::collective::Call;
use crate::collective::words::gather_words;
use crate::plan::{Found, selector};
use crate::run::BlockList;
use crate::selection::LONG_BYTES_MIN;
use crate::team::map::Map;
use crate::team::state::State;
use crate::ways::{OF_VECTORS, TIMED_CALLS, Times, Trial, Turn};
use ferrorail_base::Rank;
use ferrorail_coll::Collective;

/// What `call` goes by, which has long blocks here or in which all ranks look, if so. It may be one of those that are timed.
pub(super) fn percent(
    map: &Map,
    state: &mut State,
    call: &Call<'_>,
    mut looks: bool,
) -> Result<u32, EngineError> {
    let moved = moved(map, state, call);
    loop {
        match state.ways.next_vector(call.collective, looks, moved) {
            Turn::By(percent) => return Ok(percent),
            Turn::Start => {
                if !start(map, state, call)? {
                    return Ok(state.ways.of_vectors(call.collective));
                }
            }
            Turn::Compare(trial) => {
                compare(map, state, call, trial)?;
                looks = false;
            }
        }
    }
}

/// Bytes that this rank sends to others, and receives, in blocks that are so long that their way may depend on times.
fn moved(map: &Map, state: &mut State, call: &Call<'_>) -> [usize; 2] {
    let least = state.ways.vector(call.collective).least(|| {
        let selector = selector(map, Found::default());
        let depends = |class: &u32| selector.attach_decides_for(call.collective, 1 << class);
        let first = (LONG_BYTES_MIN.ilog2() + 1..usize::BITS).find(depends);
        first.map_or(usize::MAX, |class| (1 << (class - 1)) + 1)
    });
    [&call.send, &call.recv].map(|side| {
        let is_own = |&index: &u32| side.count() > 1 && Rank(index) == map.rank;
        let others = (0..side.count()).filter(|index| !is_own(index));
        let lengths = others.map(|index| side.block(index).bytes);
        lengths.filter(|&bytes| bytes >= least).sum()
    })
}

/// Ranks look at what they have passed on. Whether calls are timed, from this one on.
fn start(map: &Map, state: &mut State, call: &Call<'_>) -> Result<bool, EngineError> {
    let passed = state.ways.vector(call.collective).passed();
    let class = (call.collective, OF_VECTORS);
    let known = recent(map, class).map_or(UNKNOWN, u64::from);
    let all = gather_words(map, state, [passed.calls, passed.bytes, known])?;
    let bytes: u64 = all.iter().map(|&[_, bytes, _]| bytes).sum();
    let of_one = bytes / u64::from(map.topology.size());
    if !state.ways.vector(call.collective).measures(of_one) {
        return Ok(false);
    }
    match all[0] {
        [.., UNKNOWN] if reaches_all(map, state)? => {
            let calls = all.iter().map(|&[calls, ..]| calls).max().unwrap_or(1);
            let trial = trial(map, (of_one / calls.max(1)) as usize);
            state.ways.vector(call.collective).go_on(trial);
            Ok(true)
        }
        [.., known] => {
            decide(map, state, call.collective, u32::try_from(known).ok());
            Ok(false)
        }
    }
}

/// Compares what all ranks took in the last round of `trial`, for the bytes that went each way.
fn compare(
    map: &Map,
    state: &mut State,
    call: &Call<'_>,
    mut trial: Trial,
) -> Result<(), EngineError> {
    const WORDS: usize = size_of::<Times>() / size_of::<u64>() + TIMED_CALLS;
    let mut words = [0; WORDS];
    let (times, bytes) = words.split_at_mut(WORDS - TIMED_CALLS);
    times.copy_from_slice(&trial.times());
    for (word, bytes) in bytes.iter_mut().zip(trial.bytes()) {
        *word = bytes as u64;
    }
    let all = gather_words(map, state, words)?;
    let sent = std::array::from_fn(|timed| {
        let of_ranks = all.iter().map(|words| words[WORDS - TIMED_CALLS + timed]);
        of_ranks.sum::<u64>() as usize
    });
    let times: Vec<Times> = all
        .iter()
        .map(|words| std::array::from_fn(|word| words[word]))
        .collect();
    let vector = state.ways.vector(call.collective);
    if !trial.count(sent) {
        trial.again();
        match vector.is_vain() {
            true => decide(map, state, call.collective, None),
            false => vector.go_on(trial),
        }
        return Ok(());
    }
    match trial.compared(&times, map.has_cores) {
        None => vector.go_on(trial),
        Some(percent) => {
            let percent = found(map, (call.collective, OF_VECTORS), None, percent);
            decide(map, state, call.collective, Some(percent));
        }
    }
    Ok(())
}

fn decide(map: &Map, state: &mut State, collective: Collective, found: Option<u32>) {
    if let Some(before) = state.ways.vector(collective).decide(found) {
        state.plans.forget(map, collective, before);
    }
}
