//! From a communicator to its topology.

use super::entry::Entry;
use super::nonblocking::made;
use super::remembered;
use crate::handle_cache::HandleCache;
use crate::neighbourhood::Neighbourhood;
use crate::session::Session;
use crate::thread::Inside;
use ferrorail_mpi_abi::Comm;
use std::sync::Arc;

/// The neighbourhood of this rank in the topology of `comm`, if the thread knows its entry and a call has asked for it before.
///
/// # Safety
/// The program keeps `comm` for as long as the answer is used.
#[inline(always)]
pub unsafe fn known_neighbourhood(
    handle_cache: &HandleCache<Entry>,
    comm: Comm,
) -> Option<&Neighbourhood> {
    // SAFETY: the caller's contract; an entry lives as long as its communicator.
    match unsafe { remembered(handle_cache, comm, || None)? } {
        Entry::Team(.., known) => known.get().map(|known| &**known),
        Entry::Forward(_) => None,
    }
}

/// The neighbourhood of this rank in the topology of `comm`, if it has one. Local: no team is made for it.
///
/// # Safety
/// The program keeps `comm` meanwhile.
pub unsafe fn neighbourhood(
    session: &Session,
    handle_cache: &HandleCache<Entry>,
    comm: Comm,
) -> Option<Arc<Neighbourhood>> {
    let host = session.host();
    if comm == host.predefined().comm_null {
        return None;
    }
    // An entry that nobody remembers yet stays so: it may want to be prepared for non-blocking calls.
    // SAFETY: the caller's contract; an entry lives as long as its communicator.
    let entry = unsafe {
        let known = remembered(handle_cache, comm, || None);
        known.or_else(|| made(session, comm).map(|entry| &*entry))
    };
    let known = match entry {
        Some(Entry::Team(.., known)) => Some(known),
        _ => None,
    };
    if let Some(neighbourhood) = known.and_then(|known| known.get()) {
        return Some(neighbourhood.clone());
    }
    let _inside = Inside::enter();
    let topology = host.topology(comm).ok().flatten()?;
    let rank = host.comm_rank(comm).ok()?;
    let found = Arc::new(Neighbourhood::of(rank, &topology));
    Some(known.map_or_else(
        || found.clone(),
        |known| known.get_or_init(|| found.clone()).clone(),
    ))
}
