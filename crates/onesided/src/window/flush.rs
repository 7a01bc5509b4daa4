//! Waiting for operations that were started (MPI 4.1, section 12.5.4).
//!
//! A call waits for what was begun before it. Other threads may begin operations all the time, so that there would never be
//! a moment without any.

use super::active::mode;
use super::outstanding::Outstanding;
use super::passive::{NOT_LOCKED, check_locked};
use super::{Waiting, Window, WindowError, WindowRails};
use ferrorail_base::Rank;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::{Endpoint, Ticket};

/// How many operations had been begun when a call looked first.
type Before = Option<u64>;

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
        let mut before = None;
        while let Some(target) = rails.user_of_buffers(&mut before) {
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
        let mut before = None;
        self.wait_until("completing operations", Waiting::Rail(target), || {
            rails.is_idle_here(target, &mut before)
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
        let mut before = None;
        self.wait_until("completing operations", Waiting::Rail(target), || {
            rails.is_idle(target, &mut before)
        })
    }

    /// Waits until nothing is under way to anybody, at the cost of what is.
    #[inline]
    pub(super) fn settle_all(&self) -> Result<(), WindowError> {
        let Some(rails) = &self.rails else {
            return Ok(());
        };
        let mut before = None;
        while let Some(target) = rails.busy_target(&mut before) {
            self.settled(target)?;
        }
        Ok(())
    }
}

impl<F: Endpoint> WindowRails<F> {
    /// Whether nothing is under way to `target` of what was begun `before`.
    fn is_idle(&self, target: Rank, before: &mut Before) -> Result<bool, WindowError> {
        self.is_over(before, |outstanding, before| {
            outstanding.is_busy(target, before)
        })
    }

    /// Whether nothing that is under way to `target`, of what was begun `before`, uses a buffer of the caller's.
    fn is_idle_here(&self, target: Rank, before: &mut Before) -> Result<bool, WindowError> {
        self.is_over(before, |outstanding, before| {
            outstanding.uses_buffers(target, before)
        })
    }

    /// Looks after completions where something `waits`. Whether nothing does any more.
    fn is_over(
        &self,
        before: &mut Before,
        waits: impl Fn(&Outstanding, u64) -> bool,
    ) -> Result<bool, WindowError> {
        let mut outstanding = self.outstanding();
        let before = *before.get_or_insert(outstanding.begun);
        if waits(&outstanding, before) {
            self.fabric().progress()?;
            self.reap(&mut outstanding)?;
        }
        Ok(!waits(&outstanding, before))
    }

    /// Some rank to which something is under way of what was begun `before`.
    pub(super) fn busy_target(&self, before: &mut Before) -> Option<Rank> {
        let outstanding = self.outstanding();
        let before = *before.get_or_insert(outstanding.begun);
        Some(outstanding.first(before).next()?.target)
    }

    /// Some rank to which something is under way, of what was begun `before`, that uses a buffer of the caller's.
    fn user_of_buffers(&self, before: &mut Before) -> Option<Rank> {
        let outstanding = self.outstanding();
        let before = *before.get_or_insert(outstanding.begun);
        let mut first = outstanding.first(before);
        Some(first.find(|one| one.after.uses_buffer())?.target)
    }

    /// The put that a change of one of `target`'s words can follow instead of waiting for all that is under
    /// way there; `None` if there is nothing, or something that it cannot follow.
    pub(super) fn last_put(&self, target: Rank) -> Result<Option<Ticket>, WindowError> {
        match self.is_idle(target, &mut None)? {
            true => Ok(None),
            false => Ok(self.outstanding().last_put(target, self.word_rail())),
        }
    }
}

#[cfg(test)]
mod tests;
