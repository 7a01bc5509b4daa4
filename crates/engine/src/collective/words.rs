//! What ranks tell each other within a call: one word each.

use super::{Call, scheduled};
use crate::EngineError;
use crate::run::Even;
use crate::team::map::Map;
use crate::team::state::State;
use ferrorail_base::Rank;
use ferrorail_coll::Collective;

/// No all-gather of a program has a root: who calls one of 8 bytes meanwhile is seen to disagree, as it waits elsewhere.
const ROOT: Rank = Rank(1);

/// Every rank's `words`, by rank. An operation of its own, for which all ranks come.
pub(super) fn gather_words<const WORDS: usize>(
    map: &Map,
    state: &mut State,
    mut words: [u64; WORDS],
) -> Result<Vec<[u64; WORDS]>, EngineError> {
    let mut all = vec![[0u64; WORDS]; map.topology.size() as usize];
    let bytes = size_of_val(&words);
    let send = Even::new((&raw mut words).cast(), 1, bytes);
    let recv = Even::new(all.as_mut_ptr().cast(), map.topology.size(), bytes);
    let exchange = Call {
        root: ROOT,
        ..Call::new(Collective::Allgather, send, recv, bytes).general()
    };
    let mut plan = state.plans.take(map, exchange.key());
    let outcome = scheduled(map, state, &mut plan, &exchange);
    state.plans.keep(plan);
    outcome.map(|()| all)
}
