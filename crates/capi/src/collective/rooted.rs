//! `MPI_Bcast`, `MPI_Gather`, `MPI_Scatter` (MPI 4.1, sections 6.4 to 6.6). What is significant only
//! at the root is not looked at elsewhere.

use super::side::{Input, Output, Side, elements, not_aliased, same_bytes};
use super::{Args, Collective, Refusal, done};
use crate::datatype::{Elements, Packed};
use crate::session::Session;
use ferrorail_base::Rank;
use ferrorail_engine::Team;
use std::ptr;

/// Broadcast.
pub struct Bcast;

/// Gather.
pub struct Gather;

/// Scatter.
pub struct Scatter;

/// Negative roots are meant for inter-communicators, where the other arguments may mean nothing.
#[inline]
pub(super) fn check_root(args: &Args) -> Result<(), Refusal> {
    if args.root < 0 {
        return Err(Refusal::Invalid);
    }
    Ok(())
}

/// The root, if it is a rank of `team`.
#[inline]
pub(super) fn root_of(team: &Team, args: &Args) -> Result<Rank, Refusal> {
    match u32::try_from(args.root) {
        Ok(root) if root < team.size() => Ok(Rank(root)),
        _ => Err(Refusal::Invalid),
    }
}

/// The side of a rank that is not the root, which cannot be in place.
#[inline]
pub(super) fn not_in_place(side: &Side) -> Result<(&Elements, usize), Refusal> {
    match side {
        Side::At(elements) => Ok((elements, elements.bytes().ok_or(Refusal::Invalid)?)),
        Side::InPlace => Err(Refusal::Invalid),
    }
}

impl Collective for Bcast {
    const NAME: &'static str = "bcast";
    type Call = Elements;

    #[inline]
    fn check(session: &Session, args: &Args) -> Result<Elements, Refusal> {
        check_root(args)?;
        elements(session, &args.recv)
    }

    #[inline]
    unsafe fn perform(
        session: &Session,
        team: &Team,
        args: &Args,
        call: &Elements,
    ) -> Result<(), Refusal> {
        let root = root_of(team, args)?;
        let bytes = call.bytes().ok_or(Refusal::Invalid)?;
        let is_root = team.rank() == root;
        let output = Output::new(call)?;
        // SAFETY: the program's elements. The root's are only read.
        unsafe {
            if is_root {
                output.keep(session, call, 0)?;
            }
            done(team.bcast(output.address(), bytes, root))?;
            if !is_root {
                output.finish(session)?;
            }
        }
        Ok(())
    }
}

/// What the root of a gather receives from each rank.
fn received(session: &Session, args: &Args, call: &Side) -> Result<Elements, Refusal> {
    let recv = elements(session, &args.recv)?;
    if let Side::At(send) = call {
        same_bytes(send.bytes().unwrap_or(0), recv.bytes().unwrap_or(0))?;
    }
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
    call: &Side,
    root: Rank,
) -> Result<(), Refusal> {
    let Side::At(send) = call else {
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
    type Call = Side;

    #[inline]
    fn check(session: &Session, args: &Args) -> Result<Side, Refusal> {
        check_root(args)?;
        Side::check(session, &args.send)
    }

    #[inline]
    unsafe fn perform(
        session: &Session,
        team: &Team,
        args: &Args,
        call: &Side,
    ) -> Result<(), Refusal> {
        let root = root_of(team, args)?;
        if team.rank() != root {
            let (send, bytes) = not_in_place(call)?;
            // SAFETY: the program's elements; nothing is received here.
            return unsafe {
                let input = Input::new(session, send, 0..0)?;
                done(team.gather(Some(input.address()), ptr::null_mut(), bytes, root))
            };
        }
        let recv = match received(session, args, call) {
            Ok(recv) => recv,
            Err(refusal) => {
                // SAFETY: the program's elements.
                unsafe { gather_for_nothing(session, team, call, root)? };
                return Err(refusal);
            }
        };
        let bytes = recv.bytes().ok_or(Refusal::Invalid)?;
        let all = recv.times(team.size())?;
        let output = Output::new(&all)?;
        // SAFETY: the program's elements; a block for each rank to receive.
        unsafe {
            let input = match call {
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
        if let Side::At(send) = call {
            not_aliased(session, send, || recv.block(root.index()))?;
        }
        Ok(())
    }
}

impl Collective for Scatter {
    const NAME: &'static str = "scatter";
    type Call = Side;

    #[inline]
    fn check(session: &Session, args: &Args) -> Result<Side, Refusal> {
        check_root(args)?;
        Side::check(session, &args.recv)
    }

    #[inline]
    unsafe fn perform(
        session: &Session,
        team: &Team,
        args: &Args,
        call: &Side,
    ) -> Result<(), Refusal> {
        let root = root_of(team, args)?;
        if team.rank() != root {
            let (recv, bytes) = not_in_place(call)?;
            let output = Output::new(recv)?;
            // SAFETY: the program's elements; nothing is sent from here.
            unsafe {
                done(team.scatter(ptr::null(), Some(output.address()), bytes, root))?;
                output.finish(session)?;
            }
            return Ok(());
        }
        let send = elements(session, &args.send)?;
        let bytes = send.bytes().ok_or(Refusal::Invalid)?;
        let all = send.times(team.size())?;
        // SAFETY: the program's elements; a block for each rank to send.
        unsafe {
            let Side::At(recv) = call else {
                let input = Input::new(session, &all, 0..0)?;
                return done(team.scatter(input.address(), None, bytes, root));
            };
            let recv_bytes = recv.bytes().unwrap_or(0);
            if recv_bytes != bytes {
                // The others get theirs, and the next call finds all ranks in step.
                let input = Input::new(session, &all, 0..0)?;
                done(team.scatter(input.address(), None, bytes, root))?;
                return same_bytes(bytes, recv_bytes);
            }
            let output = Output::new(recv)?;
            let input = Input::new(session, &all, output.range())?;
            done(team.scatter(input.address(), Some(output.address()), bytes, root))?;
            output.finish(session)?;
            not_aliased(session, recv, || send.block(root.index()))
        }
    }
}
