//! All-gather: every rank contributes a block, every rank gets all blocks by rank (MPI-4.1, 6.7).

use crate::plan::Plan;
use crate::run::{Blocked, Patience, Run, UserBuffers};
use crate::team::State;
use crate::team::connect::connect;
use crate::team::map::{CHANNELS, Map};
use crate::{EngineError, Team};
use ferrorail_base::NodeRank;
use ferrorail_coll::{Collective, Landing};
use ferrorail_shm::InlineSlot;

const NAME: &str = "allgather";

/// Largest block that rides in the flag's cache line.
const INLINE_BYTES_MAX: usize = InlineSlot::PAYLOAD_BYTES;

impl Team {
    /// Gathers `bytes` bytes from `send` of every rank into `recv`, which holds `size()` blocks of
    /// `bytes` bytes. `send` is `None` where this rank's block is in `recv` already (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// After an error the team is unusable: peers may be anywhere.
    ///
    /// # Safety
    /// `send` is readable for `bytes` bytes, `recv` writable for `size() * bytes` bytes, they do not
    /// overlap, and nobody else touches either during the call.
    #[inline]
    pub unsafe fn allgather(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        bytes: usize,
    ) -> Result<(), EngineError> {
        if bytes == 0 {
            return Ok(());
        }
        let own = recv.wrapping_add(self.map.rank.index() * bytes);
        let send = send.unwrap_or(own);
        let mut state = self.enter()?;
        let state = &mut *state;
        if self.map.topology.size() == 1 {
            if send != own.cast_const() {
                // SAFETY: the caller vouches for both; one block each.
                unsafe { core::ptr::copy_nonoverlapping(send, own, bytes) }
            }
            let plan = state.plans.take(&self.map, Collective::Allgather, bytes);
            state.plans.put_back(plan, bytes);
            return Ok(());
        }
        let mut plan = state.plans.take(&self.map, Collective::Allgather, bytes);
        let outcome = if plan.inline && bytes <= INLINE_BYTES_MAX {
            // SAFETY: the caller's contract.
            unsafe { inline(&self.map, state, send, recv, bytes) }
        } else {
            scheduled(&self.map, state, &mut plan, send, recv, bytes)
        };
        state.plans.put_back(plan, bytes);
        if let Err(error) = &outcome {
            state.broken = Some(error.to_string());
        }
        outcome
    }
}

/// The schedule of a node-wide all-gather with payload and flag in one cache line: publish, then
/// read everybody else's. Slots alternate by the parity of the operation number, as channels do.
///
/// # Safety
/// As [`Team::allgather`].
#[inline]
unsafe fn inline(
    map: &Map,
    state: &mut State,
    send: *const u8,
    recv: *mut u8,
    bytes: usize,
) -> Result<(), EngineError> {
    state.op += 1;
    let op = state.op;
    let parity = (op % u64::from(CHANNELS)) as u32;
    let segment = map.segment();
    let mut block = [0u8; INLINE_BYTES_MAX];
    // SAFETY: the caller vouches for `send`; the length is at most that of `block`.
    unsafe { core::ptr::copy_nonoverlapping(send, block.as_mut_ptr(), bytes) }
    segment
        .inline_slot(map.node_rank, parity)
        .publish(op, &block[..bytes]);
    segment.doorbell().ring();
    let mut patience = None;
    for rank in 0..map.topology.size() {
        let dest = recv.wrapping_add(rank as usize * bytes);
        if rank == map.rank.0 {
            // SAFETY: the caller vouches for `recv`; `block` is a private copy.
            unsafe { core::ptr::copy_nonoverlapping(block.as_ptr(), dest, bytes) }
            continue;
        }
        let slot = segment.inline_slot(NodeRank(rank), parity);
        let mut theirs = [0u8; INLINE_BYTES_MAX];
        while !slot.try_read(op, &mut theirs[..bytes]) {
            patience
                .get_or_insert_with(|| Patience::new(map, NAME))
                .idle(Blocked::Node, || format!("rank {rank}"))?;
        }
        // SAFETY: as above.
        unsafe { core::ptr::copy_nonoverlapping(theirs.as_ptr(), dest, bytes) }
    }
    Ok(())
}

/// Runs the plan's schedule, over as many pieces of each block as scratch demands.
fn scheduled(
    map: &Map,
    state: &mut State,
    plan: &mut Plan,
    send: *const u8,
    recv: *mut u8,
    bytes: usize,
) -> Result<(), EngineError> {
    if !plan.connected {
        connect(map, state, &plan.schedule.peers())?;
        plan.connected = true;
    }
    let piece = match plan.landing {
        Landing::Recv => bytes,
        Landing::Scratch => piece_bytes(map, plan, bytes),
    };
    let mut offset = 0;
    while offset < bytes {
        state.op += 1;
        let blocks = map.topology.size();
        let length = piece.min(bytes - offset);
        let user = UserBuffers {
            send,
            recv,
            blocks,
            stride: bytes,
            offset,
            bytes: length,
        };
        Run::new(map, &plan.schedule, plan.landing, user, state.op).complete(state, NAME)?;
        offset += length;
    }
    Ok(())
}

/// Largest piece of a block, a multiple of a cache line, with which the schedule fits into scratch.
fn piece_bytes(map: &Map, plan: &Plan, bytes: usize) -> usize {
    let scratch = map.segment().layout().scratch_bytes as usize;
    let most = scratch / plan.schedule.scratch_blocks.max(1) as usize;
    if bytes <= most { bytes } else { most & !63 }
}
