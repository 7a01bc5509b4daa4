//! Barrier: nobody leaves before everybody has entered (MPI-4.1, 6.3).

use super::Call;
use crate::run::Side;
use crate::{EngineError, Team};
use ferrorail_base::Rank;
use ferrorail_coll::Collective;

impl Team {
    /// Waits until every rank has called it.
    ///
    /// # Errors
    /// After an error the team is unusable: peers may be anywhere.
    pub fn barrier(&self) -> Result<(), EngineError> {
        // On one node what is exchanged is a block of no bytes.
        let nothing = Side::even(std::ptr::null_mut(), 1, 0);
        self.call(&Call {
            collective: Collective::Barrier,
            root: Rank(0),
            send: nothing,
            recv: nothing,
            bytes: 0,
            reducer: None,
        })
    }
}
