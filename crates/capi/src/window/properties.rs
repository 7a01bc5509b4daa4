//! What a program asks of a window and tells it (MPI 4.1, sections 12.2.2 and 12.2.7).

use super::attributes::visible;
use super::entry::{Entry, find, hold};
use crate::error::{CallError, report_window};
use crate::lifetime;
use crate::panic_guard::{after_panic, around, guarded};
use crate::session::Session;
use crate::thread::{self, Inside};
use ferrorail_base::Rank;
use ferrorail_mpi_abi::{Host, SUCCESS};
use libc::{c_int, c_void};

/// `MPI_Win_get_attr`: predefined keys of our windows; all else is the host's, and not counted.
///
/// # Safety
/// The program's arguments.
pub unsafe fn attribute(
    window: usize,
    key: c_int,
    value: *mut c_void,
    flag: *mut c_int,
    forward: impl FnOnce() -> c_int,
) -> c_int {
    let own = guarded(|| {
        thread::with_local(|local| {
            let session = lifetime::session_of(local)?;
            let handle = session.host().window(window);
            // SAFETY: the program does not free a window that it asks about.
            let entry = unsafe { find(&local.recent_windows, handle) }?;
            let found = entry.attributes.value(session.host(), key)?;
            Some((found, SUCCESS))
        })
    });
    let (found, success) = match own {
        Some(Some(own)) => own,
        Some(None) => return forward(),
        None => return after_panic(None),
    };
    // SAFETY: the program's output arguments.
    unsafe {
        value.cast::<*const c_void>().write_unaligned(found);
        *flag = 1;
    }
    success
}

/// `MPI_Win_get_group`: the host's answer, but where its handle stands for a window of other ranks.
///
/// # Safety
/// The program's arguments.
pub unsafe fn group(window: usize, group: *mut c_void, forward: impl FnOnce() -> c_int) -> c_int {
    let own = guarded(|| {
        let session = lifetime::session()?;
        let host = session.host();
        let entry = hold(host.window(window)).filter(|entry| entry.ranks.is_some())?;
        let _inside = Inside::enter();
        Some((session, entry.group(host)))
    });
    let (session, made) = match own {
        Some(Some(own)) => own,
        Some(None) => return forward(),
        None => return after_panic(None),
    };
    let host = session.host();
    match made {
        Ok(made) => {
            // SAFETY: the program's output argument.
            unsafe { host.write_handle(group, made.0) };
            SUCCESS
        }
        Err(error) => report_window(session, host.window(window), "win_get_group", &error.into()),
    }
}

/// What Fortran programs get for an attribute whose C value is `value`.
///
/// # Safety
/// [`attribute`] found `value` for `key`.
pub unsafe fn attribute_value(host: &Host, key: c_int, value: *const c_void) -> isize {
    let constants = host.window_constants();
    // SAFETY: the caller's contract; see `Attributes::value`.
    unsafe {
        if key == constants.base {
            value as isize
        } else if key == constants.size {
            *value.cast::<isize>()
        } else {
            *value.cast::<c_int>() as isize
        }
    }
}

/// `MPI_Win_shared_query`: address, length and unit of the memory of `rank`, or, for
/// `MPI_PROC_NULL`, of the lowest rank that has some. Memory that this process cannot load and store
/// counts as none, in windows of any kind (MPI 4.1, section 12.2.3).
pub fn shared_query(
    session: &Session,
    entry: &Entry,
    rank: c_int,
) -> Result<(*mut c_void, isize, i64), CallError> {
    let window = &entry.window;
    let found = match entry.target(session, rank)? {
        Some(rank) => window.mapped(rank).map(|found| {
            let (address, bytes, unit) = found;
            (visible(session.host(), window, address, bytes), bytes, unit)
        }),
        None => {
            let onesided = entry.onesided();
            let mut all = (0..onesided.size()).map(Rank);
            let first = all.find(|rank| onesided.target(*rank).bytes > 0);
            first.and_then(|rank| window.mapped(rank))
        }
    };
    let (address, bytes, unit) = found.unwrap_or((0, 0, 1));
    Ok((address as *mut c_void, bytes as isize, unit as i64))
}

/// Has the host act, then `act` on the window if that is ours and the host had no error.
fn after(
    window: usize,
    forward: impl FnOnce() -> c_int,
    act: impl FnOnce(&Session, &Entry),
) -> c_int {
    let done = |code| {
        thread::with_local(|local| {
            let session = lifetime::session_of(local)?;
            let handle = session.host().window(window);
            // SAFETY: the program does not free a window that it asks about.
            let entry = unsafe { find(&local.recent_windows, handle) }?;
            let _inside = Inside::enter();
            (code == SUCCESS).then(|| act(session, entry))
        });
        code
    };
    around(None, || (), forward, |(), code| done(code))
}

/// `MPI_Win_set_info`, of the handle as it came in a register.
pub fn set_info(window: usize, info: usize, forward: impl FnOnce() -> c_int) -> c_int {
    after(window, forward, |session, entry| {
        let host = session.host();
        entry.hints.add(host, host.info(info));
    })
}

/// `MPI_Win_get_info`; `made` is the handle that the host gave.
pub fn get_info(
    window: usize,
    forward: impl FnOnce() -> c_int,
    made: impl FnOnce(&Host) -> usize,
) -> c_int {
    after(window, forward, |session, entry| {
        let host = session.host();
        entry.hints.complete(host, host.info(made(host)));
    })
}
