//! A non-blocking call from its arguments to its request (MPI 4.1, section 6.12): begun on the communicator's team for such
//! calls, or by the host.
//!
//! All that depends on arguments is done at once, so that the program may free types meanwhile; what waits for other ranks
//! is left to `nonblocking`.

use super::attempt::on_team;
use super::handing_on::{forwarded, invalid, unless_handed};
use super::side::{is_in_place, rejects_aliases};
use super::{Args, Checked, Collective, Refusal};
use crate::error::{CallError, Wrong, report};
use crate::nonblocking::helper;
use crate::nonblocking::kept_types::KeptTypes;
use crate::nonblocking::queue::{Execution, Queue};
use crate::nonblocking::request::{Job, Outcome};
use crate::panic_guard::guarded;
use crate::reason;
use crate::session::Session;
use crate::team_cache;
use crate::thread::{Inside, with_local};
use ferrorail_base::fiber::{self, Driver, Fiber};
use ferrorail_engine::{EngineError, Team};
use ferrorail_mpi_abi::{Comm, MpiError, Request, SUCCESS};
use libc::{c_int, c_void};
use std::sync::Arc;

/// How often a call looks whether it has come to its end before it makes a request, where ranks have a core each: peers
/// that call it at the same time are there as soon, and a request takes longer.
const FIRST_LOOKS: u32 = 8;

