//! Passive-target synchronisation (MPI 4.1, section 12.5.3).
//!
//! A lock of a rank whose memory is not mapped here is not waited for when it is asked for: the first
//! operation, flush or unlock does that (`early`). A mapped one is acquired at once, for the program may
//! load and store there.

use super::active::mode;
use super::early::How;
use super::held::{self, Held, HeldCell};
use super::layout;
use super::target::Memory;
use super::word::{Begun, Which};
use super::{Waiting, Window, WindowError, count};
use crate::lock::{AnyLock, Entrance, LockAlgorithm, LockError, Mode};
use ferrorail_base::Rank;
use ferrorail_base::config::LockBackoff;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_fabric::{Endpoint, Ticket};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Passive-target synchronisation with one target.
pub(super) struct Passive {
    pub lock: AnyLock,
    /// Who may enter beside others, for a lock that does not know.
    pub holders: AnyLock,
    pub accumulate: AnyLock,
    /// What was posted of an acquisition that is not awaited yet.
    pub early: Option<(How, Ticket)>,
}

impl Passive {
    pub fn new(
        lock: LockAlgorithm,
        accumulate: LockAlgorithm,
        backoff: Option<LockBackoff>,
    ) -> Self {
        Self {
            lock: AnyLock::new(lock, backoff),
            holders: AnyLock::new(LockAlgorithm::TestAndSet, backoff),
            accumulate: AnyLock::new(accumulate, backoff),
            early: None,
        }
    }
}

pub(super) const NOT_LOCKED: WindowError = WindowError::Synchronisation("the target is not locked");

pub(super) fn lost() -> WindowError {
    LockError::<WindowError>::Lost.into()
}

/// Whether the lock of a target is held or wanted.
#[inline]
pub(super) fn check_locked(held: Held) -> Result<(), WindowError> {
    match held {
        Held::NOTHING => Err(NOT_LOCKED),
        Held::LOST => Err(lost()),
        _ => Ok(()),
    }
}

impl<F: Endpoint> Window<F> {
    /// `MPI_Win_lock`. With `nocheck` the program promises that no conflicting lock is held.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] if the target is locked already or another kind of epoch is
    /// open.
    pub fn lock(&self, target: Rank, mode: Mode, nocheck: bool) -> Result<(), WindowError> {
        if self.mode.load(Ordering::Relaxed) != mode::NONE {
            self.leave_unused_fence("a lock is asked for in an epoch of another kind")?;
        }
        match self.held(target) {
            Held::NOTHING => {}
            Held::LOST => return Err(lost()),
            _ => return Err(WindowError::Synchronisation("the target is locked already")),
        }
        self.ask(target, mode, nocheck)
            .inspect_err(|_| self.give_up(target))?;
        count(&self.counters.locks);
        Ok(())
    }

    #[inline]
    fn ask(&self, target: Rank, mode: Mode, nocheck: bool) -> Result<(), WindowError> {
        self.want(target, mode, nocheck)?;
        match self.held(target).is_wanted() {
            true => self.wish(target, mode),
            false => Ok(()),
        }
    }

    /// After a call that failed: what it wanted and did not begin to get is not wanted any more.
    #[cold]
    fn give_up(&self, target: Rank) {
        if self.held(target).is_wanted() {
            self.held[target.index()].set(Held::NOTHING);
        }
        self.drop_wish(target);
    }

    #[inline]
    pub(super) fn want(&self, target: Rank, mode: Mode, nocheck: bool) -> Result<(), WindowError> {
        let held = &self.held[target.index()];
        if nocheck {
            held.set(Held::unchecked(mode));
            return Ok(());
        }
        let mapped = matches!(self.targets[target.index()].memory, Memory::Mapped(_));
        if mapped {
            self.await_earlier(target)?;
            if self.try_enter(target, mode) {
                return Ok(());
            }
        }
        held.set(Held::wanted(mode));
        match mapped {
            true => self.acquire(target),
            false => Ok(()),
        }
    }

