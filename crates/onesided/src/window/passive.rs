//! Passive-target synchronisation (MPI 4.1, section 12.5.3).
//!
//! A lock of a rank whose memory is not mapped here is only noted when it is asked for: the first
//! operation, flush or unlock acquires it. A mapped one is acquired at once, for the program may
//! load and store there.

use super::active::mode;
use super::target::Memory;
use super::word::Which;
use super::{Waiting, Window, WindowError, count};
use crate::lock::{AnyLock, LockError, Mode, RemoteLock, TestAndSetLock};
use ferrorail_base::Rank;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::Fabric;
use std::future::Future;
use std::pin::pin;
use std::sync::MutexGuard;
use std::task::{Context, Poll, Waker};

/// What this rank has of a target's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Nothing.
    Nothing,
    /// It was asked for, and nobody has used it yet.
    Wanted(Mode),
    /// The lock.
    Acquired(Mode),
    /// The word of the program that there is no conflict (`MPI_MODE_NOCHECK`).
    Unchecked(Mode),
}

/// Passive-target synchronisation with one target.
pub(super) struct Passive {
    pub held: Held,
    /// By `lock_all`.
    pub by_all: bool,
    pub lock: AnyLock,
    /// Who may enter beside others, for a lock that does not know.
    pub holders: TestAndSetLock,
    pub accumulate: AnyLock,
}

impl Passive {
    pub fn new(lock: AnyLock, accumulate: AnyLock) -> Self {
        Self {
            held: Held::Nothing,
            by_all: false,
            lock,
            holders: TestAndSetLock::default(),
            accumulate,
        }
    }

    /// Whether nobody else can operate on the target's memory.
    pub fn is_exclusive(&self) -> bool {
        matches!(
            self.held,
            Held::Acquired(Mode::Exclusive) | Held::Unchecked(Mode::Exclusive)
        )
    }
}

const NOT_LOCKED: WindowError = WindowError::Synchronisation("the target is not locked");

impl<F: Fabric> Window<F> {
    /// `MPI_Win_lock`. With `nocheck` the program promises that no conflicting lock is held.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] if the target is locked already or another kind of epoch is
    /// open.
    pub fn lock(&self, target: Rank, mode: Mode, nocheck: bool) -> Result<(), WindowError> {
        if self.mode.load(Ordering::Relaxed) != mode::NONE {
            self.leave_unused_fence("a lock is asked for in an epoch of another kind")?;
        }
        let mut passive = self.passive(target);
        if passive.held != Held::Nothing {
            return Err(WindowError::Synchronisation("the target is locked already"));
        }
        self.want(target, &mut passive, mode, nocheck)?;
        self.locked.fetch_add(1, Ordering::Relaxed);
        count(&self.counters.locks);
        Ok(())
    }

    fn want(
        &self,
        target: Rank,
        passive: &mut Passive,
        mode: Mode,
        nocheck: bool,
    ) -> Result<(), WindowError> {
        passive.held = match nocheck {
            true => Held::Unchecked(mode),
            false => Held::Wanted(mode),
        };
        let mapped = matches!(self.targets[target.index()].memory, Memory::Mapped(_));
        if mapped && !nocheck {
            self.acquire(target, passive)?;
        }
        Ok(())
    }

    /// Gets the lock that was asked for, if any.
    #[inline]
    pub(super) fn acquire(&self, target: Rank, passive: &mut Passive) -> Result<(), WindowError> {
        let Held::Wanted(mode) = passive.held else {
            return Ok(());
        };
        let doing = "waiting for a lock";
        let site = self.site(target, Which::Lock);
        self.drive(target, doing, passive.lock.acquire(&site, mode))?;
        if let AnyLock::Mcs(lock) = &mut passive.lock {
            // It knows exclusive holders only, but shared ones may wait for each other inside.
            let holders = self.site(target, Which::Holders);
            self.drive(target, doing, passive.holders.acquire(&holders, mode))?;
            if mode == Mode::Shared {
                self.drive(target, doing, lock.release(&site))?;
            }
        }
        passive.held = Held::Acquired(mode);
        Ok(())
    }

