//! From a communicator to its team.
//!
//! The host keeps an [`Entry`] for each communicator as an attribute, whose delete callback takes
//! the team down when the communicator goes. In front of that, each thread remembers the entries it
//! used last. A remembered one is valid as long as no communicator was freed anywhere in the process,
//! because a host may give a freed communicator's handle to a new one.
//!
//! While the host frees a communicator, nothing is looked up or stored on it: delete callbacks of the
//! program may call collectives on it, in an order that differs between ranks and with attributes of
//! which some are gone (`docs/design/0024-communicators-being-freed.md`).

mod create;
mod dying;
pub mod entry;
mod neighbourhood;
mod nonblocking;

pub use create::create_queue;
pub use dying::Dying;
pub use entry::Entry;
pub use neighbourhood::{known_neighbourhood, neighbourhood};
pub use nonblocking::nonblocking;

use crate::handle_cache::HandleCache;
use crate::nonblocking::comm_team::CommTeam;
use crate::nonblocking::queue::Queue;
use crate::oob_pmpi::OobPmpi;
use crate::parked::{self, Key, Purpose};
use crate::reason;
use crate::session::Session;
use crate::thread::Inside;
use create::{create, prepare_nonblocking};
use ferrorail_base::Rank;
use ferrorail_base::config::StatsSink;
use ferrorail_base::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use ferrorail_bootstrap::Oob;
use ferrorail_engine::Team;
use ferrorail_engine::waiting::InHost;
use ferrorail_mpi_abi::{Comm, MpiError};
use libc::{c_int, c_void};
use std::collections::HashMap;
use std::sync::Arc;

/// All entries by their address, which is the attribute's value.
static ENTRIES: Mutex<Option<HashMap<usize, Arc<Entry>>>> = Mutex::new(None);

/// The entry of communicators that the host is freeing.
static BEING_FREED: Entry = Entry::Forward(reason::BEING_FREED);

/// Rises whenever a handle may come to mean another communicator, or another entry.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The entry of `comm`, made if this is the first call on it (then collective). `None` if `comm`
/// is not a communicator.
///
/// # Safety
/// The program keeps `comm` for as long as the entry is used, as MPI demands of a communicator in
/// use by a collective.
#[inline]
pub unsafe fn entry<'a>(
    session: &'a Session,
    handle_cache: &HandleCache<Entry>,
    comm: Comm,
) -> Option<&'a Entry> {
    // SAFETY: the caller's contract.
    unsafe { remembered(handle_cache, comm, || find(session, comm)) }
}

/// The entry of `comm` that the thread remembers, or that is found now.
///
/// # Safety
/// As [`entry`].
#[inline(always)]
unsafe fn remembered<'a>(
    handle_cache: &HandleCache<Entry>,
    comm: Comm,
    find: impl FnOnce() -> Option<*const Entry>,
) -> Option<&'a Entry> {
    let generation = GENERATION.load(Ordering::Acquire);
    let entry = handle_cache.get_or_find(comm.0, generation, find)?;
    // SAFETY: the entry lives until the attribute is deleted, and none was since it was found.
    Some(unsafe { &*entry })
}

/// The team of `comm`, if the thread knows that it has one.
///
/// # Safety
/// As [`entry`].
#[inline(always)]
pub unsafe fn known_team<'a>(
    _session: &'a Session,
    handle_cache: &HandleCache<Entry>,
    comm: Comm,
) -> Option<&'a Team> {
    // SAFETY: the caller's contract.
    match unsafe { remembered(handle_cache, comm, || None)? } {
        Entry::Team(team, ..) => Some(team),
        Entry::Forward(_) => None,
    }
}

/// Runs `act` with the team of `comm`, if it has been made.
#[cold]
pub fn with_made_team(session: &Session, comm: Comm, act: impl FnOnce(&Team)) {
    let host = session.host();
    if comm == host.predefined().comm_null {
        return;
    }
    let _inside = Inside::enter();
    let address = host.comm_attribute(comm, session.comm_key).ok().flatten();
    let entry = address.and_then(|address| entries().as_ref()?.get(&address).cloned());
    if let Some(Entry::Team(team, ..)) = entry.as_deref() {
        act(team);
    }
}

