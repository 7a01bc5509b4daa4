//! What tools ask ferrorail about the calls of this process.

use crate::lifetime::session;
use crate::window;
use libc::c_char;
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

/// Messages that this process has multicast to other nodes since `MPI_Init`, on all communicators;
/// `UINT64_MAX` if ferrorail is not active.
#[unsafe(no_mangle)]
pub extern "C" fn ferrorail_multicasts() -> u64 {
    let counted =
        std::panic::catch_unwind(|| session().map(|session| session.context.multicasts().messages));
    counted.ok().flatten().unwrap_or(u64::MAX)
}
