//! What an eager operation takes: a number, a slot and a part of the annexes.

use super::form::Form;
use crate::collective::Call;
use crate::run::BlockList;
use crate::sequence::{EagerRequest, EagerSlots};
use crate::tag::{tag, with_annex};
use crate::team::map::Map;
use crate::team::state::State;

/// What an operation has.
#[derive(Clone, Copy)]
pub(in crate::collective) struct Place {
    /// Its tag.
    pub op: u64,
    /// The slot that carries it.
    pub slot: u32,
    /// Where its annex begins in a rank's rotating scratch; 0 if it has none.
    pub annex: usize,
}

/// What the next operation takes, a `call` that goes by `form`.
#[inline(always)]
pub(in crate::collective) fn requested<S: BlockList, R: BlockList, const BY_LENGTH: bool>(
    map: &Map,
    state: &State,
    call: &Call<'_, S, R>,
    form: Form,
) -> EagerRequest {
    let bytes = match BY_LENGTH && form.of_pair {
        true => call.pair_bytes(map.rank),
        false => call.bytes,
    };
    let slots = EagerSlots::of(call.collective);
    (state.sequence).eager(slots, form.annexed::<BY_LENGTH>(bytes))
}

/// The next operation, a `call` that takes what is requested. All ranks take it, also those that have nothing to say and
/// nothing to hear.
#[inline(always)]
pub(in crate::collective) fn take_place<S, R>(
    state: &mut State,
    call: &Call<'_, S, R>,
    request: EagerRequest,
) -> Place {
    let (op, slot, annex) = state.sequence.next_eager(request);
    let tag = tag(op, call.collective, call.root, call.bytes);
    Place {
        op: with_annex(
            tag,
            annex.is_some() || crate::choice::by_length(call.collective),
        ),
        slot,
        annex: annex.unwrap_or(0),
    }
}
