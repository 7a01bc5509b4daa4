//! What tools ask ferrorail about the calls of this process.

use crate::runtime::session;
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
