//! Persistent collectives (MPI 4.1, section 6.13): each start is a non-blocking collective. They have a team each, as ranks may
//! start them in different orders.

use super::helper;
use super::kept_types::KeptTypes;
use super::persistent_request::{self, PersistentRequest};
use super::queue::Execution;
use super::request::{Job, complete, is_open, with_errors};
use super::spares::{Numbered, Spares};
use crate::lifetime;
use crate::panic_guard::around;
use crate::session::Session;
use crate::team_cache::give_up;
use crate::thread::Inside;
use ferrorail_base::sync::{AtomicUsize, Mutex, Ordering};
use ferrorail_mpi_abi::{Comm, Request, SUCCESS};
use libc::{c_int, c_void};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Begins a collective as this job, which goes on to where it waits; how far it is, if it is not over.
pub type Begin = Box<dyn Fn(&'static Session, &Arc<Job>) -> Option<Execution>>;

/// A collective that the program starts as often as it likes.
pub struct Persistent {
    /// The name of the call that made it, for messages.
    name: &'static str,
    comm: Comm,
    queue: Numbered,
    spares: Arc<Spares>,
    request: Arc<PersistentRequest>,
    begin: Begin,
}

// SAFETY: `begin` names buffers and arrays of the program, which are the collective's until the request is freed; any thread
// of the program may start it, one at a time.
unsafe impl Send for Persistent {}
// SAFETY: as above.
unsafe impl Sync for Persistent {}

/// All of them, by the handles of their requests.
static ALL: Mutex<BTreeMap<usize, Arc<Persistent>>> = Mutex::new(BTreeMap::new());

/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Persistent {
    /// Has the program start a collective of the call `name` on `comm`, which has `queue` and leaves it to `spares`; the
    /// handle of its request.
    pub fn offer(
        (name, comm): (&'static str, Comm),
        (queue, spares): (Numbered, &Arc<Spares>),
        request: PersistentRequest,
        begin: Begin,
    ) -> Request {
        let handle = request.request;
        let persistent = Self {
            name,
            comm,
            queue,
            spares: spares.clone(),
            request: Arc::new(request),
            begin,
        };
        ALL.lock().insert(handle.0, Arc::new(persistent));
        COUNT.fetch_add(1, Ordering::Release);
        handle
    }

    /// Its request is gone.
    fn leave_queue(&self) {
        if let Some(queue) = self.spares.keep(&self.queue) {
            give_up(queue);
        }
    }

    fn start(&self, session: &'static Session) {
        let (queue, types) = (&self.queue.queue, KeptTypes::default());
        let job = Job::new(self.name, self.comm, queue.comm_team(), types);
        let job = Arc::new(job);
        job.open_again(&self.request);
        match (self.begin)(session, &job) {
            Some(execution) => {
                queue.push(job, execution);
                helper::wake();
            }
            None => job.over(),
        }
    }
}

/// Whether there is one.
#[inline]
fn any() -> bool {
    COUNT.load(Ordering::Acquire) != 0
}

/// Runs `forward`, the host's call that starts the `count` requests from `first` on, and begins what is ours of them.
///
/// # Safety
/// The program's arguments.
pub unsafe fn start(count: c_int, first: *const c_void, forward: impl FnOnce() -> c_int) -> c_int {
    if !any() {
        return forward();
    }
    let mut begun = None;
    let code = around(None, lifetime::session, forward, |session, code| {
        let Some(session) = session.filter(|_| code == SUCCESS) else {
            return code;
        };
        let _inside = Inside::enter();
        for index in 0..count.max(0) as usize {
            // SAFETY: the caller's contract.
            let request = Request(unsafe { session.host().handle_in(first, index) });
            let persistent = ALL.lock().get(&request.0).cloned();
            if let Some(persistent) = persistent {
                persistent.start(session);
            }
        }
        complete(session);
        begun = Some(session);
        code
    });
    // The program's error handler may throw.
    begun.map_or(code, |session| with_errors(session, code))
}

/// Runs `forward`, the host's call that frees `request`, the address of one.
///
/// # Safety
/// The program's argument.
pub unsafe fn free(request: *const c_void, forward: impl FnOnce() -> c_int) -> c_int {
    if !any() {
        return forward();
    }
    // Before the host may give its handle to another one.
    let taken = || {
        let session = lifetime::session()?;
        // SAFETY: the caller's contract.
        let request = Request(unsafe { session.host().handle_in(request, 0) });
        let persistent = ALL.lock().remove(&request.0)?;
        Some((session, persistent, is_open(request)))
    };
    around(None, taken, forward, |taken, code| {
        let Some((session, persistent, is_under_way)) = taken else {
            return code;
        };
        let _inside = Inside::enter();
        match code {
            SUCCESS => {
                COUNT.fetch_sub(1, Ordering::Relaxed);
                persistent.request.freed(session, is_under_way);
                persistent.leave_queue();
            }
            _ => drop(ALL.lock().insert(persistent.request.request.0, persistent)),
        }
        code
    })
}

/// Gives up those that the program has not freed, at its end.
pub fn end(session: &Session) {
    let all = std::mem::take(&mut *ALL.lock());
    COUNT.fetch_sub(all.len(), Ordering::Relaxed);
    for persistent in all.into_values() {
        persistent.leave_queue();
    }
    persistent_request::end(session);
}
