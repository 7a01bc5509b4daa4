//! All-gather: every rank contributes a block, every rank gets all blocks by rank (MPI-4.1, 6.7).

use super::Call;
use crate::run::Side;
use crate::{EngineError, Team};
use ferrorail_base::Rank;
use ferrorail_coll::Collective;

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
            return self.empty(Collective::Allgather, Rank(0));
        }
        let own = recv.wrapping_add(self.map.rank.index() * bytes);
        self.call(&Call {
            collective: Collective::Allgather,
            root: Rank(0),
            send: Side::even(send.unwrap_or(own).cast_mut(), 1, bytes),
            recv: Side::even(recv, self.size(), bytes),
            bytes,
            reducer: None,
        })
    }
}
