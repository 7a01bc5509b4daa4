//! Waiting for what another rank publishes.

use super::Place;
use super::form::{Ranks, Shape, is_exchange, passes_on};
use crate::EngineError;
use crate::barrier_order::Publishers;
use crate::blocking_wait::disagreement::{Expected, Messages};
use crate::blocking_wait::{Blocked, BlockingWait};
use crate::tag::{contradicts, number, with_annex};
use crate::team::map::Map;
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::Collective;
use ferrorail_shm::EagerSlot;

/// What an exchange waits for.
pub(super) struct Awaited {
    pub collective: Collective,
    pub by_length: bool,
    pub place: Place,
    /// Who is to publish what in the slot.
    pub of: Rank,
    pub value: u64,
}

/// Waits for what is `awaited` in `slot`. Apart from the exchange, of which nothing is in memory that way.
#[inline(never)]
pub(super) fn wait(map: &Map, slot: &EagerSlot, awaited: Awaited) -> Result<(), EngineError> {
    let (of, value) = (awaited.of, awaited.value);
    if awaited.collective.is_rooted() && map.yields_at_once() {
        let publishers = match Shape::of(awaited.collective).publishers {
            Ranks::Root => Publishers::Root(of),
            Ranks::All => Publishers::Others,
        };
        map.barrier_order.waits(number(value), publishers);
    }
    let mut blocking_wait = BlockingWait::new(map, awaited.collective.name());
    blocking_wait.expect(Expected {
        tag: awaited.place.op,
        messages: Messages::EagerSlot(NodeRank(of.0), awaited.place.slot, value),
    });
    if blocking_wait.spin(|| slot.value() == value) {
        return Ok(());
    }
    // In an exchange who has published waits as well.
    let has_published = |rank| {
        let slot = map.segment().eager_slot(rank, awaited.place.slot);
        is_exchange(awaited.collective) && number(slot.value()) >= number(value)
    };
    while slot.value() != value {
        if blocking_wait.spin_idle(has_published, || slot.value() == value) {
            break;
        }
        match blocking_wait.idle(Blocked::Node, || format!("rank {of}")) {
            Err(EngineError::Mismatch { .. }) if is_in_step(slot, &awaited) => {
                return Err(EngineError::Truncated { rank: of });
            }
            outcome => outcome?,
        };
    }
    Ok(())
}

/// Whether the rank that is `awaited` in `slot`, whose arguments differ, is in an eager call too. If neither takes an annex,
/// each has used one number and one slot, and said before what it had to say, unless a scan had to pass something on.
fn is_in_step(slot: &EagerSlot, awaited: &Awaited) -> bool {
    let (op, seen) = (awaited.place.op, slot.value());
    let inlined = op == with_annex(op, false) && seen == with_annex(seen, false);
    !awaited.by_length && inlined && !passes_on(awaited.collective) && contradicts(seen, op)
}
