//! Communicators: always the host's call. Keys of ours in their info are looked at (MPI 4.1, sections 7.4.2
//! and 7.4.4). On hosts that lack `MPI_Comm_idup_with_info`, which came with MPI 4, it is `MPI_Comm_idup`: hints
//! may be ignored. While the host deletes the attributes of one in `MPI_Comm_free` or `MPI_Comm_disconnect`
//! (sections 7.4.3 and 11.10.4), collectives on it are left to the host as well.

use super::export;
use crate::comm_settings;
use crate::lifetime;
use crate::next::{MISSING, Next, call_next};
use crate::panic_guard::around;
use crate::session::Session;
use crate::team_cache::{self, Dying};
use crate::thread::Inside;
use ferrorail_mpi_abi::{Comm, MpiError, SUCCESS};
use libc::{c_int, c_void};

/// Has the host act on `comm`, then `act` on the keys of ours if the host had no error.
fn with_info(
    comm: usize,
    forward: impl FnOnce() -> c_int,
    act: impl FnOnce(&Session) -> Result<(), MpiError>,
) -> c_int {
    around(Some(comm), lifetime::session, forward, |session, code| {
        let Some(session) = session else { return code };
        let _inside = Inside::enter();
        if code == SUCCESS
            && let Err(error) = act(session)
        {
            tracing::warn!("info keys of a communicator are ignored: {error}");
        }
        code
    })
}

/// A duplicate of `comm`, whose handle is at `new` once the host has made one.
///
/// # Safety
/// The program's arguments.
unsafe fn duplicate(
    comm: usize,
    info: usize,
    new: *mut c_void,
    forward: impl FnOnce() -> c_int,
) -> c_int {
    with_info(comm, forward, |session| {
        let host = session.host();
        // SAFETY: the program's output argument, written by the host.
        let new = Comm(unsafe { host.handle_at(new) });
        comm_settings::replace(session, host.comm(comm), host.info(info), new)
    })
}

/// # Safety
/// The program's argument.
unsafe fn free(comm: *const c_void, forward: impl FnOnce() -> c_int) -> c_int {
    let of_call = comm;
    let before = || {
        let session = lifetime::session().filter(|_| !comm.is_null())?;
        // SAFETY: the address of a handle.
        let comm = Comm(unsafe { session.host().handle_at(comm) });
        Some(Dying::new(comm, &of_call))
    };
    around(None, before, forward, |dying, code| {
        if let Some(dying) = dying {
            dying.end();
        }
        code
    })
}

export!(MPI_Comm_set_info(comm: usize, info: usize), else MISSING, |forward| {
    with_info(comm, forward, |session| {
        let (host, comm) = (session.host(), session.host().comm(comm));
        let any = comm_settings::merge(session, comm, host.info(info))?;
        team_cache::renew(session, comm, any)
    })
});

export!(
    MPI_Comm_dup_with_info(comm: usize, info: usize, new: *mut c_void),
    else MISSING,
    // SAFETY: the program's arguments.
    |forward| unsafe { duplicate(comm, info, new, forward) }
);

export!(
    MPI_Comm_idup_with_info(comm: usize, info: usize, new: *mut c_void, request: *mut c_void),
    else idup(comm, new, request),
    // SAFETY: as above; the handle is there on return, the communicator once the request is complete.
    |forward| unsafe { duplicate(comm, info, new, forward) }
);

/// The host's form without info.
fn idup(comm: usize, new: *mut c_void, request: *mut c_void) -> c_int {
    static NEXT: Next = Next::new("MPI_Comm_idup");
    call_next!(
        NEXT,
        (comm => usize, new => *mut c_void, request => *mut c_void) -> c_int,
        else MISSING
    )
}

export!(MPI_Comm_free(comm: *mut c_void), else MISSING, |forward| {
    // SAFETY: the program's argument.
    unsafe { free(comm, forward) }
});

export!(MPI_Comm_disconnect(comm: *mut c_void), else MISSING, |forward| {
    // SAFETY: the program's argument.
    unsafe { free(comm, forward) }
});
