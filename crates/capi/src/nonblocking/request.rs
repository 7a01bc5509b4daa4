//! What the program has for a non-blocking collective: a generalized request of the host (MPI 4.1, section 13.2), which all
//! of its calls on requests take, alone or among its own. Or one of the starts of a persistent request.

use super::comm_team::CommTeam;
use super::kept_types::KeptTypes;
use super::persistent_request::PersistentRequest;
use crate::error::{CallError, Wrong, report};
use crate::session::Session;
use ferrorail_base::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};
use ferrorail_engine::Team;
use ferrorail_mpi_abi::{Comm, MpiError, Request};
use libc::c_int;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// A collective under way.
pub struct Job {
    /// Its name, for messages.
    pub name: &'static str,
    /// The program's communicator, while it has not been freed.
    pub comm: Comm,
    is_done: AtomicBool,
    /// How it ended otherwise.
    fault: OnceLock<Outcome>,
    request: OnceLock<Requested>,
    comm_team: Arc<CommTeam>,
    types: KeptTypes,
}

/// What the program has for it.
enum Requested {
    /// A generalized request of this handle.
    Once(Request),
    /// A persistent request.
    Again(Arc<PersistentRequest>),
}

impl Requested {
    fn handle(&self) -> Request {
        match self {
            Self::Once(request) => *request,
            Self::Again(persistent) => persistent.request,
        }
    }

    fn complete(&self, session: &Session) -> Result<(), MpiError> {
        match self {
            Self::Once(request) => session.host().complete_request(*request),
            Self::Again(persistent) => persistent.complete(session),
        }
    }
}

/// How a collective ended.
pub enum Outcome {
    /// Well.
    Done,
    /// Its arguments were wrong, and this rank took no part.
    Invalid,
    /// With this error.
    Failed(Box<CallError>),
}

/// Requests that are not complete with the host, by handle.
static OPEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// How many these are, and those of jobs that failed, until the program has been told.
static OPEN_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Jobs that are over, whose requests are to be completed by a thread of the program.
static OVER: Mutex<Vec<Arc<Job>>> = Mutex::new(Vec::new());
static OVER_COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Jobs that failed, whose requests the host has freed, or learnt to be complete if persistent, in this thread's call.
    static FAILED: RefCell<Vec<Arc<Job>>> = const { RefCell::new(Vec::new()) };
}

impl Job {
    /// A call `name` on `comm`, which has this team. It gives up `types` at its end.
    pub fn new(
        name: &'static str,
        comm: Comm,
        comm_team: &Arc<CommTeam>,
        types: KeptTypes,
    ) -> Self {
        Self {
            name,
            comm,
            is_done: AtomicBool::new(false),
            fault: OnceLock::new(),
            request: OnceLock::new(),
            comm_team: comm_team.clone(),
            types,
        }
    }

    /// The team that it runs on.
    pub fn team(&self) -> &Arc<Team> {
        &self.comm_team.team
    }

    /// Gives up its types. By a thread of the program, once it is over.
    pub fn free_types(&self, session: &Session) {
        self.types.free(session);
    }

    /// How it ended, if it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self.is_done.load(Ordering::Acquire) {
            true => Some(&Outcome::Done),
            false => self.fault.get(),
        }
    }

    /// It has ended so, which is said once.
    pub fn finish(&self, outcome: Outcome) {
        debug_assert!(self.outcome().is_none(), "a job ends once");
        match outcome {
            Outcome::Done => self.is_done.store(true, Ordering::Release),
            fault => drop(self.fault.set(fault)),
        }
    }

    /// Tells the error handler of its communicator how it failed; the code, if it did.
    pub fn report(&self, session: &Session) -> Option<c_int> {
        let comm = match self.comm_team.is_orphaned() {
            // Errors of no communicator are of this one (MPI 4.1, section 9.3).
            true => session.host().predefined().comm_self,
            false => self.comm,
        };
        let invalid = CallError::Wrong(Wrong::Arguments);
        let error = match self.outcome()? {
            Outcome::Done => return None,
            Outcome::Failed(error) => error,
            Outcome::Invalid => &invalid,
        };
        Some(report(session, comm, self.name, error))
    }

    /// Makes its request.
    ///
    /// # Errors
    /// The host's.
    pub fn open_request(self: &Arc<Self>, session: &'static Session) -> Result<Request, MpiError> {
        let job = self.clone();
        let on_free = move || {
            if !matches!(job.outcome(), Some(Outcome::Done)) {
                note_failed(job);
            }
        };
        let request = session.host().start_request(Box::new(on_free))?;
        self.open(Requested::Once(request));
        Ok(request)
    }

    /// It is what the program has started of this persistent request.
    pub fn open_again(&self, request: &Arc<PersistentRequest>) {
        self.open(Requested::Again(request.clone()));
    }

    fn open(&self, requested: Requested) {
        OPEN.lock().insert(requested.handle().0);
        OPEN_COUNT.fetch_add(1, Ordering::Relaxed);
        let first = self.request.set(requested).is_ok();
        debug_assert!(first, "a job has one request");
    }

    /// It is over: its request is to be completed.
    pub fn over(self: Arc<Self>) {
        OVER.lock().push(self);
        OVER_COUNT.fetch_add(1, Ordering::Release);
    }
}

/// The call that this thread is in is to report that this failed.
fn note_failed(job: Arc<Job>) {
    // Nothing where the thread ends.
    let _ = FAILED.try_with(|failed| failed.borrow_mut().push(job));
}

/// Whether some request is not complete with the host, or the program has yet to be told of one that it failed.
#[inline]
pub fn any_open() -> bool {
    OPEN_COUNT.load(Ordering::Relaxed) != 0
}

/// Whether this request is one, of which the host needs not be asked: that may yield the core.
pub fn is_open(request: Request) -> bool {
    OPEN.lock().contains(&request.0)
}

/// Completes the requests of jobs that are over. By a thread of the program, as it calls the host.
pub fn complete(session: &Session) {
    if OVER_COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let jobs = std::mem::take(&mut *OVER.lock());
    OVER_COUNT.fetch_sub(jobs.len(), Ordering::Relaxed);
    for job in jobs {
        job.free_types(session);
        let Some(requested) = job.request.get() else {
            continue;
        };
        OPEN.lock().remove(&requested.handle().0);
        if let Err(error) = requested.complete(session) {
            tracing::error!("{}: {error}", job.name);
        }
        // Of persistent requests the host does not say when the program has awaited them: this call reports it.
        let is_persistent = matches!(requested, Requested::Again(_));
        if let Some(Outcome::Done) = job.outcome() {
            OPEN_COUNT.fetch_sub(1, Ordering::Relaxed);
        } else if is_persistent {
            note_failed(job);
        }
    }
}

/// What a call on requests returns that had this `code` of the host: errors of collectives whose requests it has freed are
/// told to the error handlers of their communicators.
pub fn with_errors(session: &Session, code: c_int) -> c_int {
    let jobs = FAILED.try_with(RefCell::take).unwrap_or_default();
    OPEN_COUNT.fetch_sub(jobs.len(), Ordering::Relaxed);
    // Each is told its own; one can be returned.
    let told = jobs.iter().filter_map(|job| job.report(session));
    told.fold(code, |_, latest| latest)
}
