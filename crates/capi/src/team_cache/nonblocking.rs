//! From a communicator to what its non-blocking collectives run on.

use super::entry::Entry;
use super::{GENERATION, dying, remembered};
use crate::handle_cache::HandleCache;
use crate::nonblocking::queue::Queue;
use crate::reason;
use crate::session::Session;
use crate::thread::Inside;
use ferrorail_base::sync::Ordering;
use ferrorail_mpi_abi::Comm;
use std::sync::Arc;

/// What the non-blocking collectives of `comm` run on, or why the host has this one. Waits for nobody.
///
/// # Safety
/// As [`entry`].
pub unsafe fn nonblocking<'a>(
    session: &'a Session,
    handle_cache: &HandleCache<Entry>,
    comm: Comm,
) -> Result<&'a Arc<Queue>, &'static str> {
    // Only once it is there, as a blocking call is to look for what is wanted.
    let known = || {
        let entry = made(session, comm)?;
        // SAFETY: the entry of a communicator in use.
        match unsafe { &*entry } {
            Entry::Team(_, _, nonblocking, _) if nonblocking.queue().is_none() => None,
            _ => Some(entry),
        }
    };
    // SAFETY: the caller's contract.
    match unsafe { remembered(handle_cache, comm, known) } {
        Some(Entry::Team(_, _, nonblocking, _)) => match nonblocking.queue() {
            Some(queue) => queue,
            None => Err(want_nonblocking(session, comm)),
        },
        Some(Entry::Forward(reason)) => Err(reason),
        None => Err(want_nonblocking(session, comm)),
    }
}

/// The entry of `comm`, if it has been made.
pub(super) fn made(session: &Session, comm: Comm) -> Option<*const Entry> {
    let host = session.host();
    if comm == host.predefined().comm_null || dying::is_dying(comm) {
        return None;
    }
    let _inside = Inside::enter();
    let address = host.comm_attribute(comm, session.comm_key).ok().flatten()?;
    Some(address as *const Entry)
}

/// Has the next blocking collective on `comm` prepare for non-blocking ones, if it may; why this one is the host's.
#[cold]
fn want_nonblocking(session: &Session, comm: Comm) -> &'static str {
    let Some(entry) = made(session, comm) else {
        return reason::NOT_PREPARED;
    };
    // SAFETY: the entry of a communicator in use.
    match unsafe { &*entry } {
        Entry::Team(team, ..) if !team.may_connect_all() => reason::TOO_MANY_CONNECTIONS,
        Entry::Team(_, _, nonblocking, _) => {
            if nonblocking.want() {
                // No thread is to remember the entry.
                GENERATION.fetch_add(1, Ordering::Release);
            }
            reason::NOT_PREPARED
        }
        Entry::Forward(reason) => reason,
    }
}
