//! Locks that are asked for at once (`FERRORAIL_LOCK_REQUEST=early`; thesis, section 4.3.1: "a process only
//! issues the first Compare-and-Swap operation in `MPI_Win_lock`, without waiting for its success").
//!
//! `MPI_Win_lock` posts the first operation of the algorithm and returns. Who needs the lock, at the first
//! operation, a flush or the unlock, runs the algorithm as ever, but takes the operation that is under way
//! for its first: an algorithm's state does not change before that, so both begin alike.
//!
//! What may leave early is what needs nothing of this rank before it comes back, or others would wait for a
//! rank that may itself be waiting for them, outside:
//!
//! | algorithm | exclusive | shared |
//! |---|---|---|
//! | `test_and_set` | the compare-and-swap from a free lock | the same |
//! | `mcs` | the same, which queues up only if nobody is there | nothing: the head of the queue lets readers in |
//! | `queue` | the addition that queues up | a compare-and-swap from a free lock: a reader that has the turn lets others in |
//! | `thread`, `event` | the request | the request |
//!
//! Words that this process's CPU reaches are tried in one step. `MPI_Win_lock_all` asks for nothing: most
//! targets would be asked in vain. With `MPI_MODE_NOCHECK` there is nothing to ask for.
//!
//! # Order
//!
//! Programs avoid waiting for each other in a circle by locking targets in the same order, whatever windows these are
//! of, and may count on calls that wait. So a thread's wishes are fulfilled in the order of its calls: before it waits for
//! a lock, or gets one at once, it waits for those that it asked for earlier. What is held while something is waited for is
//! then what would be held were each lock waited for in its call. A thread has one lock under way at most, and asks
//! early only if it has no other wish.
//!
//! `MPI_Win_lock_all` is one wish for all targets of its window that are not held yet: they are got before a lock of another
//! window is, or not at all.
//!
//! Where several threads call MPI, at once or in turn, `MPI_Win_lock` waits, and nobody wishes for a single lock: threads may count on
//! the order of calls that they make one after the other, and must not wait for what another thread alone has asked for.

use super::active::mode;
use super::word::{Begun, Which};
use super::{Threads, Window, WindowError};
use crate::lock::{AnyLock, Entrance, LockAlgorithm, LockError, LockSite, Mode, RemoteWord};
use ferrorail_base::Rank;
use ferrorail_base::config::LockRequest;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::{Endpoint, Ticket};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::ptr;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

thread_local! {
    /// Wishes of this thread, in the order of its calls. Those that any thread has fulfilled since are left out when one is
    /// looked for.
    static WISHES: RefCell<Vec<Wish>> = const { RefCell::new(Vec::new()) };
}

/// A lock that a thread asked for.
#[derive(Clone)]
struct Wish {
    window: Weak<dyn Locks>,
    of: Of,
}

/// Whose locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    One(Rank),
    /// All ranks', in the window's epoch of that number.
    All(u64),
}

/// A window, as wishes see it.
trait Locks {
    /// A target whose lock is still wanted.
    fn wanted(&self, of: Of) -> Option<Rank>;
    fn acquire(&self, target: Rank) -> Result<(), WindowError>;
}

impl<F: Endpoint> Locks for Window<F> {
    fn wanted(&self, of: Of) -> Option<Rank> {
        let is_wanted = |target: &Rank| self.held(*target).is_wanted();
        match of {
            Of::One(target) => Some(target).filter(is_wanted),
            Of::All(number) => {
                let goes_on = self.mode.load(Ordering::Relaxed) == mode::LOCKED_ALL
                    && self.lock_alls.load(Ordering::Relaxed) == number;
                goes_on.then(|| self.ranks().find(is_wanted)).flatten()
            }
        }
    }

    fn acquire(&self, target: Rank) -> Result<(), WindowError> {
        Window::acquire(self, target)
    }
}

impl Wish {
    fn is_of<F: Endpoint>(&self, window: &Window<F>) -> bool {
        ptr::addr_eq(self.window.as_ptr(), window)
    }

    /// Whether it is for the lock of `target`, among others perhaps.
    fn is_for<F: Endpoint>(&self, window: &Window<F>, target: Rank) -> bool {
        self.is_of(window) && (matches!(self.of, Of::All(_)) || self.of == Of::One(target))
    }

    /// The window and a target whose lock is to be got, unless the wish is fulfilled.
    fn unfulfilled(&self) -> Option<(Arc<dyn Locks>, Rank)> {
        let window = self.window.upgrade()?;
        let target = window.wanted(self.of)?;
        Some((window, target))
    }

    fn fulfil(&self) -> Result<(), WindowError> {
        while let Some((window, target)) = self.unfulfilled() {
            window.acquire(target)?;
        }
        Ok(())
    }
}

/// What was posted of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The first operation of acquiring.
    Begins(Entrance),
    /// A compare-and-swap of the free lock for one that this rank holds alone.
    Swaps(u64),
}

impl<F: Endpoint> Window<F> {
    /// Has this thread wish for the lock of `target`, and asks for it if that may leave at once.
    pub(super) fn wish(&self, target: Rank, mode: Mode) -> Result<(), WindowError> {
        if self.threads != Threads::One {
            return self.acquire(target);
        }
        match self.add_wish(Of::One(target)) {
            // A thread that ends has no wishes: it waits.
            None => self.acquire(target),
            Some(true) if self.settings.lock_request == LockRequest::Early => {
                self.ask_early(target, mode)
            }
            Some(_) => Ok(()),
        }
    }