    /// Gets a lock in one step, if that is possible.
    #[inline]
    pub(super) fn try_enter(&self, target: Rank, mode: Mode) -> bool {
        let word = self.mapped_word(target, layout::LOCK);
        let got = word.is_some_and(|word| self.lock.try_enter(word, self.rank.0, mode));
        if got {
            self.held[target.index()].set(Held::quick(mode));
        }
        got
    }

    /// A word of `target`'s, if atomics on it are the CPU's.
    #[inline]
    pub(super) fn mapped_word(&self, target: Rank, offset: usize) -> Option<&AtomicU64> {
        let target = &self.targets[target.index()];
        let control = target.control.filter(|_| target.link.is_none())?;
        Some(self.segment.word(control + offset))
    }

    /// How this rank enters one more lock. If it has others while it waits, of whatever window, it must
    /// not queue behind somebody who may wait for those.
    pub(super) fn entrance(&self, mode: Mode) -> Entrance {
        let holds_others =
            || self.mode.load(Ordering::Relaxed) == mode::LOCKED_ALL || held::holds_any();
        match mode == Mode::Shared && holds_others() {
            true => Entrance::Joining,
            false => Entrance::Fair(mode),
        }
    }

    /// Gets the lock that was asked for, if any. Threads may come here together.
    #[cold]
    pub(super) fn acquire(&self, target: Rank) -> Result<(), WindowError> {
        self.await_earlier(target)?;
        let mut passive = self.claim(&self.passive[target.index()], target)?;
        let held = self.held(target);
        if !held.is_wanted() {
            return match held {
                Held::LOST => Err(lost()),
                _ => Ok(()),
            };
        }
        let mode = held.mode();
        let early = passive.early.take();
        if early.is_none() && self.try_enter(target, mode) {
            return Ok(());
        }
        let acquired = self.acquire_begun(target, mode, early, &mut passive);
        self.held[target.index()].set(match acquired {
            Ok(()) => Held::acquired(mode),
            Err(_) => Held::LOST,
        });
        acquired?;
        if self.targets[target.index()].link.is_some() {
            count(&self.counters.acquired);
        }
        Ok(())
    }

    /// Gets a lock of which the first operation may be under way.
    fn acquire_begun(
        &self,
        target: Rank,
        mode: Mode,
        early: Option<(How, Ticket)>,
        passive: &mut Passive,
    ) -> Result<(), WindowError> {
        match early {
            Some((How::Swaps(held), posted)) if self.was_swapped(target, posted, held)? => {
                passive.lock.adopt(mode);
                Ok(())
            }
            Some((How::Begins(entrance), posted)) => {
                self.acquire_by_steps(target, entrance, Some(posted), passive)
            }
            _ => self.acquire_by_steps(target, self.entrance(mode), None, passive),
        }
    }

    /// Runs the algorithm, of which the first operation may be `posted`.
    fn acquire_by_steps(
        &self,
        target: Rank,
        entrance: Entrance,
        posted: Option<Ticket>,
        passive: &mut Passive,
    ) -> Result<(), WindowError> {
        let doing = "waiting for a lock";
        let site = self.site(target, Which::Lock);
        site.begun.set(posted.map_or(Begun::No, Begun::Posted));
        let Passive { lock, holders, .. } = passive;
        if self.lock != LockAlgorithm::Mcs {
            return self.drive(target, doing, lock.acquire(&site, entrance));
        }
        // It knows exclusive holders only, but shared ones may wait for each other inside.
        let inside = self.site(target, Which::Holders);
        if entrance != Entrance::Joining {
            self.drive(target, doing, lock.acquire(&site, entrance))?;
        }
        self.drive(target, doing, holders.acquire(&inside, entrance))?;
        if entrance == Entrance::Fair(Mode::Shared) {
            self.drive(target, doing, lock.release(&site))?;
        }
        Ok(())
    }

