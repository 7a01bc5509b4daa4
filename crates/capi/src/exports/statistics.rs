//! What tools ask ferrorail about the calls of this process.

use crate::lifetime::session;
use crate::team_cache;
use crate::window;
use ferrorail_engine::{Facts, Team};
use libc::{c_char, c_int};
use std::ffi::CStr;

/// Calls of `collective`, such as `allgather` (all collectives if it is null), that this process
/// has left to the host MPI since `MPI_Init`; `UINT64_MAX` if all are, because ferrorail is not
/// active.
///
/// # Safety
/// `collective` is null or a string that ends in 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrorail_forwarded(collective: *const c_char) -> u64 {
    // SAFETY: the caller vouches for it.
    let name = (!collective.is_null()).then(|| unsafe { CStr::from_ptr(collective) });
    let name = name.map(CStr::to_string_lossy);
    let counted = std::panic::catch_unwind(|| {
        session().map(|session| session.context.stats().forwarded_calls(name.as_deref()))
    });
    counted.ok().flatten().unwrap_or(u64::MAX)
}

/// Remote messages for the locks of a window's targets that this process has sent since the window
/// was made, to acquire and to release; how many acquisitions took any goes to `acquired`.
/// `UINT64_MAX` if the window is not ferrorail's.
///
/// # Safety
/// `window` is a handle as a C program passes it, of a window that is not freed meanwhile;
/// `acquired` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrorail_lock_messages(window: usize, acquired: *mut u64) -> u64 {
    let counted = std::panic::catch_unwind(|| window::lock_messages(session()?, window));
    let Some((acquisitions, messages)) = counted.ok().flatten() else {
        return u64::MAX;
    };
    // SAFETY: the caller vouches for it.
    unsafe { acquired.write(acquisitions) };
    messages
}

/// What rules of `FERRORAIL_TUNING` see of the ranks of `comm` goes to `facts`, seven `uint32_t`: ranks, nodes, ranks of
/// the largest node, domains, ranks per core, rails and ports. Returns 0, and -1 if ferrorail has run no collective on `comm`.
///
/// # Safety
/// `comm` is a handle as a C program passes it, of a communicator that is not freed meanwhile; `facts` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrorail_facts(comm: usize, facts: *mut Facts) -> c_int {
    let seen = std::panic::catch_unwind(|| {
        let session = session()?;
        let mut seen = None;
        let look = |team: &Team| seen = Some(team.facts());
        team_cache::with_made_team(session, session.host().comm(comm), look);
        seen
    });
    let Some(seen) = seen.ok().flatten() else {
        return -1;
    };
    // SAFETY: the caller vouches for it.
    unsafe { facts.write(seen) };
    0
}

/// Messages that this process has multicast to other nodes since `MPI_Init`, on all communicators;
/// `UINT64_MAX` if ferrorail is not active.
#[unsafe(no_mangle)]
pub extern "C" fn ferrorail_multicasts() -> u64 {
    let counted =
        std::panic::catch_unwind(|| session().map(|session| session.context.multicasts().messages));
    counted.ok().flatten().unwrap_or(u64::MAX)
}
