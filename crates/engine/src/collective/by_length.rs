//! Vector forms of which no rank knows all lengths: each message goes by the length of its pair.
//!
//! On one node what is short enough rides in the flags' cache lines. What has room in scratch takes
//! it. What has not goes straight into user memory, once its receiver has announced where; both
//! ends know which of the two it is. Where user memory cannot be reached, the ranks first agree how
//! many pieces the longest message takes.

use super::{
    Call, Load, allocate, connect_peers, eager, finish, piece_in, prepare_pieces, scheduled,
};
use crate::EngineError;
use crate::choice::ZERO_COPY_BYTES_MIN;
use crate::plan::{Plan, PlanKey};
use crate::run::{Run, Side, UserBuffers, Window, beside_cells};
use crate::sequence::ChannelRequest;
use crate::team::State;
use crate::team::map::Map;
use ferrorail_base::Rank;
use ferrorail_coll::Collective;

pub(super) fn run(
    map: &Map,
    state: &mut State,
    plan: &mut Plan,
    call: &Call<'_>,
) -> Result<(), EngineError> {
    connect_peers(map, state, plan, call)?;
    let mut scratch = map.segment().layout().scratch_bytes;
    if plan.large.is_some() {
        scratch = beside_cells(scratch as usize, map.topology.size()) as u64;
    }
    let load = Load {
        collective: call.collective,
        bytes: ZERO_COPY_BYTES_MIN as usize,
        unit: 1,
    };
    let capacity = piece_in(scratch, map, plan, load);
    let user = |window| UserBuffers {
        send: call.send,
        recv: call.recv,
        window,
        parts: 1,
        pairs: true,
        reducer: None,
    };
    let name = call.collective.name();
    plan.runs += 1;
    if let Some(large) = &plan.large {
        let mut above = 0;
        if let Some(form) = plan.eager {
            above = form.share(map.topology.size());
            // SAFETY: the entry's caller vouches for its buffers.
            unsafe { eager::run_short_blocks(map, state, call, form)? };
        }
        // One operation: a pair has the same slot in both schedules, and uses it in one of them.
        let passes = call.send.has_block_above(above) || call.recv.has_block_above(above);
        let allocation = match passes || map.topology.node_count() > 1 {
            true => allocate(map, state, call, ChannelRequest::CHANNEL)?,
            // Nothing passes here; who waits for a free channel does not need this rank for it.
            false => state.sequence.next(ChannelRequest::CHANNEL).tagged(
                call.collective,
                call.root,
                call.bytes,
            ),
        };
        if passes {
            let scratch = user(Window::Between { above, capacity });
            Run::new(map, &plan.route, scratch, allocation).complete(state, name)?;
            // Little scratch has less room than the flags' cache lines.
            let direct = user(Window::Above {
                capacity: capacity.max(above),
            });
            Run::new(map, large, direct, allocation).complete(state, name)?;
        }
        return Ok(());
    }
    let longest = longest(map, state, call)?;
    if capacity < longest {
        prepare_pieces(map, state)?;
    }
    let mut offset = 0;
    while offset < longest {
        let allocation = allocate(map, state, call, ChannelRequest::CHANNEL)?;
        let window = Window::Piece { offset, capacity };
        Run::new(map, &plan.route, user(window), allocation).complete(state, name)?;
        finish(map, state);
        offset += capacity;
    }
    Ok(())
}

/// Length of the longest block of any rank.
fn longest(map: &Map, state: &mut State, call: &Call<'_>) -> Result<usize, EngineError> {
    let lengths = |side: &Side<'_>| {
        let own = (0..side.count()).map(|index| side.block(index).bytes);
        own.max().unwrap_or(0) as u64
    };
    let mut own = lengths(&call.send).max(lengths(&call.recv));
    let mut all = vec![0u64; map.topology.size() as usize];
    let bytes = size_of::<u64>();
    let exchange = Call {
        collective: Collective::Allgather,
        root: Rank(0),
        send: Side::even((&raw mut own).cast(), 1, bytes),
        recv: Side::even(all.as_mut_ptr().cast(), map.topology.size(), bytes),
        bytes,
        reducer: None,
    };
    let key = PlanKey::new(exchange.collective, exchange.root, bytes);
    let mut plan = state.plans.take(map, key);
    let outcome = scheduled(map, state, &mut plan, &exchange);
    state.plans.keep(plan);
    outcome?;
    Ok(all.into_iter().max().unwrap_or(0) as usize)
}
