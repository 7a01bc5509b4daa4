//! Waiting for what another rank publishes, or one of a group.

use super::form::{Ranks, Shape, is_exchange, passes_on};
use crate::EngineError;
use crate::barrier_order::Publishers;
use crate::blocking_wait::disagreement::{EagerMessage, Expected, Messages};
use crate::blocking_wait::{Blocked, BlockingWait};
use crate::tag::{number, with_annex};
use crate::team::map::Map;
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::Collective;
use ferrorail_shm::EagerSlot;

/// What an exchange waits for.
pub(super) struct Awaited {
    pub collective: Collective,
    pub by_length: bool,
    /// The operation's tag.
    pub op: u64,
    pub message: EagerMessage,
}

/// Waits for what is `awaited` in `slot`. Apart from the exchange, of which nothing is in memory that way.
#[inline(never)]
pub(super) fn wait(map: &Map, slot: &EagerSlot, awaited: Awaited) -> Result<(), EngineError> {
    let value = awaited.message.value;
    wait_until(map, awaited, || slot.value() == value)
}

/// Waits until it `has_come`, or what else the caller then does.
#[inline(always)]
pub(super) fn wait_until(
    map: &Map,
    awaited: Awaited,
    has_come: impl Fn() -> bool,
) -> Result<(), EngineError> {
    let message = awaited.message;
    let of = Rank(message.of.0);
    if awaited.collective.is_rooted() && map.yields_at_once() {
        let publishers = match Shape::of(awaited.collective).publishers {
            Ranks::Root => Publishers::Root(of),
            Ranks::All => Publishers::Others,
        };
        map.barrier_order.waits(number(message.value), publishers);
    }
    let mut blocking_wait = BlockingWait::new(map, awaited.collective.name());
    blocking_wait.expect(Expected {
        tag: awaited.op,
        messages: Messages::EagerSlot(message),
    });
    if blocking_wait.spin(&has_come) {
        return Ok(());
    }
    // In an exchange who has published waits as well.
    let has_published = |rank| {
        let slot = map.segment().eager_slot(rank, message.slot);
        is_exchange(awaited.collective) && number(slot.value()) >= number(message.value)
    };
    while !has_come() {
        if blocking_wait.spin_idle(true, has_published, &has_come) {
            break;
        }
        match blocking_wait.idle(Blocked::Node, || waiting_for(&message)) {
            Err(EngineError::Mismatch { .. }) if is_in_step(map, &awaited) => {
                return Err(EngineError::Truncated { rank: of });
            }
            outcome => outcome?,
        };
    }
    Ok(())
}

fn waiting_for(message: &EagerMessage) -> String {
    match message.ranks {
        1 => format!("rank {}", message.of.0),
        ranks => format!("ranks {} to {}", message.of.0, message.of.0 + ranks - 1),
    }
}

/// Whether the rank that is `awaited`, whose arguments differ, is in an eager call too. If neither takes an annex,
/// each has used one number and one slot, and said before what it had to say, unless a scan had to pass something on.
fn is_in_step(map: &Map, awaited: &Awaited) -> bool {
    let is_inlined = |tag| tag == with_annex(tag, false);
    let differs = |rank| {
        let slot = map
            .segment()
            .eager_slot(NodeRank(rank), awaited.message.slot);
        let seen = slot.value();
        is_inlined(seen) && awaited.message.is_contradicted_by(seen)
    };
    let says_first = !awaited.by_length && !passes_on(awaited.collective);
    says_first && is_inlined(awaited.op) && awaited.message.ranks().any(differs)
}
