//! The reductions (MPI-4.1, 6.9 to 6.11): everyone has a vector of elements, which a [`Reducer`]
//! combines element by element.

use super::Call;
use crate::reducer::Reducer;
use crate::run::{Block, Side};
use crate::{EngineError, Team};
use ferrorail_base::Rank;
use ferrorail_coll::Collective;

impl Team {
    /// Reduces the vectors of `elements` elements at `send` of all ranks into `recv` of every rank,
    /// where the result is the same to the bit. `send` is `None` where this rank's vector is in
    /// `recv` (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// [`EngineError::ElementTooLarge`], on all ranks, before anything has been done. After any
    /// other error the team is unusable: peers may be anywhere.
    ///
    /// # Safety
    /// `send` is readable and `recv` writable for the vector, they do not overlap, and nobody else
    /// touches either during the call. All ranks pass the same operation and number of elements.
    #[inline]
    pub unsafe fn allreduce(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        elements: usize,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let bytes = elements * reducer.element_bytes;
        self.reduction(Collective::Allreduce, Rank(0), bytes, reducer, || {
            (vector(send, recv, bytes), Side::even(recv, 1, bytes))
        })
    }

    /// As [`Team::allreduce`], into `recv` of `root` alone; elsewhere `recv` is not looked at.
    ///
    /// # Errors
    /// As [`Team::allreduce`].
    ///
    /// # Safety
    /// As [`Team::allreduce`]; `root` is a rank of the team, and only it passes `None`.
    #[inline]
    pub unsafe fn reduce(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        elements: usize,
        root: Rank,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let bytes = elements * reducer.element_bytes;
        let received = u32::from(self.rank() == root);
        self.reduction(Collective::Reduce, root, bytes, reducer, || {
            (vector(send, recv, bytes), Side::even(recv, received, bytes))
        })
    }

    /// Reduces vectors of a block of `elements` elements per rank; each rank receives its block of
    /// the result in `recv`. `send` is `None` where the vector is in `recv`, whose first block
    /// then takes the result.
    ///
    /// # Errors
    /// As [`Team::allreduce`].
    ///
    /// # Safety
    /// As [`Team::allreduce`], with a vector of `size()` blocks in `send`, or in `recv` if that is
    /// `None`.
    pub unsafe fn reduce_scatter_block(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        elements: usize,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let bytes = elements * reducer.element_bytes;
        self.reduction(
            Collective::ReduceScatterBlock,
            Rank(0),
            bytes,
            reducer,
            || {
                let send = send.unwrap_or(recv).cast_mut();
                let send = Side::even(send, self.size(), bytes);
                (send, Side::even(recv, 1, bytes))
            },
        )
    }

    /// As [`Team::reduce_scatter_block`], with a block of `blocks` for each rank, which lie from
    /// `send`, or from `recv` if that is `None`, on: one after another from offset 0, whole elements
    /// each. All ranks pass the same lengths.
    ///
    /// # Errors
    /// As [`Team::allreduce`].
    ///
    /// # Safety
    /// As [`Team::reduce_scatter_block`].
    pub unsafe fn reduce_scatter(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        blocks: &[Block],
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let longest = blocks.iter().map(|block| block.bytes).max().unwrap_or(0);
        self.reduction(Collective::ReduceScatter, Rank(0), longest, reducer, || {
            let send = Side::table(send.unwrap_or(recv).cast_mut(), blocks);
            let own = blocks[self.rank().index()].bytes;
            (send, Side::even(recv, 1, own))
        })
    }

    /// Reduces the vectors of ranks 0 up to this one into `recv`.
    ///
    /// # Errors
    /// As [`Team::allreduce`].
    ///
    /// # Safety
    /// As [`Team::allreduce`].
    pub unsafe fn scan(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        elements: usize,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let bytes = elements * reducer.element_bytes;
        self.reduction(Collective::Scan, Rank(0), bytes, reducer, || {
            (vector(send, recv, bytes), Side::even(recv, 1, bytes))
        })
    }

    /// Reduces the vectors of the ranks before this one into `recv`; that of rank 0 is not written.
    ///
    /// # Errors
    /// As [`Team::allreduce`].
    ///
    /// # Safety
    /// As [`Team::allreduce`].
    pub unsafe fn exscan(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        elements: usize,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let bytes = elements * reducer.element_bytes;
        let received = u32::from(self.rank().0 > 0);
        self.reduction(Collective::Exscan, Rank(0), bytes, reducer, || {
            (vector(send, recv, bytes), Side::even(recv, received, bytes))
        })
    }

    #[inline]
    fn reduction<'a>(
        &self,
        collective: Collective,
        root: Rank,
        bytes: usize,
        reducer: &Reducer<'a>,
        sides: impl FnOnce() -> (Side<'a>, Side<'a>),
    ) -> Result<(), EngineError> {
        if bytes == 0 {
            return Ok(());
        }
        let (send, recv) = sides();
        self.call(&Call {
            collective,
            root,
            send,
            recv,
            bytes,
            reducer: Some(*reducer),
        })
    }
}

/// The contribution of a reduction of whole vectors.
#[inline]
fn vector<'a>(send: Option<*const u8>, recv: *mut u8, bytes: usize) -> Side<'a> {
    Side::even(send.map_or(recv, <*const u8>::cast_mut), 1, bytes)
}
