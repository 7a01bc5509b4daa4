//! The windows of this process, by handle.

use super::attributes::Attributes;
use super::hints::Hints;
use crate::error::CallError;
use crate::handle_cache::HandleCache;
use crate::session::Session;
use ferrorail_base::Rank;
use ferrorail_base::sync::{AtomicU64, Mutex, Ordering};
use ferrorail_engine::{EngineError, OneSided, Window};
use ferrorail_mpi_abi::{Comm, Group, Host, MpiError, Win};
use libc::c_int;
use std::collections::HashMap;
use std::sync::Arc;

/// A window of ferrorail's.
pub struct Entry {
    /// The host's handle.
    pub handle: Win,
    /// A communicator of its ranks, where the host's handle is a window of this rank alone.
    pub ranks: Option<Comm>,
    /// What it does.
    pub window: Window,
    /// What the program may ask of it.
    pub attributes: Attributes,
    /// What it said of it.
    pub(super) hints: Hints,
}

/// Windows by handle, each with how many were made before.
type Windows = HashMap<usize, (u64, Arc<Entry>)>;

static WINDOWS: Mutex<Option<Windows>> = Mutex::new(None);

/// Number of windows made so far.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Number of windows freed so far, plus one: a host may give a freed handle to a new window.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The window behind `handle`, if it is one of ours.
///
/// # Safety
/// The program does not free the window while the entry is used, as MPI demands.
#[inline]
pub(super) unsafe fn find<'a>(handle_cache: &HandleCache<Entry>, handle: Win) -> Option<&'a Entry> {
    let generation = GENERATION.load(Ordering::Acquire);
    let known = || Some(Arc::as_ptr(&WINDOWS.lock().as_ref()?.get(&handle.0)?.1));
    let entry = handle_cache.get_or_find(handle.0, generation, known)?;
    // SAFETY: the entry lives until the program frees the window, and none was since it was found.
    Some(unsafe { &*entry })
}

/// [`find`], for a caller that keeps the window.
pub(super) fn hold(handle: Win) -> Option<Arc<Entry>> {
    Some(Arc::clone(&WINDOWS.lock().as_ref()?.get(&handle.0)?.1))
}

/// Puts a window into use. Its handle may still be known for one that another thread is freeing: a host gives
/// handles away again before that thread can [`forget`] it.
pub(super) fn remember(entry: Entry) {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let made = (number, Arc::new(entry));
    let before = {
        let mut windows = WINDOWS.lock();
        let before = windows
            .get_or_insert_default()
            .insert(made.1.handle.0, made);
        if before.is_some() {
            GENERATION.fetch_add(1, Ordering::Release);
        }
        before
    };
    // Not under the lock: taking a window down may wait.
    drop(before);
}

/// Acquisitions of locks by this process on the window that came in a register, and their remote
/// messages.
pub fn lock_messages(session: &Session, window: usize) -> Option<(u64, u64)> {
    let handle = session.host().window(window);
    let (_, entry) = WINDOWS.lock().as_ref()?.get(&handle.0)?.clone();
    let counters = entry.onesided().counters();
    let acquired = counters.acquired.load(Ordering::Relaxed);
    Some((acquired, counters.lock_messages.load(Ordering::Relaxed)))
}

/// Takes a window out of use that the host has freed; whoever drops `entry` takes it down. The handle may mean another
/// window by now, which stays.
pub(super) fn forget(entry: &Arc<Entry>) {
    let mut windows = WINDOWS.lock();
    if let Some(windows) = windows.as_mut()
        && let Some((_, known)) = windows.get(&entry.handle.0)
        && Arc::ptr_eq(known, entry)
    {
        windows.remove(&entry.handle.0);
    }
    GENERATION.fetch_add(1, Ordering::Release);
}

/// Takes down what the program did not free, in the order in which it was made: the same on all ranks.
pub fn finalize() {
    let left = WINDOWS.lock().take();
    GENERATION.fetch_add(1, Ordering::Release);
    let mut left: Vec<_> = left.unwrap_or_default().into_values().collect();
    left.sort_unstable_by_key(|(number, _)| *number);
    left.into_iter().for_each(drop);
}

impl Entry {
    /// The group of its ranks, to be freed.
    ///
    /// # Errors
    /// The host's.
    pub(super) fn group(&self, host: &Host) -> Result<Group, MpiError> {
        match self.ranks {
            Some(comm) => host.comm_group(comm),
            None => host.window_group(self.handle),
        }
    }

    /// Its one-sided communication.
    #[inline]
    pub fn onesided(&self) -> &OneSided {
        self.window.onesided()
    }

    /// The target of an operation; `None` for `MPI_PROC_NULL`.
    #[inline]
    pub(super) fn target(&self, session: &Session, rank: c_int) -> Result<Option<Rank>, CallError> {
        if rank == session.host().constants().proc_null {
            return Ok(None);
        }
        let rank = self.onesided().checked_rank(i64::from(rank));
        Ok(Some(rank.map_err(EngineError::from)?))
    }
}
