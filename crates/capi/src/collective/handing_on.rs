//! Handing calls on to the host, and counting them.

use crate::lifetime;
use crate::reason;
use crate::session::Session;
use crate::thread::InHostCall;
use ferrorail_engine::waiting::InHost;
use ferrorail_mpi_abi::Comm;
use libc::c_int;

/// Why a call with invalid arguments goes to the host: `MPI_ROOT` and `MPI_PROC_NULL` as a root are
/// right on inter-communicators.
pub fn invalid(session: &Session, root: c_int, comm: Comm) -> &'static str {
    let host = session.host();
    let two_groups = root < 0
        && comm != host.predefined().comm_null
        && host.is_inter_comm(comm).unwrap_or(false);
    if two_groups {
        reason::INTER_COMM
    } else {
        reason::INVALID
    }
}

/// Calls `forward` and counts it, for `reason`: the call `name` on the communicator or window `handle`.
#[cold]
pub fn forwarded(
    session: &Session,
    (name, handle): (&'static str, usize),
    reason: &'static str,
    bytes: usize,
    forward: impl FnOnce() -> c_int,
) -> c_int {
    let Some(_in_host_call) = InHostCall::enter(name, handle, &reason) else {
        return forward();
    };
    let stats = session.context.stats();
    stats.forwarded(name, reason, bytes as u64);
    let _in_host = InHost::enter(name);
    forward()
}

/// A collective on `comm` that is never taken: `forward`s it and says so in the statistics.
pub fn count_and_forward(
    name: &'static str,
    comm: usize,
    forward: impl FnOnce() -> c_int,
) -> c_int {
    match lifetime::session() {
        Some(session) => forwarded(session, (name, comm), reason::NOT_OFFERED, 0, forward),
        None => forward(),
    }
}
