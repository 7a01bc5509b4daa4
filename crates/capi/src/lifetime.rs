//! From the host's `MPI_Init` to its `MPI_Finalize`: the session begins with the first wrapped call in between.

use crate::panic_guard::{around, guard};
use crate::presence::{self, World};
use crate::progress::Progress;
use crate::runtime::{self, Runtime};
use crate::session::Session;
use crate::thread::{Inside, Local, with_local};
use crate::window::entry as window;
use crate::{comm_settings, datatype, logging, next, nonblocking, team_cache, wait_signal};
use ferrorail_base::complain;
use ferrorail_base::sync::{AtomicBool, Ordering};
use ferrorail_engine::Context;
use ferrorail_mpi_abi::{DatatypeTable, MpiError};
use libc::{c_int, c_void};
use std::sync::OnceLock;

static SESSION: OnceLock<Option<Session>> = OnceLock::new();
static FINALIZED: AtomicBool = AtomicBool::new(false);

/// The session, if MPI is up and this thread is not inside ferrorail already.
pub fn session() -> Option<&'static Session> {
    with_local(session_of)
}

/// [`session`] for a caller that has its thread's own things at hand.
#[inline]
pub fn session_of(local: &Local) -> Option<&'static Session> {
    if local.is_inside() || FINALIZED.load(Ordering::Relaxed) {
        return None;
    }
    match SESSION.get() {
        Some(session) => session.as_ref(),
        None => start(),
    }
}

/// Runs one kind of `MPI_Init` of the host.
pub fn initialise(host: impl FnOnce() -> c_int) -> c_int {
    around(None, presence::announce, host, |(), code| {
        session();
        code
    })
}

#[cold]
fn start() -> Option<&'static Session> {
    let runtime = runtime::get()?;
    if !runtime.host.is_active() {
        return None;
    }
    let _inside = Inside::enter();
    SESSION
        .get_or_init(|| match make(runtime) {
            Ok(session) => Some(session),
            Err(error) => {
                complain(format_args!(
                    "ferrorail: {error} while starting; every call is left to the host MPI"
                ));
                None
            }
        })
        .as_ref()
}

fn make(runtime: &'static Runtime) -> Result<Session, MpiError> {
    let host = &runtime.host;
    let predefined = host.predefined();
    let rank = host.comm_rank(predefined.comm_world)?;
    let log = logging::start(runtime.settings(), rank);
    let signal = runtime.settings().wait_signal;
    let unanswered = signal.and_then(|signal| {
        let why = wait_signal::answer(signal, rank).err()?;
        Some(format!("FERRORAIL_WAIT_SIGNAL={signal}: {why}"))
    });
    if rank == 0 {
        let unknown = ferrorail_engine::algorithm_problems(runtime.settings());
        for problem in runtime.problems().iter().chain(&unknown) {
            complain(format_args!("ferrorail: {problem}"));
        }
        for complaint in log.err().into_iter().chain(unanswered) {
            complain(format_args!("ferrorail: {complaint}"));
        }
    }
    tracing::debug!(mpi = host.short_version(), abi = %host.kind(), "host MPI found");
    let (world, neighbours) = World::find(host, runtime.settings().presence_assumed)?;
    let self_comm = host.private_comm(predefined.comm_self)?;
    // SAFETY: the callbacks keep to their contract and catch panics.
    let (comm_key, settings_key, type_key, finalize_key) = unsafe {
        (
            host.create_comm_key(team_cache::on_comm_free)?,
            host.create_inherited_comm_key(
                comm_settings::on_comm_dup,
                comm_settings::on_comm_free,
            )?,
            host.create_type_key(datatype::on_type_free)?,
            host.create_comm_key(on_finalize)?,
        )
    };
    // MPI_Finalize begins with deleting the attributes of MPI_COMM_SELF, the first one set
    // last (MPI 4.1, section 11.2.4): other tools' callbacks still find collectives working.
    host.set_comm_attribute(predefined.comm_self, finalize_key, 1)?;
    let progress = Progress::start(host, self_comm)?;
    let context = Context::new(runtime.settings().clone(), Box::new(progress.clone()));
    context.know_neighbours(neighbours);
    Ok(Session {
        runtime,
        context,
        progress,
        world,
        self_comm,
        comm_key,
        settings_key,
        type_key,
        bypass: next::bypass(),
        datatypes: DatatypeTable::load(host),
    })
}

/// Deletion of the attribute on `MPI_COMM_SELF`: `MPI_Finalize` has begun.
unsafe extern "C" fn on_finalize(
    _comm: usize,
    _key: c_int,
    _value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    guard(None, || {
        if let Some(session) = session() {
            let _inside = Inside::enter();
            nonblocking::helper::stop();
            nonblocking::queue::abandon();
            nonblocking::persistent::end(session);
            window::finalize();
            team_cache::finalize(session);
            FINALIZED.store(true, Ordering::Relaxed);
            session.progress.stop();
            if let Err(error) = session.host().free_comm(session.self_comm) {
                tracing::debug!("at finalize: {error}");
            }
        }
        0
    })
}
