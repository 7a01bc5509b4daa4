//! A persistent collective from its arguments to its request (MPI 4.1, section 6.13): the program starts it as often as it
//! likes (`nonblocking::persistent`), on a team that is made for it, or it is the host's.
//!
//! All ranks come to this call at the same place, so that the team is made in it, and agree who has the collective: ranks that
//! start it would wait for one whose arguments are wrong.

use super::handing_on::{forwarded, invalid, unless_handed};
use super::side::is_in_place;
use super::start::{enter, keep_types, perform};
use super::{Args, Collective, Entries};
use crate::ballot::Ballot;
use crate::error::{CallError, Wrong, report};
use crate::nonblocking::persistent::{Begin, Persistent};
use crate::nonblocking::persistent_request::PersistentRequest;
use crate::nonblocking::queue::Execution;
use crate::nonblocking::request::Job;
use crate::reason;
use crate::session::Session;
use crate::team_cache::{Entry, create_queue, entry, give_up};
use crate::thread::{Inside, with_local};
use ferrorail_engine::Team;
use ferrorail_engine::waiting::InHost;
use ferrorail_mpi_abi::{Comm, Request, SUCCESS};
use libc::{c_int, c_void};
use std::sync::Arc;

/// What is left to do for a call whose collective is not started here.
enum Rest {
    /// The communicator's error handler is told, and it returns what that is told.
    Failed(Box<CallError>),
    /// The host has it on all ranks, for this reason.
    Forward(&'static str),
    /// The host says what is wrong with the arguments.
    Wrong(&'static str),
}

// What a rank says of the collective, of which the least counts everywhere: MPICH takes the next one of the communicator for
// the wrong one if it knows this one on some ranks only.

/// Its arguments are wrong.
const WRONG: c_int = 0;

/// The host is to have it.
const OF_HOST: c_int = 1;

/// It can be started here.
const HERE: c_int = 2;

/// Makes the request of a persistent collective, which is to be at `request`, or `forward`s the call and says so in the
/// statistics. `of_host` is the host's non-blocking call with another place for the request.
///
/// # Safety
/// The arguments obey the standard, or are wrong in ways the host MPI itself would notice; buffers and arrays are the program's
/// until the request is freed.
pub unsafe fn persist<C: Collective>(
    args: &Args,
    request: *mut c_void,
    forward: &impl Fn() -> c_int,
    of_host: impl Fn(*mut c_void) -> c_int + Copy + 'static,
) -> c_int {
    // SAFETY: the caller's contract.
    let make = |session| unsafe { make::<C>(session, args, of_host) };
    let (session, made) = match unless_handed(C::PERSISTENT_NAME, args, forward, make) {
        Err(code) => return code,
        Ok(made) => made,
    };
    let call = (C::PERSISTENT_NAME, args.comm);
    match made {
        Ok(made) => {
            // SAFETY: the program's argument.
            unsafe { session.host().write_handle(request, made.0) };
            SUCCESS
        }
        Err(Rest::Failed(error)) => report(session, session.host().comm(args.comm), call.0, &error),
        Err(Rest::Forward(reason) | Rest::Wrong(reason)) => {
            forwarded(session, call, reason, 0, forward)
        }
    }
}

/// Makes it, if every rank can.
///
/// # Safety
/// As [`persist`].
unsafe fn make<C: Collective>(
    session: &'static Session,
    args: &Args,
    of_host: impl Fn(*mut c_void) -> c_int + Copy + 'static,
) -> Result<Request, Rest> {
    let _inside = Inside::enter();
    let comm = session.host().comm(args.comm);
    // SAFETY: a communicator in use by this call is not freed meanwhile.
    let entry = with_local(|local| unsafe { entry(session, &local.handle_cache, comm) });
    let (team, nonblocking) = match entry {
        Some(Entry::Team(team, _, nonblocking, _)) => (team, nonblocking),
        Some(Entry::Forward(reason)) => return Err(Rest::Forward(reason)),
        None => return Err(Rest::Wrong(invalid(session, args.root, comm))),
    };
    // SAFETY: the caller's contract.
    let mine = unsafe { of_rank::<C>(session, team, args, of_host) };
    let spares = nonblocking.spares();
    let call = (C::PERSISTENT_NAME, comm);
    let candidate = spares.candidate();
    let (mine, least) = agree(session, call, mine, candidate.ballot);
    let free = candidate.decide(least).map_err(|useless| {
        useless.into_iter().for_each(give_up);
    });
    let (request, begin) = match mine {
        Ok(mine) => mine,
        Err(rest) => {
            let unused = free.ok().and_then(|free| spares.keep(&free));
            unused.into_iter().for_each(give_up);
            return Err(rest);
        }
    };
    let made = || create_queue(session, comm, nonblocking).map(|queue| spares.number(queue));
    let queue = match free.or_else(|()| made()) {
        Ok(queue) => queue,
        Err(reason) => {
            request.withdraw(session);
            return Err(Rest::Forward(reason));
        }
    };
    Ok(Persistent::offer(call, (queue, spares), request, begin))
}

/// What this rank has of it if every rank has as much; and the least of all ranks' ballots.
fn agree(
    session: &Session,
    (name, comm): (&'static str, Comm),
    mine: Result<OfRank, Rest>,
    [a, b, c, d]: Ballot,
) -> (Result<OfRank, Rest>, Ballot) {
    let answer = match &mine {
        Ok(_) => HERE,
        Err(Rest::Forward(_)) => OF_HOST,
        Err(_) => WRONG,
    };
    let least = {
        let _in_host = InHost::enter(name);
        session
            .host()
            .allreduce_min_each([answer, a, b, c, d], comm)
    };
    let failed = |error: CallError| Rest::Failed(Box::new(error));
    let elsewhere = || failed(Wrong::ElsewhereArguments.into());
    let rest = match (mine, &least) {
        (Ok(mine), &Ok([HERE, ballot @ ..])) => return (Ok(mine), ballot),
        (Ok((request, _)), _) => {
            request.withdraw(session);
            elsewhere()
        }
        (Err(rest), _) => rest,
    };
    match (rest, least) {
        (_, Err(error)) => (Err(failed(error.into())), [0; 4]),
        (Rest::Forward(_), Ok([WRONG, ballot @ ..])) => (Err(elsewhere()), ballot),
        (rest, Ok([_, ballot @ ..])) => (Err(rest), ballot),
    }
}

/// What one rank has of a persistent collective.
type OfRank = (PersistentRequest, Begin);

/// What this rank has of it.
///
/// # Safety
/// As [`persist`].
unsafe fn of_rank<C: Collective>(
    session: &'static Session,
    team: &Team,
    args: &Args,
    of_host: impl Fn(*mut c_void) -> c_int + Copy + 'static,
) -> Result<OfRank, Rest> {
    let wrong = || Rest::Wrong(invalid(session, args.root, session.host().comm(args.comm)));
    let mut checked = C::CHECK(session, args).map_err(|_| wrong())?;
    if args.root_in(team).is_none() {
        return Err(wrong());
    }
    if !C::is_computed_here(&checked) {
        return Err(Rest::Forward(reason::HOST_OPERATION));
    }
    if team.is_forced_to_host(C::RULE_NAME) {
        return Err(Rest::Forward(reason::CHOSEN));
    }
    if !team.may_connect_all() {
        return Err(Rest::Forward(reason::TOO_MANY_CONNECTIONS));
    }
    let mut args = *args;
    // SAFETY: the caller's contract.
    let types = unsafe { keep_types::<C>(session, team, &mut args, &mut checked, true) };
    let types = types.ok_or_else(wrong)?;
    // SAFETY: the caller's contract.
    let arrays = unsafe { detach_tables::<C>(session, team, &mut args, &checked) };
    let request = PersistentRequest::new(session, types, arrays)
        .map_err(|error| Rest::Failed(Box::new(error.into())))?;
    let Ok(checked) = C::CHECK(session, &args) else {
        request.withdraw(session);
        return Err(wrong());
    };
    let begin: Begin =
        Box::new(move |session, job| begin::<C>(session, job, args, checked.clone(), of_host));
    Ok((request, begin))
}

/// Has `args` name copies of the arrays of counts and displacements that mean something on this rank, which are returned. A
/// program has to leave these alone until it frees the request (MPI 4.1, section 6.13), but hosts look at them here alone, and
/// mpi4py 4.1 gives them up at once.
///
/// # Safety
/// As [`persist`].
unsafe fn detach_tables<C: Collective>(
    session: &Session,
    team: &Team,
    args: &mut Args,
    checked: &C::Checked,
) -> Vec<Vec<i64>> {
    if C::ENTRIES == Entries::AtRoot && args.root_in(team) != Some(team.rank()) {
        return Vec::new();
    }
    let (sent, received) = C::entries(team, checked);
    let sides = [
        (&mut args.send_table, &args.send, sent),
        (&mut args.recv_table, &args.recv, received),
    ];
    let mut arrays = Vec::new();
    for (table, buffer, entries) in sides {
        if !is_in_place(session, buffer) {
            // SAFETY: the caller's contract.
            arrays.extend(unsafe { table.detach(entries) });
        }
    }
    arrays
}

/// Begins one of its runs.
fn begin<C: Collective>(
    session: &'static Session,
    job: &Arc<Job>,
    args: Args,
    checked: C::Checked,
    of_host: impl Fn(*mut c_void) -> c_int + 'static,
) -> Option<Execution> {
    enter(job, move |team: &Team| {
        // SAFETY: the contract of `persist`, of a program that starts a collective.
        unsafe { perform::<C>(session, team, &args, &checked, of_host) }
    })
}
