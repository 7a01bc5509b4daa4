//! `MPI_Reduce_scatter_block`, `MPI_Reduce_scatter` (MPI 4.1, section 6.10).

use super::reduction::Vector;
use super::side::{Output, check_address, is_in_place, rejects_aliases};
use super::table::Consecutive;
use super::{Args, Collective, Refusal, done};
use crate::datatype::Elements;
use crate::session::Session;
use ferrorail_base::Rank;
use ferrorail_engine::{Collective as Kind, Team};
use std::ptr;

/// Reduce-scatter of equal blocks.
pub struct ReduceScatterBlock;

/// Reduce-scatter of blocks of different sizes.
pub struct ReduceScatter;

impl Collective for ReduceScatterBlock {
    const NAME: &'static str = "reduce_scatter_block";
    type Call = Vector;

    #[inline]
    fn check(session: &Session, args: &Args) -> Result<Vector, Refusal> {
        Vector::check_both(session, args)
    }

    #[inline]
    unsafe fn perform(
        session: &Session,
        team: &Team,
        args: &Args,
        call: &Vector,
    ) -> Result<(), Refusal> {
        let recv = &call.elements;
        let all = recv.times(team.size())?;
        call.find_room(team, Kind::ReduceScatterBlock, Rank(0), || recv.count)?;
        // In place the whole vector is where only its first block is written.
        let output = Output::first_of(recv, is_in_place(session, &args.send).then_some(&all))?;
        // SAFETY: the program's elements; overlap is removed.
        unsafe {
            call.with(session, args, &all, &output, |send, reducer| {
                let count = recv.count;
                done(team.reduce_scatter_block(send, output.address(), count, reducer))
            })?;
            output.finish(session)?;
        }
        Ok(())
    }
}

impl Collective for ReduceScatter {
    const NAME: &'static str = "reduce_scatter";
    type Call = Vector;

    /// How many elements there are is known once the communicator is.
    #[inline]
    fn check(session: &Session, args: &Args) -> Result<Vector, Refusal> {
        Vector::check(session, args)
    }

    #[inline]
    unsafe fn perform(
        session: &Session,
        team: &Team,
        args: &Args,
        call: &Vector,
    ) -> Result<(), Refusal> {
        let element = &call.elements;
        // SAFETY: the program's array, with an entry per rank.
        let blocks = unsafe { Consecutive::check(team, args, element.layout.bytes)? };
        let of = |count| Elements {
            count,
            ..element.clone()
        };
        let elements_in = |bytes: usize| bytes / element.layout.bytes.max(1);
        let own = elements_in(blocks.list()[team.rank().index()].bytes);
        let all = of(blocks.elements());
        let in_place = is_in_place(session, &args.send);
        // In place the whole vector is where only its first elements are written.
        let recv = of(own);
        check_address(session, if in_place { &all } else { &recv })?;
        let aliases = ptr::eq(args.send.address, args.recv.address) && all.bytes() != Some(0);
        if aliases && rejects_aliases(session) {
            return Err(Refusal::Invalid);
        }
        call.find_room(team, Kind::ReduceScatter, Rank(0), || {
            let longest = blocks.list().iter().map(|block| block.bytes).max();
            elements_in(longest.unwrap_or(0))
        })?;
        let output = Output::first_of(&recv, in_place.then_some(&all))?;
        // SAFETY: the program's elements; overlap is removed.
        unsafe {
            call.with(session, args, &all, &output, |send, reducer| {
                done(team.reduce_scatter(send, output.address(), blocks.list(), reducer))
            })?;
            output.finish(session)?;
        }
        Ok(())
    }
}
