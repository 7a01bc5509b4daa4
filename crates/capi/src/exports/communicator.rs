//! Communicators: always the host's call. Keys of ours in their info are looked at (MPI 4.1, sections 7.4.2
//! and 7.4.4). On hosts that lack `MPI_Comm_idup_with_info`, which came with MPI 4, it is `MPI_Comm_idup`: hints
//! may be ignored. While the host deletes the attributes of one in `MPI_Comm_free` or `MPI_Comm_disconnect`
//! (sections 7.4.3 and 11.10.4), collectives on it are left to the host as well.

use super::export;
use crate::comm_settings;
use crate::next::{MISSING, Next, call_next};
use crate::panic_guard::guard;
use crate::team_cache::free;
use ferrorail_mpi_abi::Comm;
use libc::{c_int, c_void};

export!(MPI_Comm_set_info(comm: usize, info: usize), else MISSING, |forward| {
    guard(Some(comm), || comm_settings::set_info(comm, info, forward))
});

export!(
    MPI_Comm_dup_with_info(comm: usize, info: usize, new: *mut c_void),
    else MISSING,
    |forward| guard(Some(comm), || {
        // SAFETY: the program's output argument, written by the host.
        let made = |host: &ferrorail_mpi_abi::Host| Comm(unsafe { host.handle_at(new) });
        comm_settings::dup_with_info(comm, info, forward, made)
    })
);

export!(
    MPI_Comm_idup_with_info(comm: usize, info: usize, new: *mut c_void, request: *mut c_void),
    else idup(comm, new, request),
    |forward| guard(Some(comm), || {
        // SAFETY: as above; the handle is there on return, the communicator once the request is complete.
        let made = |host: &ferrorail_mpi_abi::Host| Comm(unsafe { host.handle_at(new) });
        comm_settings::dup_with_info(comm, info, forward, made)
    })
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
    guard(None, || unsafe { free(comm, forward) })
});

export!(MPI_Comm_disconnect(comm: *mut c_void), else MISSING, |forward| {
    // SAFETY: the program's argument.
    guard(None, || unsafe { free(comm, forward) })
});
