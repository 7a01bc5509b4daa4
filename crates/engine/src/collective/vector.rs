//! The vector forms: blocks of different sizes (MPI-4.1, 6.5 to 6.8).
//!
//! A list of [`Block`]s says where each block lies, and has one entry per rank.

use super::Call;
use crate::run::{Block, Side};
use crate::{EngineError, Team};
use ferrorail_base::Rank;
use ferrorail_coll::Collective;

impl Team {
    /// Gathers the block at `send` of every rank into `blocks` of `recv`. Its length is that of
    /// this rank's block there; all ranks pass the same lengths. `send` is `None` where this rank's
    /// block is in place already.
    ///
    /// # Errors
    /// After an error the team is unusable: peers may be anywhere.
    ///
    /// # Safety
    /// The blocks are readable and writable, do not overlap, and nobody else touches them during
    /// the call.
    #[inline]
    pub unsafe fn allgatherv(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        blocks: &[Block],
    ) -> Result<(), EngineError> {
        let recv = Side::table(recv, blocks);
        let own = recv.block(self.rank().0);
        let send = send.map_or(own.as_ptr(), <*const u8>::cast_mut);
        let bytes = blocks.iter().map(|block| block.bytes).max().unwrap_or(0);
        if bytes == 0 {
            return Ok(());
        }
        self.call(&Call {
            collective: Collective::Allgatherv,
            root: Rank(0),
            send: Side::even(send, 1, own.bytes),
            recv,
            bytes,
            reducer: None,
        })
    }

    /// Gathers the `bytes` bytes at `send` of every rank into `blocks` of `recv` of `root`;
    /// elsewhere these are not looked at. At the root `send` is `None` where its block is in place
    /// already.
    ///
    /// # Errors
    /// As [`Team::allgatherv`].
    ///
    /// # Safety
    /// As [`Team::allgatherv`]; only the root passes `None`, and `blocks` of its length.
    #[inline]
    pub unsafe fn gatherv(
        &self,
        send: Option<*const u8>,
        bytes: usize,
        recv: *mut u8,
        blocks: &[Block],
        root: Rank,
    ) -> Result<(), EngineError> {
        let recv = match self.rank() == root {
            true => Side::table(recv, blocks),
            false => Side::NONE,
        };
        let send = match send {
            Some(send) => Side::even(send.cast_mut(), 1, bytes),
            None => {
                let own = recv.block(root.0);
                Side::even(own.as_ptr(), 1, own.bytes)
            }
        };
        self.call(&Call {
            collective: Collective::Gatherv,
            root,
            send,
            recv,
            bytes: 0,
            reducer: None,
        })
    }

    /// Scatters `blocks` of `send` of `root`, one to the `bytes` bytes at `recv` of each rank;
    /// elsewhere they are not looked at. At the root `recv` is `None` where its block stays.
    ///
    /// # Errors
    /// As [`Team::allgatherv`].
    ///
    /// # Safety
    /// As [`Team::gatherv`].
    #[inline]
    pub unsafe fn scatterv(
        &self,
        send: *const u8,
        blocks: &[Block],
        recv: Option<*mut u8>,
        bytes: usize,
        root: Rank,
    ) -> Result<(), EngineError> {
        let send = match self.rank() == root {
            true => Side::table(send.cast_mut(), blocks),
            false => Side::NONE,
        };
        let recv = match recv {
            Some(recv) => Side::even(recv, 1, bytes),
            None => {
                let own = send.block(root.0);
                Side::even(own.as_ptr(), 1, own.bytes)
            }
        };
        self.call(&Call {
            collective: Collective::Scatterv,
            root,
            send,
            recv,
            bytes: 0,
            reducer: None,
        })
    }

    /// Brings block `j` of `send` of rank `i` into block `i` of `recv` of rank `j`.
    ///
    /// # Errors
    /// As [`Team::allgatherv`].
    ///
    /// # Safety
    /// As [`Team::allgatherv`].
    #[inline]
    pub unsafe fn alltoallv(
        &self,
        send: *const u8,
        send_blocks: &[Block],
        recv: *mut u8,
        recv_blocks: &[Block],
    ) -> Result<(), EngineError> {
        self.call(&Call {
            collective: Collective::Alltoallv,
            root: Rank(0),
            send: Side::table(send.cast_mut(), send_blocks),
            recv: Side::table(recv, recv_blocks),
            bytes: 0,
            reducer: None,
        })
    }
}
