//! Collectives of blocks of one length (MPI-4.1, 6.3 to 6.8): barrier, broadcast, gather, scatter, all-gather,
//! all-to-all. Nobody need wait for the root of a rooted one.

use super::Call;
use crate::run::Even;
use crate::{EngineError, Team};
use ferrorail_base::Rank;
use ferrorail_coll::Collective;

impl Team {
    /// Waits until every rank has called it: nobody leaves before everybody has entered.
    ///
    /// # Errors
    /// After an error the team is unusable: peers may be anywhere.
    #[inline(always)]
    pub fn barrier(&self) -> Result<(), EngineError> {
        // On one node what is exchanged is a block of no bytes.
        let nothing = Even::new(std::ptr::null_mut(), 1, 0);
        self.call(Call::new(Collective::Barrier, nothing, nothing, 0))
    }

    /// Brings the `bytes` bytes in `buffer` of `root` into `buffer` of every rank.
    ///
    /// # Errors
    /// After an error the team is unusable: peers may be anywhere.
    ///
    /// # Safety
    /// `buffer` is readable (at the root) or writable (elsewhere) for `bytes` bytes, and nobody
    /// else touches it during the call. `root` is a rank of the team.
    #[inline(always)]
    pub unsafe fn bcast(
        &self,
        buffer: *mut u8,
        bytes: usize,
        root: Rank,
    ) -> Result<(), EngineError> {
        let buffer = Even::new(buffer, 1, bytes);
        let call = Call::new(Collective::Bcast, Even::NONE, buffer, bytes);
        self.call_unless_empty(Call { root, ..call })
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
    #[inline(always)]
    pub unsafe fn gather(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        bytes: usize,
        root: Rank,
    ) -> Result<(), EngineError> {
        let own = recv.wrapping_add(root.index() * bytes).cast_const();
        let send = Even::new(send.unwrap_or(own).cast_mut(), 1, bytes);
        let recv = Even::new(recv, self.blocks_at(root), bytes);
        let call = Call::new(Collective::Gather, send, recv, bytes);
        self.call_unless_empty(Call { root, ..call })
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
    #[inline(always)]
    pub unsafe fn scatter(
        &self,
        send: *const u8,
        recv: Option<*mut u8>,
        bytes: usize,
        root: Rank,
    ) -> Result<(), EngineError> {
        let own = send.wrapping_add(root.index() * bytes).cast_mut();
        let send = Even::new(send.cast_mut(), self.blocks_at(root), bytes);
        let recv = Even::new(recv.unwrap_or(own), 1, bytes);
        let call = Call::new(Collective::Scatter, send, recv, bytes);
        self.call_unless_empty(Call { root, ..call })
    }

    /// Every rank contributes a block and gets all by rank: gathers `bytes` bytes from `send` of every rank into `recv`,
    /// which holds `size()` blocks of `bytes` bytes. `send` is `None` where this rank's block is in `recv` already (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// After an error the team is unusable: peers may be anywhere.
    ///
    /// # Safety
    /// `send` is readable for `bytes` bytes, `recv` writable for `size() * bytes` bytes, they do not
    /// overlap, and nobody else touches either during the call.
    #[inline(always)]
    pub unsafe fn allgather(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        bytes: usize,
    ) -> Result<(), EngineError> {
        let own = recv.wrapping_add(self.map.rank.index() * bytes);
        let send = Even::new(send.unwrap_or(own).cast_mut(), 1, bytes);
        let recv = Even::new(recv, self.size(), bytes);
        self.call_unless_empty(Call::new(Collective::Allgather, send, recv, bytes))
    }

    /// Every rank has a block for every rank: brings block `j` of `send` of rank `i` into block `i` of `recv` of rank
    /// `j`; blocks are `bytes` bytes long.
    ///
    /// # Errors
    /// After an error the team is unusable: peers may be anywhere.
    ///
    /// # Safety
    /// `send` is readable and `recv` writable for `size() * bytes` bytes, they do not overlap, and
    /// nobody else touches either during the call.
    #[inline(always)]
    pub unsafe fn alltoall(
        &self,
        send: *const u8,
        recv: *mut u8,
        bytes: usize,
    ) -> Result<(), EngineError> {
        let send = Even::new(send.cast_mut(), self.size(), bytes);
        let recv = Even::new(recv, self.size(), bytes);
        self.call_unless_empty(Call::new(Collective::Alltoall, send, recv, bytes))
    }

    /// Blocks that this rank has if the root has one for, or from, each.
    #[inline(always)]
    fn blocks_at(&self, root: Rank) -> u32 {
        match self.map.rank == root {
            true => self.size(),
            false => 0,
        }
    }

    #[inline(always)]
    fn call_unless_empty(&self, call: Call<'_, Even, Even>) -> Result<(), EngineError> {
        match call.bytes {
            0 => self.empty(call.collective, call.root),
            _ => self.call(call),
        }
    }
}
