//! A call from its arguments to its end: on its team, or by the host.

use super::fast_path::FastCall;
use super::handing_on::{forwarded, invalid};
use super::{Args, Call, Checked, Collective, Refusal, done};
use crate::error::{CallError, report};
use crate::lifetime;
use crate::panic_guard::{after_panic, guarded};
use crate::reason;
use crate::session::Session;
use crate::team_cache::{self, Entry};
use crate::thread::{self, Local};
use ferrorail_engine::{EngineError, Team};
use ferrorail_mpi_abi::{Comm, SUCCESS};
use libc::c_int;

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
    let outcome = guarded(|| {
        let session = lifetime::session_of(local)?;
        if local.is_handed(C::NAME, args.comm, args) {
            return None;
        }
        // SAFETY: the caller's contract.
        Some(unsafe { attempt::<C>(session, local, args) })
    });
    match outcome {
        Some(Some(Ok(()))) => SUCCESS,
        Some(Some(Err(rest))) => by_the_host::<C>(local, *rest, args, forward),
        Some(None) => forward(),
        None => after_panic(Some(args.comm)),
    }
}

/// What the host does, which may call the program's error handler.
#[cold]
fn by_the_host<C: Collective>(
    local: &Local,
    rest: Rest,
    args: &Args,
    forward: &impl Fn() -> c_int,
) -> c_int {
    let Some(session) = lifetime::session_of(local) else {
        return forward();
    };
    match rest {
        Rest::Failed(error) => report(session, session.host().comm(args.comm), C::NAME, &error),
        Rest::Forward(reason, bytes) => {
            forwarded(session, (C::NAME, args.comm), reason, bytes, forward)
        }
        Rest::Missed(reason) => {
            let code = forwarded(session, (C::NAME, args.comm), reason, 0, forward);
            if code != SUCCESS {
                let comm = session.host().comm(args.comm);
                team_cache::with_made_team(session, comm, Team::miss_operation);
            }
            code
        }
    }
}

/// What is left to do for a call that has not come to its end: in a box, so that an outcome is handed up in a register.
type Outcome = Result<(), Box<Rest>>;

/// What the host has to do for a call.
enum Rest {
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
        return outcome
            .or_else(|refusal| refused::<C>(session, args.root, comm, leave(team, refusal), true));
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
    let outcome = match C::CHECK(session, args) {
        Ok(checked) => {
            // SAFETY: a communicator in use by this call is not freed meanwhile.
            match unsafe { team_cache::entry(session, &local.handle_cache, comm) } {
                Some(Entry::Team(team, ..)) => {
                    // SAFETY: the caller's contract.
                    unsafe { on_team::<C>(session, team, args, &checked) }
                }
                Some(Entry::Forward(reason)) => {
                    return Err(Box::new(Rest::Forward(reason, checked.known_bytes())));
                }
                None => Err((Refusal::Invalid, false)),
            }
        }
        Err(refusal) => {
            // Other ranks may have it.
            team_cache::with_made_team(session, comm, Team::begin_call);
            Err((refusal, false))
        }
    };
    outcome
        .or_else(|(refusal, took_part)| refused::<C>(session, args.root, comm, refusal, took_part))
}

/// Runs a `checked` call on its team. Why it does not run, and whether its operation was one of this rank's.
///
/// # Safety
/// As [`run`].
#[inline]
pub(super) unsafe fn on_team<C: Collective>(
    session: &Session,
    team: &Team,
    args: &Args,
    checked: &C::Checked,
) -> Result<(), (Refusal, bool)> {
    team.begin_call();
    let before = team.operation();
    let call = Call {
        session,
        team,
        args,
    };
    // SAFETY: the arguments were checked as far as MPI can.
    let outcome = unsafe { C::perform(&call, checked) };
    outcome.map_err(|refusal| {
        let took_part = before.is_none() || team.operation() != before;
        let refusal = leave(team, refusal);
        if !took_part && matches!(refusal, Refusal::Error(_)) {
            team.miss_operation();
        }
        (refusal, took_part)
    })
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
    Err(Box::new(match refusal {
        Refusal::Invalid if took_part => Rest::Forward(invalid(session, root, comm), 0),
        Refusal::Invalid => Rest::Missed(invalid(session, root, comm)),
        Refusal::Left(reason) => Rest::Forward(reason, 0),
        Refusal::Error(error) => Rest::Failed(error),
    }))
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
