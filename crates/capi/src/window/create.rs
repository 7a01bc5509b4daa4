//! Making and freeing windows (MPI 4.1, section 12.2).

use super::attributes::{self, Attributes};
use super::entry::{self, Entry, forget, remember};
use super::handle;
use super::hints::Hints;
use super::info_keys;
use crate::collective::forwarded;
use crate::error::{CallError, Wrong, report_window};
use crate::lifetime;
use crate::panic_guard::{after_panic, around, guarded};
use crate::reason;
use crate::session::Session;
use crate::team_cache;
use crate::thread::{self, InHostCall, Inside};
use ferrorail_engine::{Memory, Team, Threads, Window, WindowSpec};
use ferrorail_mpi_abi::{Comm, Host, Info, SUCCESS, Win};
use libc::{c_int, c_void};
use std::ffi::CStr;

/// Which memory a new window gets.
#[derive(Clone, Copy)]
pub enum Allocation {
    /// The program's.
    None,
    /// Ours.
    Private,
    /// Attached later.
    Dynamic,
    /// Ours, that others load and store.
    Shared,
}

impl Allocation {
    /// Whether the memory is ours.
    fn is_own(self) -> bool {
        matches!(self, Self::Private | Self::Shared)
    }

    /// The name in statistics of what makes such a window.
    fn maker(self) -> &'static str {
        match self {
            Self::None => "win_create",
            Self::Private => "win_allocate",
            Self::Dynamic => "win_create_dynamic",
            Self::Shared => "win_allocate_shared",
        }
    }
}

/// The arguments of a call that makes a window.
#[derive(Clone, Copy)]
pub struct NewWindow {
    /// Length in bytes.
    pub bytes: i64,
    /// Displacement unit.
    pub unit: i64,
    /// The memory.
    pub allocation: Allocation,
    /// Its first byte; where the program wants to know that (a pointer to a pointer) if it is ours.
    pub base: *mut c_void,
    /// Hints.
    pub info: usize,
    /// The ranks.
    pub comm: usize,
    /// Where the handle goes.
    pub window: *mut c_void,
}

/// Makes a window, or has the host make it and says so in the statistics.
///
/// # Safety
/// The program's arguments.
pub unsafe fn create(args: &NewWindow, forward: impl FnOnce() -> c_int) -> c_int {
    let name = args.allocation.maker();
    let decided = guarded(|| {
        let session = lifetime::session()?;
        if thread::with_local(|local| local.is_handed(name, args.comm, args)) {
            return None;
        }
        let comm = session.host().comm(args.comm);
        // SAFETY: the caller's contract.
        Some((session, unsafe { try_create(session, comm, args) }))
    });
    match decided {
        Some(Some((_, Ok(())))) => SUCCESS,
        Some(Some((session, Err(why)))) => forwarded(session, (name, args.comm), why, 0, forward),
        Some(None) => forward(),
        None => after_panic(Some(args.comm)),
    }
}

/// # Safety
/// As [`create`].
unsafe fn try_create(session: &Session, comm: Comm, args: &NewWindow) -> Result<(), &'static str> {
    // Memory of the program may begin at MPI_BOTTOM, on some ranks alone: the others do not know.
    let nowhere = args.window.is_null() || args.base.is_null() && args.allocation.is_own();
    if nowhere || args.bytes < 0 || args.unit <= 0 {
        return Err(reason::INVALID);
    }
    let host = session.host();
    let info = host.info(args.info);
    let given = info_keys::read(session, comm, info);
    let spec = WindowSpec {
        memory: match args.allocation {
            Allocation::None => Memory::Create {
                address: args.base as usize,
            },
            Allocation::Private => Memory::Allocate,
            Allocation::Dynamic => Memory::Dynamic,
            Allocation::Shared => Memory::Shared {
                apart: is_set(host, info, c"alloc_shared_noncontig"),
            },
        },
        bytes: args.bytes as u64,
        unit: args.unit as u64,
        lock: given.lock,
        elements: by_element(host, info),
        threads: threads(host),
        keys: given.keys,
    };
    let entry = thread::with_local(|local| {
        // SAFETY: a communicator in use by this call is not freed meanwhile.
        unsafe { team_cache::entry(session, &local.handle_cache, comm) }
    });
    let team = match entry {
        Some(team_cache::Entry::Team(team, ..)) => team.clone(),
        Some(team_cache::Entry::Forward(why)) => return Err(why),
        None => return Err(reason::INVALID),
    };
    team.begin_call();
    let _inside = Inside::enter();
    // SAFETY: MPI forbids to free memory of a window in use.
    let window = unsafe { make(session, &team, comm, spec) }?;
    let made = handle::make(host, comm, info, team.is_on_one_host()).map_err(|error| {
        tracing::warn!("the host MPI makes no window: {error}");
        reason::NO_WINDOW
    })?;
    // SAFETY: the program's output arguments.
    unsafe {
        if args.allocation.is_own() {
            let to = args.base.cast::<usize>();
            to.write_unaligned(attributes::base(host, &window));
        }
        host.write_handle(args.window, made.window.0);
    }
    remember(Entry {
        handle: made.window,
        ranks: made.ranks,
        attributes: Attributes::of(host, &window),
        hints: Hints::of(host, info),
        window,
    });
    Ok(())
}

