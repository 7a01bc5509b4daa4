//! Waiting for operations that were started (MPI 4.1, section 12.5.4).

use super::active::mode;
use super::passive::{NOT_LOCKED, check_locked};
use super::{Waiting, Window, WindowError, WindowRails};
use ferrorail_base::Rank;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::Endpoint;

impl<F: Endpoint> Window<F> {
    /// `MPI_Win_flush_local`: the buffers of operations on the target are the caller's again.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] without a lock.
    pub fn flush_local(&self, target: Rank) -> Result<(), WindowError> {
        check_locked(self.held(target))?;
        self.settled_here(target)
    }

    /// `MPI_Win_flush_local_all`.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] if no target is locked.
    pub fn flush_local_all(&self) -> Result<(), WindowError> {
        self.check_any_locked()?;
        let Some(rails) = &self.rails else {
            return Ok(());
        };
        while let Some(target) = rails.user_of_buffers() {
            self.settled_here(target)?;
        }
        Ok(())
    }

    fn check_any_locked(&self) -> Result<(), WindowError> {
        let all = self.mode.load(Ordering::Relaxed) == mode::LOCKED_ALL;
        match all || self.any_locked() {
            true => Ok(()),
            false => Err(NOT_LOCKED),
        }
    }

    /// `MPI_Win_flush`: operations on the target are complete there.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] without a lock.
    pub fn flush(&self, target: Rank) -> Result<(), WindowError> {
        let held = self.held(target);
        check_locked(held)?;
        if held.is_wanted() {
            self.acquire(target)?;
        }
        self.settled(target)
    }

    /// `MPI_Win_flush_all`.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] if no target is locked.
    pub fn flush_all(&self) -> Result<(), WindowError> {
        self.check_any_locked()?;
        self.settle_all()
    }

    /// `MPI_Win_sync`: what others stored is seen, what this rank stored can be seen.
    pub fn sync(&self) {
        ferrorail_base::sync::fence(Ordering::SeqCst);
    }

    /// Waits until nothing that was started on `target` uses the caller's buffers.
    ///
    /// # Errors
    /// A rail's failure.
    pub fn settled_here(&self, target: Rank) -> Result<(), WindowError> {
        let Some(rails) = self.rails_to(target) else {
            return Ok(());
        };
        self.wait_until("completing operations", Waiting::Rail(target), || {
            rails.is_idle_here(target)
        })
    }

    /// The rails, if something may be under way to `target` on them.
    #[inline]
    pub(super) fn rails_to(&self, target: Rank) -> Option<&WindowRails<F>> {
        self.targets[target.index()].link.as_ref()?;
        self.rails.as_ref()
    }

    /// Waits until nothing that was started on `target` is under way, in any epoch: it is complete there too then.
    ///
    /// # Errors
    /// A rail's failure.
    #[inline]
    pub fn settled(&self, target: Rank) -> Result<(), WindowError> {
        let Some(rails) = self.rails_to(target) else {
            return Ok(());
        };
        self.wait_until("completing operations", Waiting::Rail(target), || {
            rails.is_idle(target)
        })
    }

    /// Waits until nothing is under way to anybody, at the cost of what is.
    #[inline]
    pub(super) fn settle_all(&self) -> Result<(), WindowError> {
        let Some(rails) = &self.rails else {
            return Ok(());
        };
        while let Some(target) = rails.busy_target() {
            self.settled(target)?;
        }
        Ok(())
    }
}
