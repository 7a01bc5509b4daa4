//! One-sided communication: argument checks, then the engine; the host keeps handles, names,
//! attributes, info and error handlers.
//!
//! A window that ferrorail makes has a bare window of the host for a handle, which holds no memory
//! and sees no operation. Windows that could not be made here are the host's altogether.

mod accumulate;
mod attributes;
mod create;
pub mod entry;
mod handle;
mod hints;
mod info_keys;
mod operation;
pub mod plain_update;
mod properties;
mod synchronise;

pub use accumulate::{Accumulate, accumulate, compare_and_swap};
pub use create::{Allocation, NewWindow, attach, create, detach, free};
pub use entry::{Entry, lock_messages};
pub use operation::{Place, Way, requested, transfer};
pub use properties::{attribute, attribute_value, get_info, group, set_info, shared_query};
pub use synchronise::{at, fence, lock, lock_all, post, start, test};

use crate::collective;
use crate::error::{CallError, report_window};
use crate::lifetime;
use crate::panic_guard::{after_panic, guarded};
use crate::reason;
use crate::session::Session;
use crate::thread::{self, Local};
use entry::find;
use ferrorail_engine::WindowError;
use ferrorail_mpi_abi::{SUCCESS, Win};
use libc::c_int;

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
    thread::with_local(|local| unsafe { run_on(local, name, window, forward, call) })
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
    let outcome = guarded(|| {
        let session = lifetime::session_of(local)?;
        // SAFETY: the caller's contract.
        let entry = unsafe { find(&local.recent_windows, session.host().window(window)) };
        Some(match entry.map(|entry| call(session, entry)) {
            Some(Ok(())) => Ok(session),
            Some(Err(error)) => Err(Some(Box::new(error))),
            None => Err(None),
        })
    });
    // The host may call the program's error handler in all of these.
    match outcome {
        Some(Some(Ok(session))) => {
            // The call has left no lock of ours taken.
            if local.is_host_due() {
                session.context.drive_host();
            }
            SUCCESS
        }
        Some(Some(Err(error))) => by_the_host(local, (name, window), error, forward),
        Some(None) => forward(),
        None => after_panic(None),
    }
}

/// A call that has failed here, or is on a window that is not ours.
#[cold]
fn by_the_host(
    local: &Local,
    (name, window): (&'static str, usize),
    error: Option<Box<CallError>>,
    forward: impl FnOnce() -> c_int,
) -> c_int {
    let Some(session) = lifetime::session_of(local) else {
        return forward();
    };
    let handle = session.host().window(window);
    match error {
        Some(error) => report_window(session, handle, name, &error),
        None => {
            let why = why_not_ours(session, handle);
            collective::forwarded(session, (name, handle.0), why, 0, forward)
        }
    }
}

/// Why a call on a window that ferrorail did not make is the host's: it refuses the null one.
fn why_not_ours(session: &Session, window: Win) -> &'static str {
    match window == session.host().predefined().win_null {
        true => reason::INVALID,
        false => reason::NO_WINDOW,
    }
}

impl From<WindowError> for CallError {
    fn from(error: WindowError) -> Self {
        Self::Engine(error.into())
    }
}
