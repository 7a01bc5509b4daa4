//! All-gather: every rank contributes a block, every rank gets all blocks by rank (MPI-4.1, 6.7).

use super::Call;
use crate::run::{Blocked, Patience, Side};
use crate::team::State;
use crate::team::map::Map;
use crate::{EngineError, Team};
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::Collective;
use ferrorail_shm::InlineSlot;

/// Largest block that rides in the flag's cache line.
pub(super) const INLINE_BYTES_MAX: usize = InlineSlot::PAYLOAD_BYTES;

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
        self.call(&Call {
            collective: Collective::Allgather,
            root: Rank(0),
            send: Side::even(send.unwrap_or(own).cast_mut(), 1, bytes),
            recv: Side::even(recv, self.size(), bytes),
            bytes,
        })
    }
}

/// The schedule of a node-wide all-gather with payload and flag in one cache line: publish, then
/// read everybody else's. Slots alternate, as channels do.
///
/// # Safety
/// As [`Team::allgather`]; no block is longer than [`INLINE_BYTES_MAX`].
#[inline]
pub(super) unsafe fn inline(
    map: &Map,
    state: &mut State,
    call: &Call<'_>,
) -> Result<(), EngineError> {
    let (op, parity) = state.clock.next_inline();
    let own = call.send.block(0);
    let segment = map.segment();
    let mut block = [0u8; INLINE_BYTES_MAX];
    // SAFETY: the caller vouches for `send`; the length is at most that of `block`.
    unsafe { core::ptr::copy_nonoverlapping(own.as_ptr(), block.as_mut_ptr(), own.bytes) }
    segment
        .inline_slot(map.node_rank, parity)
        .publish(op, &block[..own.bytes]);
    segment.doorbell().ring();
    let mut patience = None;
    for rank in 0..map.topology.size() {
        let dest = call.recv.block(rank);
        if rank == map.rank.0 {
            // SAFETY: the caller vouches for `recv`; `block` is a private copy.
            unsafe { core::ptr::copy_nonoverlapping(block.as_ptr(), dest.as_ptr(), dest.bytes) }
            continue;
        }
        let slot = segment.inline_slot(NodeRank(rank), parity);
        let mut theirs = [0u8; INLINE_BYTES_MAX];
        while !slot.try_read(op, &mut theirs[..dest.bytes]) {
            patience
                .get_or_insert_with(|| Patience::new(map, call.collective.name()))
                .idle(Blocked::Node, || format!("rank {rank}"))?;
        }
        // SAFETY: as above.
        unsafe { core::ptr::copy_nonoverlapping(theirs.as_ptr(), dest.as_ptr(), dest.bytes) }
    }
    state.clock.synchronised();
    Ok(())
}