    /// Has this thread wish for those locks that `MPI_Win_lock_all` did not get at once.
    pub(super) fn wish_for_all(&self) -> Result<(), WindowError> {
        let all = Of::All(self.lock_alls.load(Ordering::Relaxed));
        if self.wanted(all).is_some() && self.add_wish(all).is_none() {
            while let Some(target) = self.wanted(all) {
                self.acquire(target)?;
            }
        }
        Ok(())
    }

    /// One more wish of this thread, and whether it is the only one. `None` if it can have none.
    fn add_wish(&self, of: Of) -> Option<bool> {
        let window: Weak<dyn Locks> = self.me.clone();
        let is_replaced = |wish: &Wish| match of {
            // A fulfilled wish for the same lock looks like this one.
            Of::One(target) => wish.is_for(self, target),
            Of::All(_) => wish.is_of(self),
        };
        let add = |wishes: &RefCell<Vec<Wish>>| {
            let mut wishes = wishes.borrow_mut();
            wishes.retain(|wish| !is_replaced(wish) && wish.unfulfilled().is_some());
            wishes.push(Wish { window, of });
            wishes.len() == 1
        };
        WISHES.try_with(add).ok()
    }

    /// Has this thread wish for the lock of `target` no more.
    pub(super) fn drop_wish(&self, target: Rank) {
        // A thread that ends has none.
        let _ = WISHES.try_with(|wishes| {
            let is_for = |wish: &Wish| wish.of == Of::One(target) && wish.is_of(self);
            wishes.borrow_mut().retain(|wish| !is_for(wish));
        });
    }

    fn ask_early(&self, target: Rank, mode: Mode) -> Result<(), WindowError> {
        // Another thread that has it acquires it.
        let Some(mut passive) = self.passive[target.index()].take() else {
            return Ok(());
        };
        if self.try_enter(target, mode) {
            return Ok(());
        }
        if let Some(how) = self.how(target, mode) {
            passive.early = self.post_early(target, how, &mut passive.lock)?;
        }
        Ok(())
    }

    fn how(&self, target: Rank, mode: Mode) -> Option<How> {
        let there = &self.targets[target.index()];
        there.link.as_ref()?;
        match (self.lock, mode) {
            (LockAlgorithm::TestAndSet, _)
            | (LockAlgorithm::Mcs | LockAlgorithm::Queue, Mode::Exclusive) => {
                Some(How::Begins(Entrance::Fair(mode)))
            }
            (LockAlgorithm::Queue, Mode::Shared) => {
                self.lock.alone(self.rank.0, mode).map(How::Swaps)
            }
            (LockAlgorithm::Mcs, Mode::Shared) => None,
            // A request inside the node is no message.
            (LockAlgorithm::Thread | LockAlgorithm::Event, _) => {
                let far = there.control.is_none();
                far.then(|| How::Begins(self.entrance(mode)))
            }
        }
    }

    /// `None` if the rail is full.
    fn post_early(
        &self,
        target: Rank,
        how: How,
        lock: &mut AnyLock,
    ) -> Result<Option<(How, Ticket)>, WindowError> {
        let site = self.site(target, Which::Lock);
        site.begun.set(Begun::First);
        match how {
            How::Begins(entrance) => poll_once(lock.acquire(&site, entrance))?,
            How::Swaps(held) => {
                poll_once(async { Ok(site.home().compare_swap(0, held).await?) })?;
            }
        }
        let Begun::Posted(ticket) = site.begun.get() else {
            return Ok(None);
        };
        if self.lock == LockAlgorithm::Event {
            self.wake_service(target);
        }
        Ok(Some((how, ticket)))
    }

    /// Whether the lock of `target` is got by the compare-and-swap of the free lock for `held` that was posted.
    pub(super) fn was_swapped(
        &self,
        target: Rank,
        posted: Ticket,
        held: u64,
    ) -> Result<bool, WindowError> {
        let site = self.site(target, Which::Lock);
        site.begun.set(Begun::Posted(posted));
        let swap = async { Ok(site.home().compare_swap(0, held).await?) };
        Ok(self.drive(target, "waiting for a lock", swap)? == 0)
    }

    /// Waits for the locks that this thread asked for before that of `target`, in any window.
    pub(super) fn await_earlier(&self, target: Rank) -> Result<(), WindowError> {
        let first = || {
            let wish = WISHES.try_with(|wishes| wishes.borrow().first().cloned());
            let wish = wish.ok().flatten();
            wish.filter(|wish| !wish.is_for(self, target))
        };
        while let Some(wish) = first() {
            // It has to be the first as long as it waits.
            let outcome = wish.fulfil();
            WISHES.with(|wishes| wishes.borrow_mut().remove(0));
            outcome?;
        }
        Ok(())
    }
}

/// Polls a future that stops behind what it posts first, or fails.
fn poll_once<R>(
    future: impl Future<Output = Result<R, LockError<WindowError>>>,
) -> Result<(), WindowError> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(Err(error)) => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
