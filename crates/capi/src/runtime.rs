//! The host MPI of this process, and the session between its `MPI_Init` and `MPI_Finalize`.

use crate::handle_cache::HandleCache;
use crate::operation::Operations;
use crate::presence::{self, World};
use crate::progress::Progress;
use crate::{comm_settings, logging, team_cache, wait_signal, window};
use ferrorail_base::config::{self, Problem, Settings};
use ferrorail_base::sync::{AtomicBool, Ordering};
use ferrorail_engine::Context;
use ferrorail_mpi_abi::{AbiKind, Comm, DatatypeTable, Host, HostError, MpiError};
use libc::{c_int, c_void};
use std::cell::Cell;
use std::sync::{Arc, OnceLock};

/// What is known once an MPI library is loaded.
pub struct Runtime {
    /// The MPI library.
    pub host: Host,
    settings: Settings,
    problems: Vec<Problem>,
    /// The variables that `settings` are read from.
    variables: Vec<(String, String)>,
}

/// What exists from the first wrapped call after `MPI_Init` until `MPI_Finalize`.
pub struct Session {
    /// The host and settings.
    pub runtime: &'static Runtime,
    /// The engine's share.
    pub context: Arc<Context>,
    /// A private communicator of this process alone, which returns errors.
    pub self_comm: Comm,
    progress: Progress,
    /// The ranks of the world.
    pub world: World,
    /// Key of the entries that communicators carry.
    pub comm_key: c_int,
    /// Key of the settings that communicators carry.
    pub settings_key: c_int,
    /// Key of the facts that datatypes carry.
    pub type_key: c_int,
    /// The file that answers calls of `PMPI_*` in ferrorail's place, if there is one: a tool in front
    /// would then call past ferrorail.
    pub bypass: Option<String>,
    /// Sizes of predefined datatypes.
    pub datatypes: DatatypeTable,
    /// Whether the host refuses equal send and receive buffers; found when first needed.
    rejects_aliases: OnceLock<bool>,
    /// Predefined operations; found when first needed.
    operations: OnceLock<Operations>,
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
static SESSION: OnceLock<Option<Session>> = OnceLock::new();
static FINALIZED: AtomicBool = AtomicBool::new(false);

/// What each thread has of its own; in one place, because finding it takes a call.
pub struct Local {
    /// Set while ferrorail itself calls the host: what the host calls back is not ours to take.
    inside: Cell<bool>,
    /// Communicators it used last.
    pub handle_cache: HandleCache<team_cache::Entry>,
    /// Windows it used last.
    pub recent_windows: HandleCache<window::Entry>,
    /// What it accumulated last.
    pub recent_update: Cell<Option<window::PlainUpdate>>,
}

thread_local! {
    static LOCAL: Local =
        const {
        Local {
            inside: Cell::new(false),
            handle_cache: HandleCache::new(),
            recent_windows: HandleCache::new(),
            recent_update: Cell::new(None),
        }
    };
}

/// Runs `call` with this thread's own things.
#[inline]
pub fn with_local<R>(call: impl FnOnce(&Local) -> R) -> R {
    const { assert!(!std::mem::needs_drop::<Local>()) };
    // Only the address comes out of the closure: what `call` captured is not copied into it.
    let local = LOCAL.with(std::ptr::from_ref);
    // SAFETY: what needs no destructor lives as long as its thread.
    call(unsafe { &*local })
}

/// Marks this thread as being inside ferrorail until dropped.
pub struct Inside(bool);

impl Inside {
    /// Enters; may be nested.
    pub fn enter() -> Self {
        Self(with_local(|local| local.inside.replace(true)))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        with_local(|local| local.inside.set(self.0));
    }
}

/// The runtime, or `None` while no usable MPI library is loaded (it may be loaded later).
pub fn get() -> Option<&'static Runtime> {
    RUNTIME.get().or_else(discover)
}

#[cold]
fn discover() -> Option<&'static Runtime> {
    static REFUSED: AtomicBool = AtomicBool::new(false);
    if REFUSED.load(Ordering::Relaxed) {
        return None;
    }
    match Host::of_program() {
        Ok(host) => {
            if let Some(mapping) = host.mapping() {
                crate::exports::leave_alone(&mapping);
            }
            Some(RUNTIME.get_or_init(|| Runtime::new(host)))
        }
        Err(HostError::Absent) => None,
        Err(error) => {
            if !REFUSED.swap(true, Ordering::Relaxed) && launcher_rank() == 0 {
                eprintln!("ferrorail: {error}; every call is left to it");
            }
            None
        }
    }
}

/// The session, if MPI is up and this thread is not inside ferrorail already.
pub fn session() -> Option<&'static Session> {
    with_local(session_of)
}

/// [`session`] for a caller that has its thread's own things at hand.
#[inline]
pub fn session_of(local: &Local) -> Option<&'static Session> {
    if local.inside.get() || FINALIZED.load(Ordering::Relaxed) {
        return None;
    }
    match SESSION.get() {
        Some(session) => session.as_ref(),
        None => start(),
    }
}

