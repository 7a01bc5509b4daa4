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
//! Programs avoid waiting for each other in a circle by locking targets in the same order, and may count on
//! calls that wait. So a thread of the program has one lock under way at most, and asks early only if it has
//! no other wish that is not fulfilled; before it waits for another lock of the window, or gets one at
//! once, it waits for that one. What is held while something is waited for is then what would be held were
//! the lock waited for in the call.

use super::word::{Begun, Which};
use super::{Window, WindowError};
use crate::lock::{AnyLock, Entrance, LockAlgorithm, LockError, LockSite, Mode, RemoteWord};
use ferrorail_base::Rank;
use ferrorail_base::config::LockRequest;
use ferrorail_base::sync::{AtomicUsize, Ordering};
use ferrorail_fabric::{Endpoint, Ticket};
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

thread_local! {
    /// Wishes of this thread that are not fulfilled, in windows that ask early.
    static WISHES: Arc<AtomicUsize> = Arc::default();
    /// The window and target of this thread's lock that was last under way.
    static ASKED: Cell<Option<(usize, Rank)>> = const { Cell::new(None) };
}

/// A wish of a thread for a lock, until it is fulfilled by whatever thread.
pub(super) struct Wish(Arc<AtomicUsize>);

impl Wish {
    /// One more of this thread, and whether it is the only one.
    fn new() -> (Self, bool) {
        let wishes = WISHES.with(Arc::clone);
        let before = wishes.fetch_add(1, Ordering::Relaxed);
        (Self(wishes), before == 0)
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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
    fn asks_early(&self) -> bool {
        self.settings.lock_request == LockRequest::Early
    }

    /// Asks for the lock of `target`, which is wanted, if that may leave at once.
    pub(super) fn ask_early(&self, target: Rank, mode: Mode) -> Result<(), WindowError> {
        if !self.asks_early() {
            return Ok(());
        }
        // Another thread that has it acquires it.
        let Some(mut passive) = self.passive[target.index()].take() else {
            return Ok(());
        };
        let (wish, exclusively) = Wish::new();
        if !exclusively {
            passive.wish = Some(wish);
            return Ok(());
        }
        if self.try_enter(target, mode) {
            return Ok(());
        }
        passive.wish = Some(wish);
        let Some(how) = self.how(target, mode) else {
            return Ok(());
        };
        passive.early = self.post_early(target, how, &mut passive.lock)?;
        if passive.early.is_some() {
            ASKED.set(Some((self.address(), target)));
        }
        Ok(())
    }

    /// What tells this window from others of the process.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
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

    /// Waits for the lock of another target than `target` that this thread asked for, if it did.
    pub(super) fn await_earlier(&self, target: Rank) -> Result<(), WindowError> {
        if self.asks_early()
            && let Some((window, earlier)) = ASKED.get()
            && window == self.address()
        {
            ASKED.set(None);
            if earlier != target && self.held(earlier).is_wanted() {
                return self.acquire(earlier);
            }
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
