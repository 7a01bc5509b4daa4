//! `MPI_Barrier`, `MPI_Allgather`, `MPI_Alltoall` (MPI 4.1, sections 6.3, 6.7 and 6.8): what is alike on all
//! ranks.

use super::fast_path::{FastCall, Outcome, Part};
use super::plain::{Input, Output, own_block};
use super::side::{Both, Side, not_aliased};
use super::{Call, Check, Checked, Collective, Refusal, done};

/// Barrier.
pub struct Barrier;

/// All-gather.
pub struct Allgather;

/// All-to-all.
pub struct Alltoall;

impl Checked for () {}

impl Collective for Barrier {
    const NAME: &'static str = "barrier";
    const NONBLOCKING_NAME: &'static str = "ibarrier";
    const PERSISTENT_NAME: &'static str = "barrier_init";
    type Checked = ();
    const CHECK: Check<()> = |_, _| Ok(());

    #[inline]
    unsafe fn perform(call: &Call<'_>, (): &()) -> Result<(), Refusal> {
        done(call.team.barrier())
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        call.team.begin_call();
        Some(done(call.team.barrier()))
    }
}

impl Collective for Allgather {
    const NAME: &'static str = "allgather";
    const NONBLOCKING_NAME: &'static str = "iallgather";
    const PERSISTENT_NAME: &'static str = "allgather_init";
    type Checked = Both;
    const CHECK: Check<Both> = Both::check;

    #[inline]
    unsafe fn perform(call: &Call<'_>, both: &Both) -> Result<(), Refusal> {
        let (bytes, rank) = (both.block_bytes()?, call.team.rank().index());
        let all = both.recv.times(call.team.size())?;
        let output = Output::new(&all)?;
        let own = output.address().wrapping_add(bytes * rank);
        // SAFETY: the caller's contract; the own block has room for what is sent, which is apart from the output.
        unsafe {
            let send = match &both.send {
                Side::InPlace => {
                    output.keep(call.session, &both.recv.block(rank), bytes * rank)?;
                    None
                }
                Side::At(send) => own_block(call.session, send, own, &output.range())?,
            };
            done(call.team.allgather(send, output.address(), bytes))?;
            output.finish(call.session)?;
        }
        not_aliased(call.session, &both.send, || both.recv.block(rank))
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        let sides = call.sides(Part::Block, Part::Blocks, true)?;
        // SAFETY: the caller's contract.
        Some(done(unsafe {
            call.team.allgather(sides.send, sides.recv, sides.bytes)
        }))
    }
}

impl Collective for Alltoall {
    const NAME: &'static str = "alltoall";
    const NONBLOCKING_NAME: &'static str = "ialltoall";
    const PERSISTENT_NAME: &'static str = "alltoall_init";
    type Checked = Both;
    const CHECK: Check<Both> = Both::check;

    #[inline]
    unsafe fn perform(call: &Call<'_>, both: &Both) -> Result<(), Refusal> {
        let (bytes, ranks) = (both.block_bytes()?, call.team.size());
        let recv = both.recv.times(ranks)?;
        let output = Output::new(&recv)?;
        // SAFETY: the program's elements: a block for each rank on either side, in different memory.
        unsafe {
            let input = match &both.send {
                Side::InPlace => Input::copied(call.session, &recv)?,
                Side::At(send) => Input::new(call.session, &send.times(ranks)?, output.range())?,
            };
            done((call.team).alltoall(input.address(), output.address(), bytes))?;
            output.finish(call.session)?;
        }
        not_aliased(call.session, &both.send, || both.recv.clone())
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        let sides = call.sides(Part::Blocks, Part::Blocks, false)?;
        // SAFETY: the caller's contract.
        Some(done(unsafe {
            (call.team).alltoall(sides.sent(), sides.recv, sides.bytes)
        }))
    }
}