#[cold]
fn find(session: &Session, comm: Comm) -> Option<*const Entry> {
    let host = session.host();
    if comm == host.predefined().comm_null {
        return None;
    }
    if dying::is_dying(comm) {
        // Not to be remembered, as nothing tells when a callback leaves by a jump.
        GENERATION.fetch_add(1, Ordering::Release);
        return Some(&raw const BEING_FREED);
    }
    let _inside = Inside::enter();
    match host.comm_attribute(comm, session.comm_key).ok()? {
        Some(address) => {
            let entry = address as *const Entry;
            // SAFETY: the attribute's value; its entry lives as long as the communicator, which is in use.
            prepare_nonblocking(session, comm, unsafe { &*entry });
            Some(entry)
        }
        None => {
            let _in_host = InHost::enter("the first collective on a communicator");
            keep(
                session,
                comm,
                create(session, comm, Purpose::Blocking).ok()?,
            )
            .ok()
        }
    }
}

/// Stores a new entry with its communicator.
fn keep(session: &Session, comm: Comm, entry: Entry) -> Result<*const Entry, MpiError> {
    let entry = Arc::new(entry);
    let address = Arc::as_ptr(&entry);
    entries()
        .get_or_insert_default()
        .insert(address as usize, entry);
    let kept = session
        .host()
        .set_comm_attribute(comm, session.comm_key, address as usize);
    if let Err(error) = kept {
        take_down(address as usize);
        return Err(error);
    }
    Ok(address)
}

/// Has the next collective on `comm` decide anew, if the program gave settings on `any` of its ranks.
/// Collective over `comm`: ranks must not disagree whether it has a team.
pub fn renew(session: &Session, comm: Comm, any: bool) -> Result<(), MpiError> {
    let host = session.host();
    let Some(address) = host.comm_attribute(comm, session.comm_key)? else {
        return Ok(());
    };
    let entry = entries()
        .as_ref()
        .and_then(|all| all.get(&address).cloned());
    let stays = match entry.as_deref() {
        // Nobody leaves before the last rank has done all its collectives on the team.
        Some(Entry::Team(team, ..)) => match team.any(any) {
            Ok(any) => !any,
            Err(error) => {
                tracing::warn!("a communicator keeps its settings: {error}");
                true
            }
        },
        // The host runs them: without a team there is nothing to lose, and nobody to ask.
        Some(Entry::Forward(_)) => false,
        None => true,
    };
    match stays {
        true => Ok(()),
        false => host.delete_comm_attribute(comm, session.comm_key),
    }
}

fn entries() -> MutexGuard<'static, Option<HashMap<usize, Arc<Entry>>>> {
    ENTRIES.lock()
}

/// Takes an entry out of use.
fn forget(address: usize) -> Option<Arc<Entry>> {
    let entry = entries().as_mut()?.remove(&address);
    GENERATION.fetch_add(1, Ordering::Release);
    entry
}

/// Teams of freed communicators that some rank may still use.
static RETIRED: Mutex<Vec<Arc<Team>>> = Mutex::new(Vec::new());

fn retired() -> MutexGuard<'static, Vec<Arc<Team>>> {
    RETIRED.lock()
}

/// Queues of freed communicators and requests until nothing is under way in them.
static ORPHANED: Mutex<Vec<Arc<Queue>>> = Mutex::new(Vec::new());

/// Takes down retired teams that nobody uses any more. Not from a callback of the host, which it calls.
fn sweep() {
    let _inside = Inside::enter();
    end_orphaned();
    // What the host calls back meanwhile may retire more.
    let mut teams = std::mem::take(&mut *retired());
    teams.retain(|team| !team.is_over());
    retired().append(&mut teams);
}

/// Delete callback of the communicator attribute. Runs at a time of the host's choosing, on ranks
/// one by one: leaving a team waits for nobody.
pub unsafe extern "C" fn on_comm_free(
    _comm: usize,
    _key: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    crate::panic_guard::guard(None, || {
        let _inside = Inside::enter();
        take_down(value as usize);
        0
    })
}

