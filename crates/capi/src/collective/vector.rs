//! `MPI_Allgatherv`, `MPI_Gatherv`, `MPI_Scatterv`, `MPI_Alltoallv` (MPI 4.1, sections 6.5 to 6.8).
//! Tables are looked at once the communicator, and so their length, is known.

use super::rooted::{check_root, not_in_place, root_of};
use super::side::{
    Input, Output, Side, collect, not_aliased, overlap, rejects_aliases, same_bytes,
};
use super::table::Blocks;
use super::{Args, Buffer, Checked, Collective, Refusal, Table, done};
use crate::error::{CallError, Wrong};
use crate::session::Session;
use ferrorail_engine::Team;
use std::ptr;

/// All-gather of blocks of different sizes.
pub struct Allgatherv;

/// Gather of blocks of different sizes.
pub struct Gatherv;

/// Scatter of blocks of different sizes.
pub struct Scatterv;

/// All-to-all of blocks of different sizes.
pub struct Alltoallv;

impl Collective for Allgatherv {
    const NAME: &'static str = "allgatherv";
    type Call = Side;

    #[inline]
    fn check(session: &Session, args: &Args) -> Result<Side, Refusal> {
        Side::check(session, &args.send)
    }

    #[inline]
    unsafe fn perform(
        session: &Session,
        team: &Team,
        args: &Args,
        call: &Side,
    ) -> Result<(), Refusal> {
        let rank = team.rank().index();
        let mut output = Blocks::new(session, &args.recv, &args.recv_table);
        // SAFETY: the program's arrays, with an entry per rank.
        unsafe { output.check(session, team)? };
        output.prepare_output()?;
        // SAFETY: the program's elements; the own block has room for its own.
        unsafe {
            let send = match call {
                Side::InPlace => {
                    output.keep(session, rank)?;
                    None
                }
                Side::At(send) => {
                    same_bytes(send.bytes().unwrap_or(0), output.bytes(rank))?;
                    match send.dense() {
                        Some(address) if !overlap(&send.range(address), output.range()) => {
                            Some(address.cast_const())
                        }
                        _ => {
                            collect(session, send, output.address(rank))?;
                            None
                        }
                    }
                }
            };
            done(team.allgatherv(send, output.base(), output.list()))?;
            output.finish(session)?;
        }
        if let Side::At(send) = call {
            not_aliased(session, send, || output.row(rank))?;
        }
        Ok(())
    }
}

impl Collective for Gatherv {
    const NAME: &'static str = "gatherv";
    const AT_ROOT: bool = true;
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
                done(team.gatherv(Some(input.address()), bytes, ptr::null_mut(), &[], root))
            };
        }
        // SAFETY: the program's arrays, with an entry per rank, and its elements.
        unsafe {
            let mut output = Blocks::new(session, &args.recv, &args.recv_table);
            output.check(session, team)?;
            output.prepare_output()?;
            let bytes = output.bytes(root.index());
            let input = match call {
                Side::InPlace => {
                    output.keep(session, root.index())?;
                    None
                }
                Side::At(send) => {
                    same_bytes(send.bytes().unwrap_or(0), bytes)?;
                    Some(Input::new(session, send, output.range().clone())?)
                }
            };
            let send = input.as_ref().map(Input::address);
            done(team.gatherv(send, bytes, output.base(), output.list(), root))?;
            output.finish(session)?;
            if let Side::At(send) = call {
                not_aliased(session, send, || output.row(root.index()))?;
            }
        }
        Ok(())
    }
}

impl Collective for Scatterv {
    const NAME: &'static str = "scatterv";
    const AT_ROOT: bool = true;
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
            // SAFETY: the program's elements; nothing is sent here.
            return unsafe {
                done(team.scatterv(ptr::null(), &[], Some(output.address()), bytes, root))?;
                Ok(output.finish(session)?)
            };
        }
        // SAFETY: the program's arrays, with an entry per rank, and its elements.
        unsafe {
            let mut input = Blocks::new(session, &args.send, &args.send_table);
            input.check(session, team)?;
            let bytes = input.bytes(root.index());
            let output = match call {
                Side::InPlace => None,
                Side::At(recv) => {
                    same_bytes(bytes, recv.bytes().unwrap_or(0))?;
                    Some(Output::new(recv)?)
                }
            };
            let written = output.as_ref().map_or(0..0, Output::range);
            input.prepare_input(session, &written)?;
            let recv = output.as_ref().map(Output::address);
            done(team.scatterv(input.base(), input.list(), recv, bytes, root))?;
            if let Some(output) = output {
                output.finish(session)?;
            }
            if let Side::At(recv) = call {
                not_aliased(session, recv, || input.row(root.index()))?;
            }
        }
        Ok(())
    }
}

impl Checked for bool {}

impl Collective for Alltoallv {
    const NAME: &'static str = "alltoallv";
    /// Whether it is in place.
    type Call = bool;

    #[inline]
    fn check(session: &Session, args: &Args) -> Result<bool, Refusal> {
        Ok(args.send.address as usize == session.host().constants().in_place)
    }

    #[inline]
    unsafe fn perform(
        session: &Session,
        team: &Team,
        args: &Args,
        &in_place: &bool,
    ) -> Result<(), Refusal> {
        let rank = team.rank().index();
        // SAFETY: the program's arrays, with an entry per rank, and its elements.
        unsafe {
            let mut output = Blocks::new(session, &args.recv, &args.recv_table);
            output.check(session, team)?;
            output.prepare_output()?;
            let (buffer, table) = match in_place {
                true => (&args.recv, &args.recv_table),
                false => (&args.send, &args.send_table),
            };
            let mut input = Blocks::new(session, buffer, table);
            input.check(session, team)?;
            if in_place {
                input.copy(session)?;
            } else {
                same_bytes(input.bytes(rank), output.bytes(rank))?;
                input.prepare_input(session, output.range())?;
            }
            done(team.alltoallv(input.base(), input.list(), output.base(), output.list()))?;
            output.finish(session)?;
        }
        // What MPICH takes for the same blocks.
        let same = |b: &Buffer, t: &Table| (b.address, b.datatype, t.counts);
        let alike = same(&args.send, &args.send_table) == same(&args.recv, &args.recv_table);
        if alike && rejects_aliases(session) {
            return Err(Refusal::from(CallError::Wrong(Wrong::Alias)));
        }
        Ok(())
    }
}
