//! `MPI_Allgather` (MPI 4.1, section 6.7): checks, then the engine or the host.

use crate::datatype::{self, Elements, Packed};
use crate::error::{CallError, report};
use crate::runtime::{self, Inside, Local, Session};
use crate::team_cache::{self, Entry, reason};
use ferrorail_engine::Team;
use ferrorail_mpi_abi::{Comm, Datatype};
use libc::{c_int, c_void};

const NAME: &str = "allgather";

/// The arguments as they came in registers.
#[derive(Clone, Copy)]
pub struct Args {
    pub send: *const c_void,
    pub send_count: c_int,
    pub send_type: usize,
    pub recv: *mut c_void,
    pub recv_count: c_int,
    pub recv_type: usize,
    pub comm: usize,
}

/// Where this rank's contribution is.
enum Send {
    /// In the receive buffer already.
    InPlace,
    /// Here.
    At(Elements),
}

/// A valid call.
struct Call {
    send: Send,
    /// One block of the receive buffer, at rank 0's place.
    recv: Elements,
    /// Bytes of one block.
    bytes: usize,
}

/// Why a call does not run here.
enum Refusal {
    /// It is left to the host, which says what is wrong with it.
    Invalid,
    /// It fails here.
    Error(CallError),
}

/// Runs the call, or `forward`s it and says so in the statistics.
///
/// # Safety
/// The arguments obey the standard, or are wrong in ways the host MPI itself would notice.
#[inline]
pub unsafe fn run(args: Args, forward: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's contract.
    runtime::with_local(|local| unsafe { run_on(local, args, forward) })
}

/// # Safety
/// As [`run`].
#[inline]
unsafe fn run_on(local: &Local, args: Args, forward: impl FnOnce() -> c_int) -> c_int {
    let Some(session) = runtime::session_of(local) else {
        return forward();
    };
    let comm = session.host().comm(args.comm);
    let outcome = match check(session, &args) {
        Ok(call) => {
            // SAFETY: a communicator in use by this call is not freed meanwhile.
            match unsafe { team_cache::entry(session, &local.recents, comm) } {
                Some(Entry::Team(team)) => {
                    // SAFETY: the arguments were checked as far as MPI can.
                    unsafe { accelerated(session, team, &call) }.map_err(Refusal::Error)
                }
                Some(Entry::Forward(reason)) => {
                    return forwarded(session, reason, call.bytes, forward);
                }
                None => Err(Refusal::Invalid),
            }
        }
        Err(refusal) => Err(refusal),
    };
    match outcome {
        Ok(()) => session.host().constants().success,
        Err(Refusal::Invalid) => forwarded(session, reason::INVALID, 0, forward),
        Err(Refusal::Error(error)) => report(session, comm, NAME, &error),
    }
}

#[cold]
fn forwarded(
    session: &Session,
    reason: &'static str,
    bytes: usize,
    forward: impl FnOnce() -> c_int,
) -> c_int {
    session
        .context
        .stats()
        .forwarded(NAME, reason, bytes as u64);
    // What the host calls meanwhile is part of this call.
    let _inside = Inside::enter();
    forward()
}

/// Checks what does not depend on the communicator.
#[inline]
fn check(session: &Session, args: &Args) -> Result<Call, Refusal> {
    let in_place = session.host().constants().in_place;
    if args.recv as usize == in_place {
        return Err(Refusal::Invalid);
    }
    let recv = elements(session, args.recv, args.recv_count, args.recv_type)?;
    let bytes = recv.bytes().ok_or(Refusal::Invalid)?;
    let same = (args.send_count, args.send_type) == (args.recv_count, args.recv_type);
    if args.send as usize == in_place {
        return Ok(Call {
            send: Send::InPlace,
            recv,
            bytes,
        });
    }
    let send = if same && !args.send.is_null() {
        Elements {
            address: args.send.cast_mut().cast(),
            ..recv
        }
    } else {
        elements(
            session,
            args.send.cast_mut(),
            args.send_count,
            args.send_type,
        )?
    };
    let send_bytes = send.bytes().ok_or(Refusal::Invalid)?;
    if send_bytes != bytes {
        let error = CallError::Signature {
            send_bytes,
            recv_bytes: bytes,
        };
        return Err(Refusal::Error(error));
    }
    if std::ptr::eq(args.send, args.recv) && bytes != 0 && session.rejects_aliases() {
        return Err(Refusal::Invalid);
    }
    Ok(Call {
        send: Send::At(send),
        recv,
        bytes,
    })
}