/// # Safety
/// As [`Window::create`].
unsafe fn make(
    session: &Session,
    team: &Team,
    comm: Comm,
    spec: WindowSpec,
) -> Result<Window, &'static str> {
    // SAFETY: the caller's contract.
    unsafe { Window::create(team, spec) }.map_err(|error| {
        if session.host().comm_rank(comm) == Ok(0) {
            // Where something has run out, a program with many windows would be told of each.
            let line = format!("a window is left to the host MPI: {error}");
            session.context.warn_once_about(&line, || line.clone());
        }
        reason::NO_TEAM
    })
}

/// Which threads may operate on a window.
fn threads(host: &Host) -> Threads {
    let constants = host.constants();
    match host.thread_level() {
        Some(level) if level < constants.thread_serialized => Threads::One,
        Some(level) if level < constants.thread_multiple => Threads::InTurn,
        _ => Threads::AtOnce,
    }
}

/// Whether accumulations may be atomic for each element of up to eight bytes alone (MPI 4.1, section
/// 12.2.1); Open MPI's own hint promises as much.
fn by_element(host: &Host, info: Info) -> bool {
    let granularity = host.info_value(info, c"mpi_accumulate_granularity");
    let bytes = granularity.and_then(|text| text.trim().parse::<u64>().ok());
    bytes.is_some_and(|bytes| (1..=8).contains(&bytes))
        || is_set(host, info, c"acc_single_intrinsic")
}

/// Whether a hint says `true`.
fn is_set(host: &Host, info: Info, key: &CStr) -> bool {
    host.info_value(info, key)
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
}

/// `MPI_Win_free` in statistics and messages.
const FREE: &str = "win_free";

/// `MPI_Win_free`: ours ends, then the host's, whose attribute callbacks still find it.
///
/// # Safety
/// The program's argument.
pub unsafe fn free(window: *mut c_void, forward: impl FnOnce() -> c_int) -> c_int {
    let closed = guarded(|| {
        let session = lifetime::session().filter(|_| !window.is_null())?;
        // SAFETY: the program's handle.
        let handle = Win(unsafe { session.host().handle_at(window) });
        if thread::with_local(|local| local.is_handed(FREE, handle.0, &handle)) {
            return None;
        }
        let entry = entry::hold(handle).map(|entry| entry.window.close().map(|()| entry));
        Some((session, handle, entry))
    });
    let (session, handle, entry) = match closed {
        Some(Some(closed)) => closed,
        Some(None) => return forward(),
        None => return after_panic(None),
    };
    let entry = match entry {
        Some(Ok(entry)) => entry,
        Some(Err(error)) => return report_window(session, handle, FREE, &error.into()),
        None => {
            let why = super::why_not_ours(session, handle);
            return forwarded(session, (FREE, handle.0), why, 0, forward);
        }
    };
    let of_call = handle;
    let mark = || (entry, InHostCall::enter(FREE, handle.0, &of_call));
    around(None, mark, forward, |(entry, mark), code| {
        drop(mark);
        forget(&entry);
        if let Some(comm) = entry.ranks {
            let _inside = Inside::enter();
            if let Err(error) = session.host().free_comm(comm) {
                tracing::debug!("the communicator of a window is left behind: {error}");
            }
        }
        code
    })
}

/// `MPI_Win_attach`.
///
/// # Safety
/// The program keeps the memory until it is detached.
pub unsafe fn attach(entry: &Entry, base: *mut c_void, bytes: isize) -> Result<(), CallError> {
    let bytes = usize::try_from(bytes).map_err(|_| Wrong::Size)?;
    is_dynamic(entry)?;
    // SAFETY: the caller's contract.
    Ok(unsafe { entry.onesided().attach(base.cast(), bytes) }?)
}

/// `MPI_Win_detach`.
pub fn detach(entry: &Entry, base: *const c_void) -> Result<(), CallError> {
    is_dynamic(entry)?;
    Ok(entry.onesided().detach(base.cast())?)
}

fn is_dynamic(entry: &Entry) -> Result<(), CallError> {
    match entry.window.spec().memory {
        Memory::Dynamic => Ok(()),
        _ => Err(Wrong::Flavour.into()),
    }
}
