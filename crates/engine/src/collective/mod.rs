//! The collectives: one entry each, one way to run them.
//!
//! An entry says what the buffers are; [`Call`] carries that to [`Team::call`], which chooses the
//! plan, connects, cuts what exceeds scratch into pieces and runs the schedule.

mod allgather;
mod alltoall;
mod barrier;
mod rooted;

use crate::plan::{Plan, PlanKey};
use crate::run::{Run, UserBuffers};
use crate::team::State;
use crate::team::connect::connect;
use crate::team::map::Map;
use crate::{EngineError, Team};
use ferrorail_base::Rank;
use ferrorail_coll::registry::Cut;
use ferrorail_coll::{Collective, Landing};

/// The collectives that teams run; `coll` has algorithms for more.
pub const OFFERED: &[Collective] = &[
    Collective::Allgather,
    Collective::Barrier,
    Collective::Bcast,
    Collective::Gather,
    Collective::Scatter,
    Collective::Alltoall,
];

/// One call of a collective.
#[derive(Clone, Copy, Debug)]
struct Call {
    collective: Collective,
    root: Rank,
    /// First block of the contribution; only read where this rank contributes.
    send: *const u8,
    /// Blocks there.
    send_blocks: u32,
    /// First block of the result; only written where this rank receives.
    recv: *mut u8,
    /// Blocks there.
    recv_blocks: u32,
    /// Length of a block.
    bytes: usize,
}

impl Team {
    /// Runs `call` to its end.
    ///
    /// # Errors
    /// After an error the team is unusable: peers may be anywhere.
    fn call(&self, call: &Call) -> Result<(), EngineError> {
        let mut state = self.enter()?;
        let state = &mut *state;
        let key = PlanKey::new(call.collective, call.root, call.bytes);
        let mut plan = state.plans.take(&self.map, key);
        let outcome = if self.map.topology.size() == 1 {
            // SAFETY: the entry's caller vouches for its buffers; one block each.
            unsafe { alone(call) };
            Ok(())
        } else if plan.inline && call.bytes <= allgather::INLINE_BYTES_MAX {
            // SAFETY: the entry's caller vouches for its buffers.
            unsafe { allgather::inline(&self.map, state, call) }
        } else {
            scheduled(&self.map, state, &mut plan, call)
        };
        state.plans.put_back(plan, call.bytes);
        if let Err(error) = &outcome {
            state.broken = Some(error.to_string());
        }
        outcome
    }
}

/// A collective of one rank: its block is its own.
///
/// # Safety
/// The call's buffers are valid for a block each, where they are not null.
unsafe fn alone(call: &Call) {
    if call.send_blocks > 0 && call.recv_blocks > 0 && call.send != call.recv.cast_const() {
        // SAFETY: the caller vouches for both.
        unsafe { core::ptr::copy_nonoverlapping(call.send, call.recv, call.bytes) }
    }
}

/// Runs the plan's schedule, over as many pieces of each block as scratch demands.
fn scheduled(
    map: &Map,
    state: &mut State,
    plan: &mut Plan,
    call: &Call,
) -> Result<(), EngineError> {
    connect_peers(map, state, plan)?;
    let piece = match plan.landing {
        Landing::Recv => call.bytes,
        Landing::Scratch => piece_bytes(map, plan, call.bytes),
    };
    let mut offset = 0;
    loop {
        let turn = if call.collective == Collective::Barrier {
            state.clock.next_sync()
        } else {
            if state.clock.must_synchronise() {
                barrier::synchronise(map, state)?;
            }
            state.clock.next()
        };
        let length = piece.min(call.bytes - offset);
        let user = UserBuffers {
            send: call.send,
            send_blocks: call.send_blocks,
            recv: call.recv,
            recv_blocks: call.recv_blocks,
            stride: call.bytes,
            offset,
            bytes: length,
            parts: plan.parts,
        };
        Run::new(map, plan, user, turn).complete(state, call.collective.name())?;
        if call.collective.synchronising() {
            state.clock.synchronised();
        }
        offset += length;
        if offset >= call.bytes {
            return Ok(());
        }
    }
}

/// Connects the peers that `plan` names, at its first run.
fn connect_peers(map: &Map, state: &mut State, plan: &mut Plan) -> Result<(), EngineError> {
    if !plan.connected {
        connect(map, state, &plan.schedule.peers())?;
        plan.connected = true;
    }
    Ok(())
}

/// Largest piece of a block (of a whole vector, where the algorithm cuts that), a multiple of a
/// cache line per part, with which the schedule fits into scratch.
fn piece_bytes(map: &Map, plan: &Plan, bytes: usize) -> usize {
    let scratch = map.segment().layout().scratch_bytes as usize;
    let most = scratch / plan.schedule.scratch_blocks.max(1) as usize;
    let parts = match plan.algorithm.cut {
        Cut::PerRank => plan.parts as usize,
        Cut::Blocks | Cut::Whole => 1,
    };
    if bytes.div_ceil(parts) <= most {
        bytes
    } else {
        (most & !63) * parts
    }
}