#[inline]
fn elements(
    session: &Session,
    address: *mut c_void,
    count: c_int,
    datatype: usize,
) -> Result<Elements, Refusal> {
    let count = usize::try_from(count).map_err(|_| Refusal::Invalid)?;
    let datatype: Datatype = session.host().datatype(datatype);
    let layout = datatype::layout(session, datatype).ok_or(Refusal::Invalid)?;
    let elements = Elements {
        address: address.cast(),
        count,
        datatype,
        layout,
    };
    let absent = elements.dense().is_some_and(|address| address.is_null());
    if absent && count != 0 && layout.bytes != 0 {
        return Err(Refusal::Invalid);
    }
    Ok(elements)
}

/// Runs a valid call on its team.
///
/// # Safety
/// The buffers are the program's for the duration of the call, with the sizes the call describes.
#[inline]
unsafe fn accelerated(session: &Session, team: &Team, call: &Call) -> Result<(), CallError> {
    let send = match &call.send {
        Send::InPlace => Some(None),
        Send::At(elements) => elements.dense().map(Some),
    };
    match (send, call.recv.dense()) {
        // SAFETY: the caller's contract.
        (Some(send), Some(recv)) => unsafe { dense(team, send, recv, call.bytes) },
        // SAFETY: as above.
        _ => unsafe { packed(session, team, call) },
    }
}

/// Plain bytes on both sides.
///
/// # Safety
/// As [`accelerated`].
#[inline]
unsafe fn dense(
    team: &Team,
    send: Option<*mut u8>,
    recv: *mut u8,
    bytes: usize,
) -> Result<(), CallError> {
    let total = bytes * team.size() as usize;
    let send = match send {
        // Overlapping buffers are wrong, but hosts that do not check copy the own block first.
        Some(send) if overlap(send as usize, bytes, recv as usize, total) => {
            let own = recv.wrapping_add(bytes * team.rank().index());
            // SAFETY: both are blocks of the program's buffers; `copy` allows overlap.
            unsafe { std::ptr::copy(send, own, bytes) };
            None
        }
        send => send.map(|send| send.cast_const()),
    };
    // SAFETY: the caller's contract; overlap was just removed.
    unsafe { team.allgather(send, recv, bytes)? };
    Ok(())
}

#[inline]
fn overlap(a: usize, a_bytes: usize, b: usize, b_bytes: usize) -> bool {
    a < b.wrapping_add(b_bytes) && b < a.wrapping_add(a_bytes)
}

/// Gaps or another order on at least one side: through packed memory.
///
/// # Safety
/// As [`accelerated`].
#[cold]
unsafe fn packed(session: &Session, team: &Team, call: &Call) -> Result<(), CallError> {
    let (bytes, size, rank) = (call.bytes, team.size() as usize, team.rank().index());
    if bytes == 0 {
        return Ok(());
    }
    let in_place = matches!(call.send, Send::InPlace);
    let mine = match &call.send {
        Send::InPlace => call.recv.block(rank),
        Send::At(elements) => *elements,
    };
    let total = bytes
        .checked_mul(size)
        .ok_or(CallError::NoMemory { bytes: usize::MAX })?;
    let mut memory;
    let (all, unpack) = match call.recv.dense() {
        Some(recv) => (recv, false),
        None => {
            memory = Packed::new(total)?;
            (memory.as_mut_ptr(), true)
        }
    };
    // SAFETY: `all` has a block for each rank; `mine` is the program's. Packing straight into the
    // own block needs no other buffer.
    unsafe {
        mine.pack(session, all.wrapping_add(bytes * rank))?;
        team.allgather(None, all, bytes)?;
    }
    for index in (0..size).filter(|&index| unpack && !(in_place && index == rank)) {
        // SAFETY: as above; gaps keep their bytes.
        unsafe {
            call.recv
                .block(index)
                .unpack(session, all.wrapping_add(bytes * index))?
        };
    }
    Ok(())
}

/// The call of a Fortran program of Open MPI, with handles and sentinels as a C program would have
/// passed them. `None` if the host is another library.
///
/// # Safety
/// As [`run`]; `args` holds Fortran handles.
pub unsafe fn from_fortran(args: Args) -> Option<Args> {
    let session = runtime::session()?;
    let host = session.host();
    let sentinels = host.fortran_sentinels()?;
    let types = [args.send_type as c_int, args.recv_type as c_int];
    let (Comm(comm), [Datatype(send_type), Datatype(recv_type)]) =
        host.from_fortran(args.comm as c_int, types)?;
    let to_c = |address: usize| sentinels.to_c(address, host.constants());
    Some(Args {
        send: to_c(args.send as usize) as *const c_void,
        recv: to_c(args.recv as usize) as *mut c_void,
        send_type,
        recv_type,
        comm,
        ..args
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_do_not_overlap() {
        assert!(!overlap(100, 8, 108, 64));
        assert!(!overlap(172, 8, 108, 64));
        assert!(overlap(107, 8, 108, 64));
        assert!(overlap(171, 8, 108, 64));
        assert!(overlap(108, 8, 108, 64));
        assert!(!overlap(108, 0, 108, 0));
    }
}
