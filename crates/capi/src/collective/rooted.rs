//! `MPI_Bcast`, `MPI_Gather`, `MPI_Scatter` (MPI 4.1, sections 6.4 to 6.6). What is significant only
//! at the root is not looked at elsewhere.

use super::fast_path::{FastCall, Outcome, Part};
use super::plain::{Input, Output};
use super::side::{Side, elements, not_aliased, same_bytes};
use super::{Args, Call, Check, Collective, Refusal, done};
use crate::datatype::{Elements, Packed};
use crate::session::Session;
use ferrorail_base::Rank;
use ferrorail_engine::{EngineError, Team};
use std::ptr;

/// Broadcast.
pub struct Bcast;

/// Gather.
pub struct Gather;

/// Scatter.
pub struct Scatter;

impl Collective for Bcast {
    const NAME: &'static str = "bcast";
    const NONBLOCKING_NAME: &'static str = "ibcast";
    const PERSISTENT_NAME: &'static str = "bcast_init";
    type Checked = Elements;
    const CHECK: Check<Elements> = |session, args| {
        args.check_root()?;
        elements(session, &args.recv)
    };

    #[inline]
    unsafe fn perform(call: &Call<'_>, buffer: &Elements) -> Result<(), Refusal> {
        let (session, root) = (call.session, call.root()?);
        let bytes = buffer.bytes().ok_or(Refusal::Invalid)?;
        let is_root = call.team.rank() == root;
        let output = Output::new(buffer)?;
        // SAFETY: the program's elements. The root's are only read.
        unsafe {
            if is_root {
                output.keep(session, buffer, 0)?;
            }
            done(call.team.bcast(output.address(), bytes, root))?;
            if !is_root {
                output.finish(session)?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        let sides = call.sides(Part::Nothing, Part::Block, false)?;
        // SAFETY: the caller's contract.
        Some(done(unsafe {
            call.team.bcast(sides.recv, sides.bytes, sides.root)
        }))
    }
}

/// The part in a gather of a rank that is not the root: `act` sends that many bytes from there.
///
/// # Safety
/// The program's elements.
#[inline]
pub(super) unsafe fn send_to_root(
    call: &Call<'_>,
    send: &Side,
    act: impl FnOnce(*const u8, usize) -> Result<(), EngineError>,
) -> Result<(), Refusal> {
    let (send, bytes) = send.not_in_place()?;
    // SAFETY: the caller's contract; nothing is received here.
    let input = unsafe { Input::new(call.session, send, 0..0)? };
    done(act(input.address(), bytes))
}

/// The part in a scatter of a rank that is not the root: `act` receives that many bytes to there.
///
/// # Safety
/// The program's elements.
#[inline]
pub(super) unsafe fn receive_from_root(
    call: &Call<'_>,
    recv: &Side,
    act: impl FnOnce(*mut u8, usize) -> Result<(), EngineError>,
) -> Result<(), Refusal> {
    let (recv, bytes) = recv.not_in_place()?;
    let output = Output::new(recv)?;
    done(act(output.address(), bytes))?;
    // SAFETY: the caller's contract.
    unsafe { output.finish(call.session)? };
    Ok(())
}

/// What the root of a gather receives from each rank.
fn received(session: &Session, args: &Args, send: &Side) -> Result<Elements, Refusal> {
    let recv = elements(session, &args.recv)?;
    send.check_bytes(recv.bytes().unwrap_or(0))?;
    Ok(recv)
}

/// The root's part of a gather whose results it cannot take, as far as its own block tells how long
/// those of the others are: they are not kept waiting, and the next call finds all ranks in step.
///
/// # Safety
/// The program's elements.
#[cold]
unsafe fn gather_for_nothing(
    session: &Session,
    team: &Team,
    send: &Side,
    root: Rank,
) -> Result<(), Refusal> {
    let Side::At(send) = send else {
        return Ok(());
    };
    let bytes = send.bytes().ok_or(Refusal::Invalid)?;
    let all = bytes.checked_mul(team.size() as usize);
    let mut unwanted = Packed::new(all.ok_or(Refusal::Invalid)?)?;
    // SAFETY: the caller's contract; there is room for a block of each rank.
    unsafe {
        let input = Input::new(session, send, 0..0)?;
        done(team.gather(Some(input.address()), unwanted.as_mut_ptr(), bytes, root))
    }
}

impl Collective for Gather {
    const NAME: &'static str = "gather";
    const NONBLOCKING_NAME: &'static str = "igather";
    const PERSISTENT_NAME: &'static str = "gather_init";
    type Checked = Side;
    const CHECK: Check<Side> = Side::sent;

    #[inline]
    unsafe fn perform(call: &Call<'_>, side: &Side) -> Result<(), Refusal> {
        let (session, team, root) = (call.session, call.team, call.root()?);
        if team.rank() != root {
            // SAFETY: the program's elements.
            return unsafe {
                send_to_root(call, side, |send, bytes| {
                    team.gather(Some(send), ptr::null_mut(), bytes, root)
                })
            };
        }
        let recv = match received(session, call.args, side) {
            Ok(recv) => recv,
            Err(refusal) => {
                // SAFETY: the program's elements.
                unsafe { gather_for_nothing(session, team, side, root)? };
                return Err(refusal);
            }
        };
        let bytes = recv.bytes().ok_or(Refusal::Invalid)?;
        let all = recv.times(team.size())?;
        let output = Output::new(&all)?;
        // SAFETY: the program's elements; a block for each rank to receive.
        unsafe {
            let input = match side {
                Side::InPlace => {
                    let own = recv.block(root.index());
                    output.keep(session, &own, bytes * root.index())?;
                    None
                }
                Side::At(send) => Some(Input::new(session, send, output.range())?),
            };
            let send = input.as_ref().map(Input::address);
            done(team.gather(send, output.address(), bytes, root))?;
            output.finish(session)?;
        }
        not_aliased(session, side, || recv.block(root.index()))
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        let sides = call.sides(Part::Block, Part::RootBlocks, true)?;
        // SAFETY: the caller's contract.
        Some(done(unsafe {
            (call.team).gather(sides.send, sides.recv, sides.bytes, sides.root)
        }))
    }
}

impl Collective for Scatter {
    const NAME: &'static str = "scatter";
    const NONBLOCKING_NAME: &'static str = "iscatter";
    const PERSISTENT_NAME: &'static str = "scatter_init";
    type Checked = Side;
    const CHECK: Check<Side> = Side::received;

    #[inline]
    unsafe fn perform(call: &Call<'_>, side: &Side) -> Result<(), Refusal> {
        let (session, team, root) = (call.session, call.team, call.root()?);
        if team.rank() != root {
            // SAFETY: the program's elements.
            return unsafe {
                receive_from_root(call, side, |recv, bytes| {
                    team.scatter(ptr::null(), Some(recv), bytes, root)
                })
            };
        }
        let send = elements(session, &call.args.send)?;
        let bytes = send.bytes().ok_or(Refusal::Invalid)?;
        let all = send.times(team.size())?;
        // SAFETY: the program's elements; a block for each rank to send.
        unsafe {
            let recv = match side {
                Side::At(recv) if recv.bytes() == Some(bytes) => recv,
                // If the root receives another amount, the others get theirs, and the next call finds all ranks in
                // step.
                _ => {
                    let input = Input::new(session, &all, 0..0)?;
                    done(team.scatter(input.address(), None, bytes, root))?;
                    let recv_bytes = side.bytes().unwrap_or(bytes);
                    return same_bytes(bytes, recv_bytes);
                }
            };
            let output = Output::new(recv)?;
            let input = Input::new(session, &all, output.range())?;
            done(team.scatter(input.address(), Some(output.address()), bytes, root))?;
            output.finish(session)?;
        }
        not_aliased(session, side, || send.block(root.index()))
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        let sides = call.sides(Part::RootBlocks, Part::Block, false)?;
        let recv = Some(sides.recv);
        // SAFETY: the caller's contract.
        Some(done(unsafe {
            (call.team).scatter(sides.sent(), recv, sides.bytes, sides.root)
        }))
    }
}
