//! One-sided communication: argument checks, then the engine; the host keeps handles, names,
//! attributes, info and error handlers.
//!
//! A window that ferrorail makes has a bare window of the host for a handle, which holds no memory
//! and sees no operation. Windows that could not be made here are the host's altogether.

mod accumulate;
mod attributes;
mod create;
mod handle;
mod hints;
mod operation;
mod synchronise;

pub use accumulate::{Accumulate, PlainUpdate, accumulate, compare_and_swap};
pub use attributes::{attribute, attribute_value, shared_query};
pub use create::{Allocation, NewWindow, attach, create, detach, free};
pub use hints::{get_info, set_info};
pub use operation::{Place, get, put, requested};
pub use synchronise::{
    complete, fence, flush, flush_all, flush_local, flush_local_all, lock, lock_all, post, start,
    sync, test, unlock, unlock_all, wait,
};

use crate::collective;
use crate::error::{CallError, Wrong, report_window};
use crate::handle_cache::HandleCache;
use crate::reason;
use crate::runtime::{self, Local, Session};
use attributes::Attributes;
use ferrorail_base::Rank;
use ferrorail_base::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use ferrorail_engine::{EngineError, OneSided, Window, WindowError};
use ferrorail_mpi_abi::Win;
use hints::Hints;
use libc::c_int;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

/// A window of ferrorail's.
pub struct Entry {
    /// The host's handle.
    pub handle: Win,
    /// What it does.
    pub window: Window,
    /// What the program may ask of it.
    pub attributes: Attributes,
    /// What it said of it.
    hints: Hints,
}

/// Windows by handle, each with how many were made before.
type Windows = HashMap<usize, (u64, Arc<Entry>)>;

static WINDOWS: Mutex<Option<Windows>> = Mutex::new(None);

/// Number of windows made so far.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Number of windows freed so far, plus one: a host may give a freed handle to a new window.
static GENERATION: AtomicU64 = AtomicU64::new(1);

fn windows() -> MutexGuard<'static, Option<Windows>> {
    WINDOWS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The window behind `handle`, if it is one of ours.
///
/// # Safety
/// The program does not free the window while the entry is used, as MPI demands.
#[inline]
unsafe fn find<'a>(handle_cache: &HandleCache<Entry>, handle: Win) -> Option<&'a Entry> {
    let generation = GENERATION.load(Ordering::Acquire);
    let known = || Some(Arc::as_ptr(&windows().as_ref()?.get(&handle.0)?.1));
    let entry = handle_cache.get_or_find(handle.0, generation, known)?;
    // SAFETY: the entry lives until the program frees the window, and none was since it was found.
    Some(unsafe { &*entry })
}

fn remember(entry: Entry) {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let mut windows = windows();
    windows
        .get_or_insert_default()
        .insert(entry.handle.0, (number, Arc::new(entry)));
}

/// Acquisitions of locks by this process on the window that came in a register, and their remote
/// messages.
pub fn lock_messages(session: &Session, window: usize) -> Option<(u64, u64)> {
    let handle = session.host().window(window);
    let (_, entry) = windows().as_ref()?.get(&handle.0)?.clone();
    let counters = entry.onesided().counters();
    let acquired = counters.acquired.load(Ordering::Relaxed);
    Some((acquired, counters.lock_messages.load(Ordering::Relaxed)))
}

/// Takes a window out of use; whoever drops the result takes it down.
fn forget(handle: Win) -> Option<Arc<Entry>> {
    let entry = windows().as_mut()?.remove(&handle.0);
    GENERATION.fetch_add(1, Ordering::Release);
    Some(entry?.1)
}

/// Takes down what the program did not free, in the order in which it was made: the same on all ranks.
pub fn finalize() {
    let left = windows().take();
    GENERATION.fetch_add(1, Ordering::Release);
    let mut left: Vec<_> = left.unwrap_or_default().into_values().collect();
    left.sort_unstable_by_key(|(number, _)| *number);
    left.into_iter().for_each(drop);
}

/// Runs `call` on the window that came in a register, or forwards it and says so in the statistics.
///
/// # Safety
/// The program does not free the window meanwhile.
#[inline]
pub unsafe fn run(
    name: &'static str,
    window: usize,
    forward: impl FnOnce() -> c_int,
    call: impl FnOnce(&Session, &Entry) -> Result<(), CallError>,
) -> c_int {
    // SAFETY: the caller's contract.
    runtime::with_local(|local| unsafe { run_on(local, name, window, forward, call) })
}

/// # Safety
/// As [`run`].
#[inline]
unsafe fn run_on(
    local: &Local,
    name: &'static str,
    window: usize,
    forward: impl FnOnce() -> c_int,
    call: impl FnOnce(&Session, &Entry) -> Result<(), CallError>,
) -> c_int {
    let Some(session) = runtime::session_of(local) else {
        return forward();
    };
    let handle = session.host().window(window);
    // SAFETY: the caller's contract.
    let Some(entry) = (unsafe { find(&local.recent_windows, handle) }) else {
        return collective::forwarded(session, name, why_not_ours(session, handle), 0, forward);
    };
    match call(session, entry) {
        Ok(()) => session.host().constants().success,
        Err(error) => report_window(session, handle, name, &error),
    }
}

/// Why a call on a window that ferrorail did not make is the host's: it refuses the null one.
fn why_not_ours(session: &Session, window: Win) -> &'static str {
    match window == session.host().predefined().win_null {
        true => reason::INVALID,
        false => reason::NO_WINDOW,
    }
}

impl Entry {
    #[inline]
    fn onesided(&self) -> &OneSided {
        self.window.onesided()
    }

    /// The target of an operation; `None` for `MPI_PROC_NULL`.
    #[inline]
    fn target(&self, session: &Session, rank: c_int) -> Result<Option<Rank>, CallError> {
        if rank == session.host().constants().proc_null {
            return Ok(None);
        }
        let rank = self.onesided().checked_rank(i64::from(rank));
        Ok(Some(rank.map_err(EngineError::from)?))
    }
}

impl From<WindowError> for CallError {
    fn from(error: WindowError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<Wrong> for CallError {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(wrong)
    }
}
