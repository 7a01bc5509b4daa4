//! Broadcast, gather, scatter (MPI-4.1, 6.4 to 6.6): one root, which nobody need wait for.

use super::Call;
use crate::run::Side;
use crate::{EngineError, Team};
use ferrorail_base::Rank;
use ferrorail_coll::Collective;

impl Team {
    /// Brings the `bytes` bytes in `buffer` of `root` into `buffer` of every rank.
    ///
    /// # Errors
    /// After an error the team is unusable: peers may be anywhere.
    ///
    /// # Safety
    /// `buffer` is readable (at the root) or writable (elsewhere) for `bytes` bytes, and nobody
    /// else touches it during the call. `root` is a rank of the team.
    #[inline]
    pub unsafe fn bcast(
        &self,
        buffer: *mut u8,
        bytes: usize,
        root: Rank,
    ) -> Result<(), EngineError> {
        if bytes == 0 {
            return self.empty(Collective::Bcast, root);
        }
        self.call(&Call {
            collective: Collective::Bcast,
            root,
            send: Side::NONE,
            recv: Side::even(buffer, 1, bytes),
            bytes,
            reducer: None,
        })
    }

    /// Gathers `bytes` bytes from `send` of every rank into `recv` of `root`, which holds `size()`
    /// such blocks; elsewhere `recv` is not looked at. At the root `send` is `None` where its block
    /// is in `recv` already (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// After an error the team is unusable: peers may be anywhere.
    ///
    /// # Safety
    /// The buffers are valid for these lengths, do not overlap, and nobody else touches them during
    /// the call. `root` is a rank of the team, and only it passes `None`.
    #[inline]
    pub unsafe fn gather(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        bytes: usize,
        root: Rank,
    ) -> Result<(), EngineError> {
        if bytes == 0 {
            return self.empty(Collective::Gather, root);
        }
        let is_root = self.map.rank == root;
        let own = recv.wrapping_add(root.index() * bytes).cast_const();
        self.call(&Call {
            collective: Collective::Gather,
            root,
            send: Side::even(send.unwrap_or(own).cast_mut(), 1, bytes),
            recv: Side::even(recv, if is_root { self.size() } else { 0 }, bytes),
            bytes,
            reducer: None,
        })
    }

    /// Scatters the `size()` blocks of `bytes` bytes in `send` of `root`, one to `recv` of each
    /// rank; elsewhere `send` is not looked at. At the root `recv` is `None` where its block stays
    /// in `send` (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// After an error the team is unusable: peers may be anywhere.
    ///
    /// # Safety
    /// As [`Team::gather`].
    #[inline]
    pub unsafe fn scatter(
        &self,
        send: *const u8,
        recv: Option<*mut u8>,
        bytes: usize,
        root: Rank,
    ) -> Result<(), EngineError> {
        if bytes == 0 {
            return self.empty(Collective::Scatter, root);
        }
        let is_root = self.map.rank == root;
        let own = send.wrapping_add(root.index() * bytes).cast_mut();
        self.call(&Call {
            collective: Collective::Scatter,
            root,
            send: Side::even(
                send.cast_mut(),
                if is_root { self.size() } else { 0 },
                bytes,
            ),
            recv: Side::even(recv.unwrap_or(own), 1, bytes),
            bytes,
            reducer: None,
        })
    }
}