/// Ends this rank's use of the entry at `address`: parks its team, or keeps it until all have left it.
fn take_down(address: usize) {
    let entry = forget(address);
    let Some(Entry::Team(team, key, nonblocking, _)) = entry.as_deref() else {
        return;
    };
    end_use(team, key.as_ref());
    nonblocking.orphan().for_each(give_up);
}

/// Ends the use of a queue to which nothing is added any more, when nothing is under way in it.
pub fn give_up(queue: Arc<Queue>) {
    ORPHANED.lock().push(queue);
    end_orphaned();
}

/// Ends the use of those in which nothing is under way any more.
fn end_orphaned() {
    let over: Vec<_> = ORPHANED
        .lock()
        .extract_if(.., |queue| queue.is_idle())
        .collect();
    for queue in over {
        let CommTeam { team, key, .. } = &**queue.comm_team();
        end_use(team, key.as_ref());
    }
}

/// Parks a team, or keeps it until all have left it.
fn end_use(team: &Arc<Team>, key: Option<&Key>) {
    if !key.is_some_and(|key| parked::keep(team, key)) && team.retire() {
        retired().push(team.clone());
    }
}

/// How all ranks report if the world has no team; `None` if some may not take part, or if rank 0 wants
/// no statistics. Collective over the world where all its ranks are known to run ferrorail.
fn report_exchange(session: &Session) -> Option<OobPmpi> {
    let (host, world) = (session.host(), session.host().predefined().comm_world);
    let alone = host.comm_size(world).ok()? == 1;
    if alone || session.world.keeps_away(host, world).ok()?.is_some() {
        return None;
    }
    let needless = session.runtime.settings().stats == StatsSink::Off;
    let needless = host.comm_rank(world).ok()? != 0 || needless;
    if host.allreduce_min(c_int::from(needless), world).ok()? == 1 {
        return None;
    }
    OobPmpi::new(host, world).ok()
}

/// Takes down all teams and reports. Collective over the world, if it has a team.
pub fn finalize(session: &Session) {
    // Also of what the host does afterwards.
    std::mem::forget(InHost::enter("MPI_Finalize"));
    let host = session.host();
    let world = host.comm_attribute(host.predefined().comm_world, session.comm_key);
    let world = world.ok().flatten();
    let all = entries().take().unwrap_or_default();
    GENERATION.fetch_add(1, Ordering::Release);
    let team_of = |entry: &Arc<Entry>| match &**entry {
        Entry::Team(team, ..) => Some(team.clone()),
        Entry::Forward(_) => None,
    };
    // What a program has not awaited has its team in use for ever.
    let nonblocking_team_of = |entry: &Arc<Entry>| match &**entry {
        Entry::Team(_, _, nonblocking, _) => {
            let queue = nonblocking.queue()?.ok().filter(|queue| queue.is_idle())?;
            Some(queue.team().clone())
        }
        Entry::Forward(_) => None,
    };
    let world_team = world.and_then(|address| team_of(all.get(&address)?));
    let teams: Vec<Arc<Team>> = all
        .iter()
        .filter(|(address, _)| Some(**address) != world)
        .filter_map(|(_, entry)| team_of(entry))
        .chain(all.values().filter_map(nonblocking_team_of))
        .collect();
    // What follows is of all ranks: who waits for this one in a call does not come to it.
    world_team
        .iter()
        .chain(&teams)
        .for_each(|team| team.no_further_call());
    let rank = host.comm_rank(host.predefined().comm_world).unwrap_or(0);
    for entry in all.values() {
        if let Entry::Team(_, _, nonblocking, _) = &**entry {
            nonblocking.spares().close().for_each(give_up);
        }
    }
    end_orphaned();
    let retired = std::mem::take(&mut *retired());
    parked::clear();
    let mut others = match world_team {
        Some(_) => None,
        None => report_exchange(session),
    };
    let others = others.as_mut().map(|oob| oob as &mut dyn Oob);
    session
        .context
        .finalize(world_team.as_ref(), teams, retired, Rank(rank), others);
}
