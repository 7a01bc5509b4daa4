//! Handing calls on to the host, and counting them.

use super::Args;
use crate::lifetime;
use crate::panic_guard::{after_panic, guarded};
use crate::reason;
use crate::session::Session;
use crate::thread::{InHostCall, with_local};
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

/// What `call`, one of this `name`, gives; or the code with which it returns: of `forward`, where MPI is not
/// up or a tool behind ferrorail makes a call again that was handed on, or after a panic.
pub fn unless_handed<R>(
    name: &'static str,
    args: &Args,
    forward: &impl Fn() -> c_int,
    call: impl FnOnce(&'static Session) -> R,
) -> Result<(&'static Session, R), c_int> {
    let outcome = guarded(|| {
        let session = lifetime::session()?;
        if with_local(|local| local.is_handed(name, args.comm, args)) {
            return None;
        }
        Some((session, call(session)))
    });
    match outcome {
        None => Err(after_panic(Some(args.comm))),
        Some(None) => Err(forward()),
        Some(Some(said)) => Ok(said),
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
