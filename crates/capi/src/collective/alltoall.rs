//! `MPI_Alltoall` (MPI 4.1, section 6.8).

use super::side::{Both, Input, Output, Side, not_aliased};
use super::{Args, Collective, Refusal, done};
use crate::session::Session;
use ferrorail_engine::Team;

/// All-to-all.
pub struct Alltoall;

impl Collective for Alltoall {
    const NAME: &'static str = "alltoall";
    type Call = Both;

    #[inline]
    fn check(session: &Session, args: &Args) -> Result<Both, Refusal> {
        Both::check(session, args)
    }

    #[inline]
    unsafe fn perform(
        session: &Session,
        team: &Team,
        _: &Args,
        call: &Both,
    ) -> Result<(), Refusal> {
        let (bytes, ranks) = (call.block_bytes()?, team.size());
        let recv = call.recv.times(ranks)?;
        let output = Output::new(&recv)?;
        // SAFETY: the program's elements.
        let input = unsafe {
            match &call.send {
                Side::InPlace => Input::copied(session, &recv)?,
                Side::At(send) => Input::new(session, &send.times(ranks)?, output.range())?,
            }
        };
        // SAFETY: a block for each rank on either side, in different memory.
        unsafe {
            done(team.alltoall(input.address(), output.address(), bytes))?;
            output.finish(session)?;
        }
        if let Side::At(send) = &call.send {
            not_aliased(session, send, || call.recv.clone())?;
        }
        Ok(())
    }
}
