//! The locks of all targets together (MPI 4.1, section 12.5.3).

use super::active::mode;
use super::held::Held;
use super::passive::{NOT_LOCKED, lost};
use super::{Window, WindowError, count};
use crate::lock::Mode;
use ferrorail_base::Rank;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::Endpoint;

impl<F: Endpoint> Window<F> {
    /// `MPI_Win_lock_all`.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] if any epoch is open.
    pub fn lock_all(&self, nocheck: bool) -> Result<(), WindowError> {
        self.leave_unused_fence("all are locked in an epoch of another kind")?;
        if self.any_locked() {
            return Err(WindowError::Synchronisation(
                "some target is locked already",
            ));
        }
        self.mode.store(mode::LOCKED_ALL, Ordering::Relaxed);
        count(&self.lock_alls);
        let want = |rank: Rank| match self.held(rank) {
            Held::LOST => Err(lost()),
            _ => self.want(rank, Mode::Shared, nocheck),
        };
        let wanted = self.ranks().try_for_each(want);
        if let Err(error) = wanted.and_then(|()| self.wish_for_all()) {
            // What else is wrong is said where those targets are used.
            let _ = self.unlock_all();
            return Err(error);
        }
        count(&self.counters.locks);
        Ok(())
    }

    /// `MPI_Win_unlock_all`.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] without [`Window::lock_all`]. After any other the epoch is over all the same.
    pub fn unlock_all(&self) -> Result<(), WindowError> {
        if self.mode.load(Ordering::Relaxed) != mode::LOCKED_ALL {
            return Err(NOT_LOCKED);
        }
        let mut outcome = Ok(());
        for rank in self.ranks() {
            let held = self.held(rank);
            let left = match held {
                Held::NOTHING => Ok(()),
                Held::LOST => Err(lost()),
                // Nobody used it: nobody need be asked.
                _ if held.is_wanted() => {
                    self.held[rank.index()].set(Held::NOTHING);
                    Ok(())
                }
                _ => self.leave(rank, held),
            };
            // The others wait for theirs.
            outcome = outcome.and(left);
        }
        self.mode.store(mode::NONE, Ordering::Relaxed);
        outcome
    }
}
