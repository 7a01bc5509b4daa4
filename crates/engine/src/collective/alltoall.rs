//! All-to-all: every rank has a block for every rank (MPI-4.1, 6.8).

use super::Call;
use crate::run::Side;
use crate::{EngineError, Team};
use ferrorail_base::Rank;
use ferrorail_coll::Collective;

impl Team {
    /// Brings block `j` of `send` of rank `i` into block `i` of `recv` of rank `j`; blocks are
    /// `bytes` bytes long.
    ///
    /// # Errors
    /// After an error the team is unusable: peers may be anywhere.
    ///
    /// # Safety
    /// `send` is readable and `recv` writable for `size() * bytes` bytes, they do not overlap, and
    /// nobody else touches either during the call.
    #[inline]
    pub unsafe fn alltoall(
        &self,
        send: *const u8,
        recv: *mut u8,
        bytes: usize,
    ) -> Result<(), EngineError> {
        if bytes == 0 {
            return self.empty(Collective::Alltoall, Rank(0));
        }
        self.call(&Call {
            collective: Collective::Alltoall,
            root: Rank(0),
            send: Side::even(send.cast_mut(), self.size(), bytes),
            recv: Side::even(recv, self.size(), bytes),
            bytes,
            reducer: None,
        })
    }
}