/// What is left to do for a call that was not begun.
enum Rest {
    /// The communicator's error handler is told, and it returns what that is told.
    Failed(Box<CallError>),
    /// The host has it, for this reason; bytes of one block as far as known.
    Forward(&'static str, usize),
    /// The host has it, as the arguments are wrong. If it fails there, the others wait for this rank in vain.
    Missed(&'static str, Arc<Queue>),
    /// It has failed already.
    Ended(Arc<Job>),
}

/// Begins the call, whose request is to be at `request`, or `forward`s it and says so in the statistics. `of_host` is the
/// host's call with another place for the request.
///
/// # Safety
/// The arguments obey the standard, or are wrong in ways the host MPI itself would notice; buffers are the program's until
/// the request is complete.
pub unsafe fn start<C: Collective>(
    args: &Args,
    request: *mut c_void,
    forward: &impl Fn() -> c_int,
    of_host: impl Fn(*mut c_void) -> c_int + 'static,
) -> c_int {
    // SAFETY: the caller's contract.
    let begin = |session| unsafe { begin::<C>(session, args, request, of_host) };
    let (session, rest) = match unless_handed(C::NONBLOCKING_NAME, args, forward, begin) {
        Err(code) => return code,
        Ok((_, Ok(()))) => return SUCCESS,
        Ok((session, Err(rest))) => (session, rest),
    };
    let (call, comm) = (
        (C::NONBLOCKING_NAME, args.comm),
        session.host().comm(args.comm),
    );
    match rest {
        Rest::Failed(error) => report(session, comm, call.0, &error),
        Rest::Forward(reason, bytes) => forwarded(session, call, reason, bytes, forward),
        Rest::Missed(reason, queue) => {
            let code = forwarded(session, call, reason, 0, forward);
            if code != SUCCESS {
                let _inside = Inside::enter();
                miss(&queue, comm);
            }
            code
        }
        Rest::Ended(job) => job.report(session).unwrap_or(SUCCESS),
    }
}

/// # Safety
/// As [`start`].
unsafe fn begin<C: Collective>(
    session: &'static Session,
    args: &Args,
    request: *mut c_void,
    of_host: impl Fn(*mut c_void) -> c_int + 'static,
) -> Result<(), Rest> {
    let _inside = Inside::enter();
    let comm = session.host().comm(args.comm);
    // SAFETY: a communicator in use by this call is not freed meanwhile.
    let queue =
        with_local(|local| unsafe { team_cache::nonblocking(session, &local.handle_cache, comm) });
    let mut checked = match (C::CHECK(session, args), &queue) {
        (Ok(checked), _) => checked,
        (Err(_), &Ok(queue)) => return Err(missed(session, args, queue)),
        (Err(_), Err(_)) => return Err(Rest::Forward(invalid(session, args.root, comm), 0)),
    };
    let left = |reason| Rest::Forward(reason, checked.known_bytes());
    let queue = match queue {
        Ok(_) if !C::is_computed_here(&checked) => return Err(left(reason::HOST_OPERATION)),
        Ok(queue) if queue.team().is_forced_to_host(C::RULE_NAME) => {
            return Err(left(reason::CHOSEN));
        }
        Ok(queue) => queue,
        Err(reason) => return Err(left(reason)),
    };
    let mut of_call = *args;
    // SAFETY: the caller's contract.
    let kept = unsafe { keep_types::<C>(session, queue.team(), &mut of_call, &mut checked, false) };
    let Some(types) = kept else {
        return Err(missed(session, args, queue));
    };
    // Asked of the host, which the thread that may go on with this must not call.
    rejects_aliases(session);
    let job = Job::new(C::NONBLOCKING_NAME, comm, queue.comm_team(), types);
    let job = Arc::new(job);
    let execution = enter(&job, move |team| {
        // SAFETY: the caller's contract.
        unsafe { perform::<C>(session, team, &of_call, &checked, of_host) }
    });
    // SAFETY: the program's argument.
    let keep = |made: Request| unsafe { session.host().write_handle(request, made.0) };
    // One that knows how it ends may still wait for its turn to do so.
    if let Some(execution) = execution {
        let made = job.open_request(session);
        // Others need it also where the program gets no request.
        queue.push(job, execution);
        helper::wake();
        keep(made.map_err(failed)?);
        return Ok(());
    }
    job.free_types(session);
    match job.outcome() {
        Some(Outcome::Invalid) => Err(Rest::Forward(invalid(session, args.root, comm), 0)),
        Some(Outcome::Failed(_)) => Err(Rest::Ended(job)),
        Some(Outcome::Done) | None => {
            let made = session.host().completed_request(session.self_comm);
            keep(made.map_err(failed)?);
            Ok(())
        }
    }
}

/// Has the arguments of a `checked` call on `team` name types that live as long as it, which are returned: of all types if
/// it is `persistent`. `None` if it cannot be made with them.
///
/// # Safety
/// Arrays of types and of counts have as many entries as [`Collective::entries`] says.
pub(super) unsafe fn keep_types<C: Collective>(
    session: &Session,
    team: &Team,
    args: &mut Args,
    checked: &mut C::Checked,
    persistent: bool,
) -> Option<KeptTypes> {
    let mut kept = KeptTypes::default();
    // Types of buffers that are not significant on this rank may be anything.
    let is_root = args.root_in(team) == Some(team.rank());
    let (sent, received) = C::entries(team, checked);
    let sends = is_root || !C::NAME.starts_with("scatter");
    let receives = is_root || !C::NAME.starts_with("gather");
    let sides = [
        (&mut args.send, &args.send_table, sends, sent),
        (&mut args.recv, &args.recv_table, receives, received),
    ];
    for (buffer, table, is_used, entries) in sides {
        if !is_used || buffer.datatype == 0 || is_in_place(session, buffer) {
            continue;
        }
        if !C::TYPE_EACH {
            buffer.datatype = kept.keep(session, buffer.datatype, persistent);
        } else if !table.counts.is_null() {
            let types = (buffer.datatype as *const c_void, entries);
            // SAFETY: the caller's contract. Types of no elements may be anything.
            buffer.datatype = unsafe {
                let is_used = |entry| table.count(entry) != 0;
                kept.keep_each(session, types, is_used, persistent) as usize
            };
        }
    }
    if kept.has_duplicates() {
        match C::CHECK(session, args) {
            Ok(of_duplicates) => *checked = of_duplicates,
            Err(_) => {
                kept.free(session);
                return None;
            }
        }
    }
    Some(kept)
}

/// Runs a call in its turn: on the team, or by `of_host`, the host's non-blocking call with another place for the request.
///
/// # Safety
/// As [`start`].
pub(super) unsafe fn perform<C: Collective>(
    session: &Session,
    team: &Team,
    args: &Args,
    checked: &C::Checked,
    of_host: impl Fn(*mut c_void) -> c_int,
) -> Outcome {
    // SAFETY: the caller's contract.
    match unsafe { on_team::<C>(session, team, args, checked) } {
        Ok(()) => Outcome::Done,
        Err((Refusal::Left(reason), _)) => {
            by_the_host(session, (C::NONBLOCKING_NAME, args.comm), reason, of_host)
        }
        Err((refusal, took_part)) => failure(team, refusal, took_part),
    }
}

/// Begins a job, which goes on to where it waits; how far it is, if it is not over.
pub(super) fn enter(
    job: &Arc<Job>,
    perform: impl FnOnce(&Team) -> Outcome + 'static,
) -> Option<Execution> {
    let (of_fiber, number) = (job.clone(), job.team().next_number());
    // In a box at once, as it is moved several times on its way to the fiber.
    let run: Box<dyn FnOnce()> = Box::new(move || {
        let team = of_fiber.team();
        let _turn = team.turn(number);
        let panicked = || Outcome::Failed(Box::new(internal()));
        of_fiber.finish(guarded(|| perform(team)).unwrap_or_else(panicked));
    });
    match Fiber::new(number, run) {
        Ok(mut fiber) => {
            let looks = match job.team().has_cores() {
                true => FIRST_LOOKS,
                false => 1,
            };
            let is_over = (0..looks).any(|_| fiber.resume(Driver::Program));
            (!is_over).then_some(Execution::Begun(fiber))
        }
        Err(run) => Some(Execution::later(number, run)),
    }
}

/// How a job ends that does not run for a `refusal` of its own.
fn failure(team: &Team, refusal: Refusal, took_part: bool) -> Outcome {
    match refusal {
        Refusal::Error(error) => Outcome::Failed(error),
        _ if took_part => Outcome::Failed(Box::new(CallError::Wrong(Wrong::Arguments))),
        _ => {
            team.miss_operation();
            Outcome::Invalid
        }
    }
}

/// Has the host run a call that all ranks leave to it, as they find in their turn: after an error.
fn by_the_host(
    session: &Session,
    call: (&'static str, usize),
    reason: &'static str,
    of_host: impl Fn(*mut c_void) -> c_int,
) -> Outcome {
    let host = session.host();
    let mut request = host.predefined().request_null;
    fiber::leave_to_program();
    let start = || of_host((&raw mut request).cast());
    let code = forwarded(session, call, reason, 0, start);
    let mut complete = host.check(call.0, code).map(|()| false);
    loop {
        match complete {
            Ok(true) => return Outcome::Done,
            Ok(false) => {}
            Err(error) => return Outcome::Failed(Box::new(error.into())),
        }
        fiber::suspend();
        fiber::leave_to_program();
        // SAFETY: the request that was made just now.
        complete = unsafe { host.test(&mut request) };
    }
}

/// This rank takes no part in a call that others may be in.
fn miss(queue: &Arc<Queue>, comm: Comm) {
    let name = "a call with invalid arguments";
    let job = Job::new(name, comm, queue.comm_team(), KeptTypes::default());
    let job = Arc::new(job);
    let execution = enter(&job, |team| {
        team.begin_call();
        team.miss_operation();
        Outcome::Done
    });
    if let Some(execution) = execution {
        queue.push(job, execution);
        helper::wake();
    }
}

/// What is left to do for a call with wrong arguments.
fn missed(session: &Session, args: &Args, queue: &Arc<Queue>) -> Rest {
    let comm = session.host().comm(args.comm);
    Rest::Missed(invalid(session, args.root, comm), queue.clone())
}

fn failed(error: MpiError) -> Rest {
    Rest::Failed(Box::new(error.into()))
}

fn internal() -> CallError {
    EngineError::Internal("an internal error was caught".into()).into()
}
