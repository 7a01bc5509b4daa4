//! `MPI_Allgather` (MPI 4.1, section 6.7).

use super::side::{Both, Output, Side, collect, not_aliased, overlap};
use super::{Args, Collective, Refusal, done};
use crate::session::Session;
use ferrorail_engine::Team;

/// All-gather.
pub struct Allgather;

impl Collective for Allgather {
    const NAME: &'static str = "allgather";
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
        let (bytes, rank) = (call.block_bytes()?, team.rank().index());
        let all = call.recv.times(team.size())?;
        let output = Output::new(&all)?;
        let own = output.address().wrapping_add(bytes * rank);
        let send = match &call.send {
            Side::InPlace => {
                // SAFETY: the own block is one of the program's buffer.
                unsafe { output.keep(session, &call.recv.block(rank), bytes * rank)? };
                None
            }
            Side::At(send) => match send.dense() {
                Some(address) if !overlap(&send.range(address), &output.range()) => {
                    Some(address.cast_const())
                }
                // Straight into the own block: needs no other memory. Overlapping buffers are
                // wrong, but hosts that do not check copy the own block first, too.
                _ => {
                    // SAFETY: the program's elements; the own block has room for them.
                    unsafe { collect(session, send, own)? };
                    None
                }
            },
        };
        // SAFETY: the caller's contract; overlap was just removed.
        unsafe {
            done(team.allgather(send, output.address(), bytes))?;
            output.finish(session)?;
        }
        if let Side::At(send) = &call.send {
            not_aliased(session, send, || call.recv.block(rank))?;
        }
        Ok(())
    }
}
