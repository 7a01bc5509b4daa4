//! The collectives: checks, then the engine or the host. One way to run them, [`run`]; what each
//! has of its own is its [`Collective`].

mod even;
mod fast_path;
mod handing_on;
mod list;
mod plain;
mod reduction;
mod rooted;
mod side;
mod table;
mod vector;

pub use even::{Allgather, Alltoall, Barrier};
pub use handing_on::{count_and_forward, forwarded};
pub use reduction::{Allreduce, Exscan, Reduce, ReduceScatter, ReduceScatterBlock, Scan};
pub use rooted::{Bcast, Gather, Scatter};
pub use vector::{Allgatherv, Alltoallv, Gatherv, Scatterv};

use crate::error::{CallError, report};
use crate::lifetime;
use crate::panic_guard::{after_panic, guarded};
use crate::reason;
use crate::session::Session;
use crate::team_cache::{self, Entry};
use crate::thread::{self, Local};
use fast_path::FastCall;
use ferrorail_base::Rank;
use ferrorail_engine::{EngineError, Team};
use ferrorail_mpi_abi::Comm;
use handing_on::invalid;
use libc::{c_int, c_void};
use std::ptr;

/// One side's arguments as they came in registers.
#[derive(Clone, Copy)]
pub struct Buffer {
    /// First element, or `MPI_IN_PLACE`.
    pub address: *mut c_void,
    /// Elements for each rank.
    pub count: i64,
    /// Their type.
    pub datatype: usize,
}

/// Counts and displacements of a vector form as they came in registers: arrays with an entry per
/// rank.
#[derive(Clone, Copy)]
pub struct Table {
    /// Elements of each block, `int` or `MPI_Count`.
    pub counts: *const c_void,
    /// Where each begins, in extents; `int` or `MPI_Aint`.
    pub displacements: *const c_void,
    /// Whether the entries have 64 bits.
    pub large: bool,
}

impl Table {
    /// As passed to C.
    pub fn new<C, D>(counts: *const C, displacements: *const D) -> Self {
        Self {
            counts: counts.cast(),
            displacements: displacements.cast(),
            large: size_of::<C>() == size_of::<i64>(),
        }
    }
}

/// The arguments as they came in registers. A collective without some of them leaves those of
/// [`Args::NONE`].
#[derive(Clone, Copy)]
pub struct Args {
    /// What is sent. Broadcast has its only buffer in `recv`.
    pub send: Buffer,
    /// What is received.
    pub recv: Buffer,
    /// The blocks of `send`, whose count then says nothing.
    pub send_table: Table,
    /// The blocks of `recv`, likewise.
    pub recv_table: Table,
    /// Rank of the root.
    pub root: c_int,
    /// The operation of a reduction.
    pub op: usize,
    /// The communicator.
    pub comm: usize,
}

impl Buffer {
    /// As passed to C: an address, a number of elements and their type.
    pub fn new(address: *const c_void, count: impl Into<i64>, datatype: usize) -> Self {
        Self {
            address: address.cast_mut(),
            count: count.into(),
            datatype,
        }
    }
}

impl Args {
    /// No argument.
    pub const NONE: Self = {
        let none = Buffer {
            address: ptr::null_mut(),
            count: 0,
            datatype: 0,
        };
        let no_table = Table {
            counts: ptr::null(),
            displacements: ptr::null(),
            large: false,
        };
        Self {
            send: none,
            recv: none,
            send_table: no_table,
            recv_table: no_table,
            root: 0,
            op: 0,
            comm: 0,
        }
    };

    /// The root, if it is a rank of `team`.
    #[inline(always)]
    fn root_in(&self, team: &Team) -> Option<Rank> {
        let root = u32::try_from(self.root).ok()?;
        (root < team.size()).then_some(Rank(root))
    }

    /// Negative roots are meant for inter-communicators, where the other arguments may mean nothing.
    #[inline]
    fn check_root(&self) -> Result<(), Refusal> {
        match self.root < 0 {
            true => Err(Refusal::Invalid),
            false => Ok(()),
        }
    }
}

/// Why a call does not run here.
pub enum Refusal {
    /// It is left to the host, which says what is wrong with it.
    Invalid,
    /// It is left to the host on all ranks, for this reason.
    Left(&'static str),
    /// It fails here. In a box, as outcomes are handed up on every call.
    Error(Box<CallError>),
}

impl<E: Into<CallError>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Error(Box::new(error.into()))
    }
}