/// Runs one kind of `MPI_Init` of the host.
pub fn initialise(host: impl FnOnce() -> c_int) -> c_int {
    presence::announce();
    let code = host();
    session();
    code
}

#[cold]
fn start() -> Option<&'static Session> {
    let runtime = get()?;
    if !runtime.host.is_active() {
        return None;
    }
    let _inside = Inside::enter();
    SESSION
        .get_or_init(|| match Session::start(runtime) {
            Ok(session) => Some(session),
            Err(error) => {
                eprintln!("ferrorail: {error} while starting; every call is left to the host MPI");
                None
            }
        })
        .as_ref()
}

impl Runtime {
    fn new(host: Host) -> Self {
        let text = std::env::vars_os().map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        });
        let ours = text.filter(|(name, _)| name.starts_with(config::PREFIX));
        let variables: Vec<_> = ours.collect();
        let (settings, problems) = config::parse(variables.iter().cloned());
        Self {
            host,
            settings,
            problems,
            variables,
        }
    }

    /// The settings of this process.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The `FERRORAIL_*` variables of this process, as they were at the start.
    pub fn variables(&self) -> &[(String, String)] {
        &self.variables
    }
}

impl Session {
    fn start(runtime: &'static Runtime) -> Result<Self, MpiError> {
        let host = &runtime.host;
        let predefined = host.predefined();
        let rank = host.comm_rank(predefined.comm_world)?;
        let log = logging::start(&runtime.settings, rank);
        if let Some(signal) = runtime.settings.wait_signal {
            wait_signal::answer(signal, rank);
        }
        if rank == 0 {
            let unknown = ferrorail_engine::algorithm_problems(&runtime.settings);
            for problem in runtime.problems.iter().chain(&unknown) {
                eprintln!("ferrorail: {problem}");
            }
            if let Err(complaint) = log {
                eprintln!("ferrorail: {complaint}");
            }
        }
        tracing::debug!(mpi = host.short_version(), abi = %host.kind(), "host MPI found");
        let world = World::find(host, runtime.settings.presence_assumed)?;
        let self_comm = host.private_comm(predefined.comm_self)?;
        // SAFETY: the callbacks keep to their contract and catch panics.
        let (comm_key, settings_key, type_key, finalize_key) = unsafe {
            (
                host.create_comm_key(team_cache::on_comm_free)?,
                host.create_inherited_comm_key(
                    comm_settings::on_comm_dup,
                    comm_settings::on_comm_free,
                )?,
                host.create_type_key(crate::datatype::on_type_free)?,
                host.create_comm_key(on_finalize)?,
            )
        };
        // MPI_Finalize begins with deleting the attributes of MPI_COMM_SELF, the first one set
        // last (MPI 4.1, section 11.2.4): other tools' callbacks still find collectives working.
        host.set_comm_attribute(predefined.comm_self, finalize_key, 1)?;
        let progress = Progress::start(host, self_comm)?;
        Ok(Self {
            runtime,
            context: Context::new(runtime.settings.clone(), Box::new(progress.clone())),
            progress,
            world,
            self_comm,
            comm_key,
            settings_key,
            type_key,
            bypass: crate::next::bypass(),
            datatypes: DatatypeTable::load(host),
            rejects_aliases: OnceLock::new(),
            operations: OnceLock::new(),
        })
    }

    /// The MPI library.
    #[inline]
    pub fn host(&self) -> &'static Host {
        &self.runtime.host
    }

    /// What reduction operations mean.
    #[inline]
    pub fn operations(&self) -> &Operations {
        self.operations.get_or_init(|| Operations::load(self))
    }

    /// Whether the host reports equal send and receive buffers as an error (MPICH does unless built
    /// without checks; Open MPI does not). Asked of the host itself, on this process alone.
    #[inline]
    pub fn rejects_aliases(&self) -> bool {
        match self.rejects_aliases.get() {
            Some(&known) => known,
            None => self.try_alias(),
        }
    }

    #[cold]
    fn try_alias(&self) -> bool {
        *self.rejects_aliases.get_or_init(|| {
            let host = self.host();
            if host.kind() == AbiKind::OpenMpi {
                return false;
            }
            let (mut word, int) = (0 as c_int, host.predefined().int);
            let address = (&raw mut word).cast::<c_void>();
            // SAFETY: one integer in place, on a communicator of one rank that returns errors.
            let code = unsafe {
                (host.functions().allgather)(address, 1, int, address, 1, int, self.self_comm)
            };
            code != host.constants().success
        })
    }
}

/// Deletion of the attribute on `MPI_COMM_SELF`: `MPI_Finalize` has begun.
unsafe extern "C" fn on_finalize(
    _comm: usize,
    _key: c_int,
    _value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    crate::panic_guard::guard(None, || {
        if let Some(session) = session() {
            let _inside = Inside::enter();
            crate::window::finalize();
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

/// This process's rank as its launcher tells it, before MPI is up; 0 if it does not.
fn launcher_rank() -> u32 {
    [
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "SLURM_PROCID",
    ]
    .iter()
    .find_map(|name| std::env::var(name).ok()?.parse().ok())
    .unwrap_or(0)
}
