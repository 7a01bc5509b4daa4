//! The vector forms: blocks of different sizes (MPI-4.1, 6.5 to 6.8).
//!
//! A list of [`Block`]s says where each block lies, and has one entry per rank.

use super::Call;
use crate::run::{Block, BlockList, Even, Table};
use crate::{EngineError, Team};
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
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
    #[inline(always)]
    pub unsafe fn allgatherv(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        blocks: &[Block],
    ) -> Result<(), EngineError> {
        let recv = Table { base: recv, blocks };
        let own = recv.block(self.rank().0);
        let send = send.map_or(own.as_ptr(), <*const u8>::cast_mut);
        let send = Even::new(send, 1, own.bytes);
        match recv.longest() {
            0 => Ok(()),
            bytes => self.call(Call::new(Collective::Allgatherv, send, recv, bytes)),
        }
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
    #[inline(always)]
    pub unsafe fn gatherv(
        &self,
        send: Option<*const u8>,
        bytes: usize,
        recv: *mut u8,
        blocks: &[Block],
        root: Rank,
    ) -> Result<(), EngineError> {
        let recv = self.table_at(root, recv, blocks);
        let send = one_block(send.map(<*const u8>::cast_mut), bytes, recv, root);
        let call = Call::new(Collective::Gatherv, send, recv, 0);
        self.call(Call { root, ..call })
    }

    /// Scatters `blocks` of `send` of `root`, one to the `bytes` bytes at `recv` of each rank;
    /// elsewhere they are not looked at. At the root `recv` is `None` where its block stays.
    ///
    /// # Errors
    /// As [`Team::allgatherv`].
    ///
    /// # Safety
    /// As [`Team::gatherv`].
    #[inline(always)]
    pub unsafe fn scatterv(
        &self,
        send: *const u8,
        blocks: &[Block],
        recv: Option<*mut u8>,
        bytes: usize,
        root: Rank,
    ) -> Result<(), EngineError> {
        let send = self.table_at(root, send.cast_mut(), blocks);
        let recv = one_block(recv, bytes, send, root);
        let call = Call::new(Collective::Scatterv, send, recv, 0);
        self.call(Call { root, ..call })
    }

    /// Brings block `j` of `send` of rank `i` into block `i` of `recv` of rank `j`.
    ///
    /// # Errors
    /// As [`Team::allgatherv`].
    ///
    /// # Safety
    /// As [`Team::allgatherv`].
    #[inline(always)]
    pub unsafe fn alltoallv(
        &self,
        send: *const u8,
        send_blocks: &[Block],
        recv: *mut u8,
        recv_blocks: &[Block],
    ) -> Result<(), EngineError> {
        let send = Table {
            base: send.cast_mut(),
            blocks: send_blocks,
        };
        let recv = Table {
            base: recv,
            blocks: recv_blocks,
        };
        self.call(Call::new(Collective::Alltoallv, send, recv, 0))
    }

    /// The blocks of the root of a rooted call; other ranks have none.
    #[inline(always)]
    fn table_at<'a>(&self, root: Rank, base: *mut u8, blocks: &'a [Block]) -> Table<'a> {
        let blocks = if self.rank() == root { blocks } else { &[] };
        Table { base, blocks }
    }
}

/// The block that a rank has for, or from, the root: the one `given`, or that in the root's own `table`.
#[inline(always)]
fn one_block(given: Option<*mut u8>, bytes: usize, table: Table<'_>, root: Rank) -> Even {
    let given = given.map(|address| MemoryRange::new(address, bytes));
    let block = given.unwrap_or_else(|| table.block(root.0));
    Even::new(block.as_ptr(), 1, block.bytes)
}
