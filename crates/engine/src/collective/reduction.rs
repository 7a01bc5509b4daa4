//! The reductions (MPI-4.1, 6.9 to 6.11): everyone has a vector of elements, which a [`Reducer`]
//! combines element by element.

use super::Call;
use crate::reducer::Reducer;
use crate::run::{Block, BlockList, Even, Side, Table};
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
    #[inline(always)]
    pub unsafe fn allreduce(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        elements: usize,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        self.reduction(vectors(
            Collective::Allreduce,
            send,
            recv,
            elements,
            reducer,
        ))
    }

    /// As [`Team::allreduce`], into `recv` of `root` alone; elsewhere `recv` is not looked at.
    ///
    /// # Errors
    /// As [`Team::allreduce`].
    ///
    /// # Safety
    /// As [`Team::allreduce`]; `root` is a rank of the team, and only it passes `None`.
    #[inline(always)]
    pub unsafe fn reduce(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        elements: usize,
        root: Rank,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let call = vectors(Collective::Reduce, send, recv, elements, reducer);
        let recv = Even::new(recv, u32::from(self.rank() == root), call.bytes);
        self.reduction(Call { root, recv, ..call })
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
    #[inline(always)]
    pub unsafe fn reduce_scatter_block(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        elements: usize,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let call = vectors(
            Collective::ReduceScatterBlock,
            send,
            recv,
            elements,
            reducer,
        );
        let send = Even::new(call.send.base, self.size(), call.bytes);
        self.reduction(Call { send, ..call })
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
    #[inline(always)]
    pub unsafe fn reduce_scatter(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        blocks: &[Block],
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let send = Table {
            base: send.unwrap_or(recv).cast_mut(),
            blocks,
        };
        let recv = Even::new(recv, 1, blocks[self.rank().index()].bytes);
        let call = Call::new(Collective::ReduceScatter, send, recv, send.longest());
        self.reduction(Call {
            reducer: Some(reducer),
            ..call
        })
    }

    /// Reduces the vectors of ranks 0 up to this one into `recv`.
    ///
    /// # Errors
    /// As [`Team::allreduce`].
    ///
    /// # Safety
    /// As [`Team::allreduce`].
    #[inline(always)]
    pub unsafe fn scan(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        elements: usize,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        self.reduction(vectors(Collective::Scan, send, recv, elements, reducer))
    }

    /// Reduces the vectors of the ranks before this one into `recv`; that of rank 0 is not written.
    ///
    /// # Errors
    /// As [`Team::allreduce`].
    ///
    /// # Safety
    /// As [`Team::allreduce`].
    #[inline(always)]
    pub unsafe fn exscan(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        elements: usize,
        reducer: &Reducer<'_>,
    ) -> Result<(), EngineError> {
        let call = vectors(Collective::Exscan, send, recv, elements, reducer);
        let recv = Even::new(recv, u32::from(self.rank().0 > 0), call.bytes);
        self.reduction(Call { recv, ..call })
    }

    #[inline(always)]
    fn reduction<'a, S, R>(&self, call: Call<'a, S, R>) -> Result<(), EngineError>
    where
        S: BlockList + Into<Side<'a>>,
        R: BlockList + Into<Side<'a>>,
    {
        match call.bytes {
            0 => Ok(()),
            _ => self.call(call),
        }
    }
}

/// A reduction of whole vectors, whose result every rank receives.
#[inline(always)]
fn vectors<'a>(
    collective: Collective,
    send: Option<*const u8>,
    recv: *mut u8,
    elements: usize,
    reducer: &'a Reducer<'a>,
) -> Call<'a, Even, Even> {
    let bytes = elements * reducer.element_bytes;
    let send = Even::new(send.unwrap_or(recv).cast_mut(), 1, bytes);
    Call {
        reducer: Some(reducer),
        ..Call::new(collective, send, Even::new(recv, 1, bytes), bytes)
    }
}