    /// `MPI_Win_unlock`: all operations on the target are complete there when it returns.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] without a lock.
    pub fn unlock(&self, target: Rank) -> Result<(), WindowError> {
        let mut passive = self.passive(target);
        if passive.held == Held::Nothing || passive.by_all {
            return Err(NOT_LOCKED);
        }
        self.leave(target, &mut passive)?;
        self.locked.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    fn leave(&self, target: Rank, passive: &mut Passive) -> Result<(), WindowError> {
        self.acquire(target, passive)?;
        self.settle(target)?;
        let Held::Acquired(mode) = std::mem::replace(&mut passive.held, Held::Nothing) else {
            return Ok(());
        };
        let doing = "giving a lock back";
        if let AnyLock::Mcs(_) = passive.lock {
            let holders = self.site(target, Which::Holders);
            self.drive(target, doing, passive.holders.release(&holders))?;
            if mode == Mode::Shared {
                return Ok(());
            }
        }
        let site = self.site(target, Which::Lock);
        self.drive(target, doing, passive.lock.release(&site))
    }

    /// `MPI_Win_lock_all`.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] if any epoch is open.
    pub fn lock_all(&self, nocheck: bool) -> Result<(), WindowError> {
        self.leave_unused_fence("all are locked in an epoch of another kind")?;
        if self.locked.load(Ordering::Relaxed) > 0 {
            return Err(WindowError::Synchronisation(
                "some target is locked already",
            ));
        }
        for rank in self.ranks() {
            let mut passive = self.passive(rank);
            passive.by_all = true;
            self.want(rank, &mut passive, Mode::Shared, nocheck)?;
        }
        self.mode.store(mode::LOCKED_ALL, Ordering::Relaxed);
        count(&self.counters.locks);
        Ok(())
    }

    /// `MPI_Win_unlock_all`.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] without [`Window::lock_all`].
    pub fn unlock_all(&self) -> Result<(), WindowError> {
        if self.mode.load(Ordering::Relaxed) != mode::LOCKED_ALL {
            return Err(NOT_LOCKED);
        }
        for rank in self.ranks() {
            let mut passive = self.passive(rank);
            // Nobody used it: nobody need be asked.
            if let Held::Wanted(_) = passive.held {
                passive.held = Held::Nothing;
            }
            self.leave(rank, &mut passive)?;
            passive.by_all = false;
        }
        self.mode.store(mode::NONE, Ordering::Relaxed);
        Ok(())
    }

    /// `MPI_Win_flush_local`: the buffers of operations on the target are the caller's again.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] without a lock.
    pub fn flush_local(&self, target: Rank) -> Result<(), WindowError> {
        if self.passive(target).held == Held::Nothing {
            return Err(NOT_LOCKED);
        }
        self.settled_here(target)
    }

    /// `MPI_Win_flush_local_all`.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] if no target is locked.
    pub fn flush_local_all(&self) -> Result<(), WindowError> {
        self.check_any_locked()?;
        self.ranks().try_for_each(|rank| self.settled_here(rank))
    }

    fn check_any_locked(&self) -> Result<(), WindowError> {
        let all = self.mode.load(Ordering::Relaxed) == mode::LOCKED_ALL;
        match all || self.locked.load(Ordering::Relaxed) > 0 {
            true => Ok(()),
            false => Err(NOT_LOCKED),
        }
    }

    /// `MPI_Win_flush`: operations on the target are complete there.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] without a lock.
    pub fn flush(&self, target: Rank) -> Result<(), WindowError> {
        let mut passive = self.passive(target);
        if passive.held == Held::Nothing {
            return Err(NOT_LOCKED);
        }
        self.acquire(target, &mut passive)?;
        self.settle(target)
    }

    /// `MPI_Win_flush_all`.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] if no target is locked.
    pub fn flush_all(&self) -> Result<(), WindowError> {
        self.check_any_locked()?;
        self.ranks().try_for_each(|rank| self.settle(rank))
    }

    /// `MPI_Win_sync`: what others stored is seen, what this rank stored can be seen.
    pub fn sync(&self) {
        ferrorail_base::sync::fence(Ordering::SeqCst);
    }

    /// Waits until nothing that was started on `target` is under way, in any epoch.
    ///
    /// # Errors
    /// A rail's failure.
    pub fn settled(&self, target: Rank) -> Result<(), WindowError> {
        self.settle(target)
    }

    /// Waits until nothing that was started on `target` uses the caller's buffers.
    ///
    /// # Errors
    /// A rail's failure.
    pub fn settled_here(&self, target: Rank) -> Result<(), WindowError> {
        let Some(rails) = &self.rails else {
            return Ok(());
        };
        self.wait_until("completing operations", Waiting::Rail(target), || {
            rails.is_idle_here(target)
        })
    }

    /// Waits until nothing is under way to `target`: it is complete there too then.
    #[inline]
    pub(super) fn settle(&self, target: Rank) -> Result<(), WindowError> {
        let Some(rails) = &self.rails else {
            return Ok(());
        };
        self.wait_until("completing operations", Waiting::Rail(target), || {
            rails.is_idle(target)
        })
    }

    /// Runs a lock's future to its end.
    #[inline]
    pub(super) fn drive<R>(
        &self,
        target: Rank,
        doing: &'static str,
        future: impl Future<Output = Result<R, LockError<WindowError>>>,
    ) -> Result<R, WindowError> {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut context) {
            return Ok(outcome?);
        }
        let waiting = match self.rails {
            Some(_) => Waiting::Rail(target),
            None => Waiting::Word(target),
        };
        let mut patience = self.patience(doing);
        loop {
            patience.idle(waiting)?;
            if let Poll::Ready(outcome) = future.as_mut().poll(&mut context) {
                return Ok(outcome?);
            }
        }
    }

    /// Whether an operation on `target` is in order now; with the target's passive state, and
    /// its lock if that was wanted.
    #[inline]
    pub(super) fn enter(&self, target: Rank) -> Result<MutexGuard<'_, Passive>, WindowError> {
        let mut passive = self.passive(target);
        match passive.held {
            Held::Acquired(_) | Held::Unchecked(_) => {}
            Held::Wanted(_) => self.acquire(target, &mut passive)?,
            Held::Nothing => self.enter_active(target)?,
        }
        Ok(passive)
    }
}