/// Arguments that are right as far as the communicator does not matter.
pub trait Checked {
    /// Bytes of one block, as far as known.
    fn known_bytes(&self) -> usize {
        0
    }
}

/// How a collective checks what does not depend on the communicator. Arguments that are not significant on
/// some ranks may only be looked at in [`Collective::perform`].
pub type Check<C> = fn(&Session, &Args) -> Result<C, Refusal>;

/// A call on its team.
pub struct Call<'a> {
    session: &'a Session,
    team: &'a Team,
    args: &'a Args,
}

impl Call<'_> {
    /// The root, if it is a rank of the team.
    #[inline]
    fn root(&self) -> Result<Rank, Refusal> {
        self.args.root_in(self.team).ok_or(Refusal::Invalid)
    }
}

/// What one collective has of its own.
pub trait Collective {
    /// Its name in statistics and messages.
    const NAME: &'static str;

    /// Whether its arrays of counts mean something at the root alone.
    const AT_ROOT: bool = false;

    /// What is left to look at of its arguments.
    type Checked: Checked;

    /// How it gets there.
    const CHECK: Check<Self::Checked>;

    /// Runs a checked call on its team.
    ///
    /// # Safety
    /// The buffers are the program's for the duration of the call, with the sizes that the
    /// arguments describe.
    unsafe fn perform(call: &Call<'_>, checked: &Self::Checked) -> Result<(), Refusal>;

    /// Runs a call that may take the fast path, if it does.
    ///
    /// # Safety
    /// As [`Collective::perform`].
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<fast_path::Outcome>;
}

/// Runs the call, or `forward`s it and says so in the statistics.
///
/// # Safety
/// The arguments obey the standard, or are wrong in ways the host MPI itself would notice.
#[inline]
pub unsafe fn run<C: Collective>(args: &Args, forward: &impl Fn() -> c_int) -> c_int {
    // SAFETY: the caller's contract.
    thread::with_local(|local| unsafe { run_on::<C>(local, args, forward) })
}

/// # Safety
/// As [`run`].
#[inline]
unsafe fn run_on<C: Collective>(local: &Local, args: &Args, forward: &impl Fn() -> c_int) -> c_int {
    let decided = guarded(|| {
        let session = lifetime::session_of(local)?;
        if local.is_handed(C::NAME, args.comm, args) {
            return None;
        }
        // SAFETY: the caller's contract.
        Some((session, unsafe { attempt::<C>(session, local, args) }))
    });
    match decided {
        Some(Some((_, Outcome::Code(code)))) => code,
        Some(Some((session, outcome))) => by_the_host::<C>(session, outcome, args, forward),
        Some(None) => forward(),
        None => after_panic(Some(args.comm)),
    }
}

/// What the host does, which may call the program's error handler.
#[cold]
fn by_the_host<C: Collective>(
    session: &Session,
    outcome: Outcome,
    args: &Args,
    forward: &impl Fn() -> c_int,
) -> c_int {
    match outcome {
        Outcome::Code(code) => code,
        Outcome::Failed(error) => report(session, session.host().comm(args.comm), C::NAME, &error),
        Outcome::Forward(reason, bytes) => {
            forwarded(session, (C::NAME, args.comm), reason, bytes, forward)
        }
        Outcome::Missed(reason) => {
            let code = forwarded(session, (C::NAME, args.comm), reason, 0, forward);
            if code != session.host().constants().success {
                let comm = session.host().comm(args.comm);
                team_cache::with_made_team(session, comm, Team::miss_operation);
            }
            code
        }
    }
}

/// What becomes of a call.
enum Outcome {
    /// It returns this.
    Code(c_int),
    /// The communicator's error handler is told, and it returns what that is told.
    Failed(Box<CallError>),
    /// The host has it, for this reason; bytes of one block as far as known.
    Forward(&'static str, usize),
    /// The host has it, for this reason, as the arguments are wrong. If it fails there, this rank has taken no part in
    /// what the others may be in.
    Missed(&'static str),
}

/// Runs the call if it can be run here. All that a collective does in one function, of which there is one for
/// all its entry points.
///
/// # Safety
/// As [`run`].
#[inline(never)]
unsafe fn attempt<C: Collective>(session: &Session, local: &Local, args: &Args) -> Outcome {
    let comm = session.host().comm(args.comm);
    // SAFETY: a communicator in use by this call is not freed meanwhile.
    if let Some(team) = unsafe { team_cache::known_team(session, &local.handle_cache, comm) }
        // SAFETY: the caller's contract.
        && let Some(outcome) = unsafe {
            C::fast_path(&FastCall {
                session,
                local,
                team,
                args,
            })
        }
    {
        return match outcome {
            Ok(()) => Outcome::Code(session.host().constants().success),
            Err(refusal) => refused::<C>(session, args.root, comm, leave(team, refusal), true),
        };
    }
    // SAFETY: the caller's contract.
    unsafe { attempt_any::<C>(session, local, args, comm) }
}

/// [`attempt`] off the fast path.
///
/// # Safety
/// As [`run`].
#[inline(never)]
unsafe fn attempt_any<C: Collective>(
    session: &Session,
    local: &Local,
    args: &Args,
    comm: Comm,
) -> Outcome {
    let mut took_part = false;
    let outcome = match C::CHECK(session, args) {
        Ok(checked) => {
            // SAFETY: a communicator in use by this call is not freed meanwhile.
            match unsafe { team_cache::entry(session, &local.handle_cache, comm) } {
                Some(Entry::Team(team, _)) => {
                    team.begin_call();
                    let before = team.operation();
                    let call = Call {
                        session,
                        team,
                        args,
                    };
                    // SAFETY: the arguments were checked as far as MPI can.
                    let outcome = unsafe { C::perform(&call, &checked) };
                    outcome.map_err(|refusal| {
                        took_part = before.is_none() || team.operation() != before;
                        let refusal = leave(team, refusal);
                        if !took_part && matches!(refusal, Refusal::Error(_)) {
                            team.miss_operation();
                        }
                        refusal
                    })
                }
                Some(Entry::Forward(reason)) => {
                    return Outcome::Forward(reason, checked.known_bytes());
                }
                None => Err(Refusal::Invalid),
            }
        }
        Err(refusal) => {
            // Other ranks may have it.
            team_cache::with_made_team(session, comm, Team::begin_call);
            Err(refusal)
        }
    };
    match outcome {
        Ok(()) => Outcome::Code(session.host().constants().success),
        Err(refusal) => refused::<C>(session, args.root, comm, refusal, took_part),
    }
}

/// What becomes of a refused call, of which the operation was one of this rank's if it `took_part`.
#[cold]
fn refused<C: Collective>(
    session: &Session,
    root: c_int,
    comm: Comm,
    refusal: Refusal,
    took_part: bool,
) -> Outcome {
    match refusal {
        Refusal::Invalid if took_part => Outcome::Forward(invalid(session, root, comm), 0),
        Refusal::Invalid => Outcome::Missed(invalid(session, root, comm)),
        Refusal::Left(reason) => Outcome::Forward(reason, 0),
        Refusal::Error(error) => Outcome::Failed(error),
    }
}

/// Tells the ranks that wait in the operation of `team` if this one takes no part, for a `refusal` of its own.
/// Where the call is the host's on all ranks it is so here, and where there is no other rank and another thread is in it.
#[cold]
fn leave(team: &Team, refusal: Refusal) -> Refusal {
    let Refusal::Error(error) = &refusal else {
        return refusal;
    };
    if let CallError::Engine(EngineError::Concurrent) = **error
        && team.size() == 1
    {
        return Refusal::Left(reason::THREADS);
    }
    if !error.is_of_this_rank() {
        return refusal;
    }
    match done(team.leave(&error.to_string())) {
        Err(left @ Refusal::Left(_)) => left,
        _ => refusal,
    }
}

/// What the engine says, as a refusal of the call.
#[inline(always)]
fn done(outcome: Result<(), EngineError>) -> Result<(), Refusal> {
    match outcome {
        Ok(()) => Ok(()),
        Err(error) => Err(refusal(error)),
    }
}

#[cold]
fn refusal(error: EngineError) -> Refusal {
    match error {
        EngineError::ElementTooLarge { .. } => Refusal::Left(reason::LARGE_ELEMENT),
        EngineError::AfterError => Refusal::Left(reason::AFTER_ERROR),
        EngineError::TooManyConnections => Refusal::Left(reason::TOO_MANY_CONNECTIONS),
        EngineError::Unconnected => Refusal::Left(reason::NO_CONNECTION),
        error => Refusal::from(error),
    }
}