    /// `MPI_Win_unlock`: all operations on the target are complete there when it returns.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] without a lock.
    pub fn unlock(&self, target: Rank) -> Result<(), WindowError> {
        let held = self.held(target);
        if self.mode.load(Ordering::Relaxed) == mode::LOCKED_ALL {
            return Err(NOT_LOCKED);
        }
        check_locked(held)?;
        self.leave(target, held)
    }

    #[inline]
    pub(super) fn leave(&self, target: Rank, held: Held) -> Result<(), WindowError> {
        if held.is_quick()
            && let Some(word) = self.mapped_word(target, layout::LOCK)
            && self.lock.try_leave(word, self.rank.0, held.mode())
        {
            self.held[target.index()].set(Held::NOTHING);
            self.doorbell().ring();
            return Ok(());
        }
        self.leave_by_steps(target)
    }

    #[cold]
    fn leave_by_steps(&self, target: Rank) -> Result<(), WindowError> {
        if self.held(target).is_wanted() {
            self.acquire(target)?;
        }
        let mut passive = self.claim(&self.passive[target.index()], target)?;
        let held = self.held(target);
        if held.is_unchecked() {
            self.settled(target)?;
            self.held[target.index()].set(Held::NOTHING);
            return Ok(());
        }
        let put = self.to_follow(target, &passive.lock)?;
        self.held[target.index()].set(Held::NOTHING);
        if held.is_quick() {
            passive.lock.adopt(held.mode());
        }
        self.release_by_steps(target, held.mode(), put, &mut passive)
            .inspect_err(|_| self.held[target.index()].set(Held::LOST))?;
        self.settled(target)
    }

    fn release_by_steps(
        &self,
        target: Rank,
        mode: Mode,
        put: Option<Ticket>,
        passive: &mut Passive,
    ) -> Result<(), WindowError> {
        let doing = "giving a lock back";
        if self.lock == LockAlgorithm::Mcs {
            let holders = self.site(target, Which::Holders);
            self.drive(target, doing, passive.holders.release(&holders))?;
            if mode == Mode::Shared {
                return Ok(());
            }
        }
        let site = self.site(target, Which::Lock);
        site.follow(put);
        self.drive(target, doing, passive.lock.release(&site))
    }

    /// The put which the release of `lock` has to follow, so that who gets it next finds what was put.
    /// Waits if it cannot follow what is under way.
    pub(super) fn to_follow(
        &self,
        target: Rank,
        lock: &AnyLock,
    ) -> Result<Option<Ticket>, WindowError> {
        // It leaves by an addition to the target's word, so that nobody hears of it before that took effect.
        if lock.algorithm() == LockAlgorithm::Queue
            && let Some(rails) = self.rails_to(target)
            && let Some(put) = rails.last_put(target)?
        {
            return Ok(Some(put));
        }
        self.settled(target)?;
        Ok(None)
    }

    /// Whether the lock of some target is held, or asked for.
    pub(super) fn any_locked(&self) -> bool {
        let nothing = |held: &HeldCell| matches!(held.get(), Held::NOTHING | Held::LOST);
        !self.held.iter().all(nothing)
    }

    #[inline]
    pub(super) fn held(&self, target: Rank) -> Held {
        self.held[target.index()].get()
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
        let waiting = match self.rails {
            Some(_) => Waiting::Rail(target),
            None => Waiting::Word(target),
        };
        self.wait_for(doing, waiting, || {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(outcome) => Ok(Some(outcome?)),
                Poll::Pending => Ok(None),
            }
        })
    }

    /// Whether an operation on `target` is in order now, and how its lock is held, which was acquired
    /// if it was wanted.
    #[inline]
    pub(super) fn enter(&self, target: Rank) -> Result<Held, WindowError> {
        let held = self.held(target);
        if held.is_ready() {
            return Ok(held);
        }
        if held == Held::NOTHING {
            self.enter_active(target)?;
            return Ok(held);
        }
        self.acquire(target)?;
        Ok(self.held(target))
    }
}

#[cfg(test)]
mod tests;
