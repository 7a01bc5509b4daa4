//! From a communicator to its team.
//!
//! The host keeps an [`Entry`] for each communicator as an attribute, whose delete callback takes
//! the team down when the communicator goes. In front of that, each thread remembers the entries it
//! used last. A remembered one is valid as long as no entry was deleted anywhere in the process,
//! because a host may give a freed communicator's handle to a new one.

use crate::oob_pmpi::OobPmpi;
use crate::recents::Recents;
use crate::runtime::{Inside, Session};
use ferrorail_base::Rank;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_engine::{EngineError, Team};
use ferrorail_mpi_abi::{Comm, MpiError};
use libc::{c_int, c_void};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Reasons for leaving a communicator's collectives to the host.
pub mod reason {
    /// The arguments are wrong; the host says how.
    pub const INVALID: &str = "invalid arguments";
    /// One element of a reduction exceeds scratch.
    pub const LARGE_ELEMENT: &str = "element larger than FERRORAIL_SCRATCH allows";
    /// Two groups.
    pub const INTER_COMM: &str = "inter-communicator";
    /// The collective is none of ours.
    pub const NOT_OFFERED: &str = "not offered";
    /// It was left to the host when it was made, or does not exist.
    pub const NO_WINDOW: &str = "not a window of ferrorail";
    /// Switched off on some rank.
    pub const SWITCHED_OFF: &str = "FERRORAIL_ENABLE=0";
    /// The team could not be made.
    pub const NO_TEAM: &str = "no team (see the warning)";
}

/// What is known of one communicator; the same kind on all its ranks.
pub enum Entry {
    /// Collectives run on this team.
    Team(Arc<Team>),
    /// They are left to the host, for this reason.
    Forward(&'static str),
}

/// All entries by their address, which is the attribute's value.
static ENTRIES: Mutex<Option<HashMap<usize, Arc<Entry>>>> = Mutex::new(None);

/// Number of entries deleted so far, plus one.
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
    recents: &Recents<Entry>,
    comm: Comm,
) -> Option<&'a Entry> {
    let generation = GENERATION.load(Ordering::Acquire);
    let entry = recents.get_or_find(comm.0, generation, || find(session, comm))?;
    // SAFETY: the entry lives until the attribute is deleted, and none was since it was found.
    Some(unsafe { &*entry })
}

#[cold]
fn find(session: &Session, comm: Comm) -> Option<*const Entry> {
    let host = session.host();
    if comm == host.predefined().comm_null {
        return None;
    }
    let _inside = Inside::enter();
    match host.comm_attribute(comm, session.comm_key).ok()? {
        Some(address) => Some(address as *const Entry),
        None => keep(session, comm, create(session, comm).ok()?).ok(),
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
        forget(address as usize);
        return Err(error);
    }
    Ok(address)
}

/// Decides, together with all ranks of `comm`, what becomes of its collectives. No lock is held, so
/// that threads may do this on several communicators at once.
fn create(session: &Session, comm: Comm) -> Result<Entry, MpiError> {
    let host = session.host();
    if host.is_inter_comm(comm)? {
        return Ok(Entry::Forward(reason::INTER_COMM));
    }
    let enabled = c_int::from(session.runtime.settings().enable);
    if host.allreduce_min(enabled, comm)? == 0 {
        return Ok(Entry::Forward(reason::SWITCHED_OFF));
    }
    let oob = OobPmpi::create(host, comm)?;
    Ok(match Team::create(&session.context, Box::new(oob)) {
        Ok(team) => Entry::Team(Arc::new(team)),
        Err(error) => Entry::Forward(refused(session, comm, &error)),
    })
}

fn refused(session: &Session, comm: Comm, error: &EngineError) -> &'static str {
    if let EngineError::SwitchedOff { .. } = error {
        return reason::SWITCHED_OFF;
    }
    if session.host().comm_rank(comm) == Ok(0) {
        // Communicators that are made one after another mostly fail alike.
        let act = match error {
            EngineError::Refused { act, .. } => act,
            _ => "making a team",
        };
        session.context.warn_once_about(act, || {
            format!("collectives of a communicator are left to the host MPI: {error}")
        });
    }
    reason::NO_TEAM
}

fn entries() -> MutexGuard<'static, Option<HashMap<usize, Arc<Entry>>>> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes an entry out of use; whoever drops the result takes its team down.
fn forget(address: usize) -> Option<Arc<Entry>> {
    let entry = entries().as_mut()?.remove(&address);
    GENERATION.fetch_add(1, Ordering::Release);
    entry
}

/// Teams of freed communicators whose memory peers may still read, with when that ends.
static RETIRED: Mutex<VecDeque<(Instant, Arc<Team>)>> = Mutex::new(VecDeque::new());

/// Most such teams. Few suffice: who misses a completion waits for it in its own call that frees the
/// communicator, and the others soon wait for that rank.
const RETIRED_MAX: usize = 8;

/// Frees `team`, but keeps its memory as long as peers may look at it.
fn retire(team: &Arc<Team>) {
    let kept = team
        .retire()
        .then(|| (Instant::now() + team.readable_for(), team.clone()));
    let mut retired = RETIRED.lock().unwrap_or_else(PoisonError::into_inner);
    retired.extend(kept);
    let is_over = |(end, _): &(Instant, _)| *end <= Instant::now();
    let mut over = Vec::new();
    while retired.len() > RETIRED_MAX || retired.front().is_some_and(is_over) {
        over.extend(retired.pop_front());
    }
    // Taking teams down takes time; nobody need wait for it.
    drop(retired);
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
        if let Some(Entry::Team(team)) = forget(value as usize).as_deref() {
            retire(team);
        }
        0
    })
}

/// Takes down all teams and reports. Collective over the world, if it has a team.
pub fn finalize(session: &Session) {
    let host = session.host();
    let world = host.comm_attribute(host.predefined().comm_world, session.comm_key);
    let world = world.ok().flatten();
    let all = entries().take().unwrap_or_default();
    GENERATION.fetch_add(1, Ordering::Release);
    let team_of = |entry: &Arc<Entry>| match &**entry {
        Entry::Team(team) => Some(team.clone()),
        Entry::Forward(_) => None,
    };
    let world_team = world.and_then(|address| team_of(all.get(&address)?));
    let teams: Vec<Arc<Team>> = all
        .iter()
        .filter(|(address, _)| Some(**address) != world)
        .filter_map(|(_, entry)| team_of(entry))
        .collect();
    let rank = host.comm_rank(host.predefined().comm_world).unwrap_or(0);
    session
        .context
        .finalize(world_team.as_deref(), &teams, Rank(rank));
    drop(std::mem::take(
        &mut *RETIRED.lock().unwrap_or_else(PoisonError::into_inner),
    ));
}
