//! `MPI_Allgatherv`, `MPI_Gatherv`, `MPI_Scatterv`, `MPI_Alltoallv`, `MPI_Alltoallw` (MPI 4.1, sections 6.5 to 6.8).
//! Tables are looked at once the communicator, and so their length, is known.

use super::fast_path::{FastCall, Outcome, bytes_of};
use super::list::List;
use super::plain::{Input, Output, move_elements, overlap, own_block};
use super::rooted::{receive_from_root, send_to_root};
use super::side::{Side, is_in_place, not_aliased, rejects_aliases, same_bytes};
use super::table::{Blocks, Consecutive};
use super::{Buffer, Call, Check, Checked, Collective, Entries, Refusal, Table, done};
use crate::datatype::Packed;
use crate::error::{CallError, Wrong};
use std::ptr;

/// All-gather of blocks of different sizes.
pub struct Allgatherv;

/// Gather of blocks of different sizes.
pub struct Gatherv;

/// Scatter of blocks of different sizes.
pub struct Scatterv;

/// All-to-all of blocks of different sizes.
pub struct Alltoallv;

/// All-to-all of blocks of different sizes and types: its arrays of types are where others have a type.
pub struct Alltoallw;

impl Collective for Allgatherv {
    const NAME: &'static str = "allgatherv";
    const NONBLOCKING_NAME: &'static str = "iallgatherv";
    const PERSISTENT_NAME: &'static str = "allgatherv_init";
    type Checked = Side;
    const CHECK: Check<Side> = |session, args| Side::check(session, &args.send);

    #[inline]
    unsafe fn perform(call: &Call<'_>, side: &Side) -> Result<(), Refusal> {
        let (session, rank) = (call.session, call.team.rank().index());
        // SAFETY: the program's arrays, with an entry per rank, and its elements; the own block has room for its own.
        unsafe {
            let mut output = Blocks::new(session, &call.args.recv, &call.args.recv_table);
            output.check_output(session, call.team)?;
            side.check_bytes(output.bytes(rank))?;
            let send = match side {
                Side::InPlace => {
                    output.keep(session, rank)?;
                    None
                }
                Side::At(send) => own_block(session, send, output.address(rank), output.range())?,
            };
            done((call.team).allgatherv(send, output.base(), output.list()))?;
            output.finish(session)?;
            not_aliased(session, side, || output.row(rank))
        }
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        let (args, team, mut list) = (call.args, call.team, List::new());
        // SAFETY: the program's array, with an entry per rank.
        let into = unsafe { call.blocks(&args.recv, &args.recv_table, &mut list)? };
        let own = bytes_of(&list, team.rank());
        let send = call.contribution(own, &into)?;
        team.begin_call();
        // SAFETY: the caller's contract.
        Some(done(unsafe {
            team.allgatherv(send, args.recv.address.cast(), &list)
        }))
    }
}

/// The root's part of a gather whose results it cannot take, as far as its own block tells how long an element is: the
/// others are not kept waiting, and the next call finds all ranks in step.
///
/// # Safety
/// As [`Collective::perform`].
#[cold]
unsafe fn gather_for_nothing(call: &Call<'_>, side: &Side) -> Result<(), Refusal> {
    let (session, team, root) = (call.session, call.team, call.root()?);
    let Side::At(send) = side else {
        return Ok(());
    };
    // SAFETY: the program's array, with an entry per rank.
    let counts = unsafe { Consecutive::check(team, &call.args.recv_table, 1) };
    let (Ok(counts), Some(bytes)) = (counts, send.bytes()) else {
        return Ok(());
    };
    let own = counts.list()[root.index()].bytes;
    if own == 0 || bytes % own != 0 {
        return Ok(());
    }
    // SAFETY: as above.
    let blocks = unsafe { Consecutive::check(team, &call.args.recv_table, bytes / own)? };
    let mut unwanted = Packed::new(blocks.elements() * (bytes / own))?;
    // SAFETY: the caller's contract; there is room for a block of each rank.
    unsafe {
        let input = Input::new(session, send, 0..0)?;
        let into = unwanted.as_mut_ptr();
        done(team.gatherv(Some(input.address()), bytes, into, blocks.list(), root))
    }
}

impl Collective for Gatherv {
    const NAME: &'static str = "gatherv";
    const NONBLOCKING_NAME: &'static str = "igatherv";
    const PERSISTENT_NAME: &'static str = "gatherv_init";
    const ENTRIES: Entries = Entries::AtRoot;
    type Checked = Side;
    const CHECK: Check<Side> = Side::sent;

    #[inline]
    unsafe fn perform(call: &Call<'_>, side: &Side) -> Result<(), Refusal> {
        let (session, team, root) = (call.session, call.team, call.root()?);
        // SAFETY: the program's arrays, with an entry per rank, and its elements.
        unsafe {
            if team.rank() != root {
                return send_to_root(call, side, |send, bytes| {
                    team.gatherv(Some(send), bytes, ptr::null_mut(), &[], root)
                });
            }
            let mut output = Blocks::new(session, &call.args.recv, &call.args.recv_table);
            if let Err(refusal) = output.check_output(session, call.team) {
                gather_for_nothing(call, side)?;
                return Err(refusal);
            }
            let bytes = output.bytes(root.index());
            // If the root sends another amount itself, it receives from the others all the same, and the next call
            // finds all ranks in step.
            let own = side.check_bytes(bytes);
            let input = match side {
                Side::At(send) if own.is_ok() => {
                    Some(Input::new(session, send, output.range().clone())?)
                }
                _ => {
                    output.keep(session, root.index())?;
                    None
                }
            };
            let send = input.as_ref().map(Input::address);
            done(team.gatherv(send, bytes, output.base(), output.list(), root))?;
            output.finish(session)?;
            own?;
            not_aliased(session, side, || output.row(root.index()))
        }
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        let (args, team, root) = (call.args, call.team, call.root()?);
        let mut list = List::new();
        if team.rank() != root {
            let (send, bytes) = call.block(&args.send)?;
            team.begin_call();
            // SAFETY: the caller's contract.
            return Some(done(unsafe {
                team.gatherv(Some(send), bytes, ptr::null_mut(), &list, root)
            }));
        }
        // SAFETY: the program's array, with an entry per rank.
        let into = unsafe { call.blocks(&args.recv, &args.recv_table, &mut list)? };
        let own = bytes_of(&list, root);
        let send = call.contribution(own, &into)?;
        team.begin_call();
        // SAFETY: the caller's contract.
        Some(done(unsafe {
            team.gatherv(send, own, args.recv.address.cast(), &list, root)
        }))
    }
}

impl Collective for Scatterv {
    const NAME: &'static str = "scatterv";
    const NONBLOCKING_NAME: &'static str = "iscatterv";
    const PERSISTENT_NAME: &'static str = "scatterv_init";
    const ENTRIES: Entries = Entries::AtRoot;
    type Checked = Side;
    const CHECK: Check<Side> = Side::received;

    #[inline]
    unsafe fn perform(call: &Call<'_>, side: &Side) -> Result<(), Refusal> {
        let (session, team, root) = (call.session, call.team, call.root()?);
        // SAFETY: the program's arrays, with an entry per rank, and its elements.
        unsafe {
            if team.rank() != root {
                return receive_from_root(call, side, |recv, bytes| {
                    team.scatterv(ptr::null(), &[], Some(recv), bytes, root)
                });
            }
            let mut input = Blocks::new(session, &call.args.send, &call.args.send_table);
            input.check(session, team)?;
            let bytes = input.bytes(root.index());
            // If the root receives another amount, the others get theirs, and the next call finds all ranks in step.
            let own = side.check_bytes(bytes);
            let output = match side {
                Side::At(recv) if own.is_ok() => Some(Output::new(recv)?),
                _ => None,
            };
            let written = output.as_ref().map_or(0..0, Output::range);
            input.prepare_input(session, &written)?;
            let recv = output.as_ref().map(Output::address);
            done(team.scatterv(input.base(), input.list(), recv, bytes, root))?;
            if let Some(output) = output {
                output.finish(session)?;
            }
            own?;
            not_aliased(session, side, || input.row(root.index()))
        }
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        let (args, team, root) = (call.args, call.team, call.root()?);
        let mut list = List::new();
        let (recv, bytes) = call.block(&args.recv)?;
        if team.rank() != root {
            team.begin_call();
            // SAFETY: the caller's contract.
            return Some(done(unsafe {
                team.scatterv(ptr::null(), &list, Some(recv), bytes, root)
            }));
        }
        // SAFETY: the program's array, with an entry per rank.
        let from = unsafe { call.blocks(&args.send, &args.send_table, &mut list)? };
        let into = recv as usize..recv as usize + bytes;
        if bytes_of(&list, root) != bytes || overlap(&from, &into) {
            return None;
        }
        team.begin_call();
        // SAFETY: the caller's contract.
        Some(done(unsafe {
            team.scatterv(args.send.address.cast(), &list, Some(recv), bytes, root)
        }))
    }
}

impl Checked for bool {}

/// An all-to-all of the blocks that `blocks` makes of a buffer and its table.
///
/// # Safety
/// As [`Collective::perform`].
#[inline(always)]
unsafe fn exchange(
    call: &Call<'_>,
    in_place: bool,
    blocks: impl Fn(&Buffer, &Table) -> Blocks,
) -> Result<(), Refusal> {
    let (session, args, rank) = (call.session, call.args, call.team.rank().index());
    // SAFETY: the program's arrays, with an entry per rank, and its elements.
    unsafe {
        let mut output = blocks(&args.recv, &args.recv_table);
        output.check_output(session, call.team)?;
        let (buffer, table) = match in_place {
            true => (&args.recv, &args.recv_table),
            false => (&args.send, &args.send_table),
        };
        let mut input = blocks(buffer, table);
        input.check(session, call.team)?;
        same_bytes(input.bytes(rank), output.bytes(rank))?;
        // Elements with gaps are copied once more at each end. The rank's own need not be.
        let is_own_apart = !(input.are_dense() && output.are_dense());
        if is_own_apart {
            input.leave_out(rank);
            output.leave_out(rank);
        }
        if in_place {
            input.copy(session)?;
        } else {
            input.prepare_input(session, output.range())?;
        }
        done((call.team).alltoallv(input.base(), input.list(), output.base(), output.list()))?;
        output.finish(session)?;
        if is_own_apart && !in_place {
            move_elements(session, &input.row(rank), &output.row(rank))?;
        }
    }
    // What MPICH takes for the same blocks.
    let same = |b: &Buffer, t: &Table| (b.address, b.datatype, t.counts);
    let alike = same(&args.send, &args.send_table) == same(&args.recv, &args.recv_table);
    if alike && rejects_aliases(session) {
        return Err(Refusal::from(CallError::Wrong(Wrong::Alias)));
    }
    Ok(())
}

impl Collective for Alltoallv {
    const NAME: &'static str = "alltoallv";
    const NONBLOCKING_NAME: &'static str = "ialltoallv";
    const PERSISTENT_NAME: &'static str = "alltoallv_init";
    /// Whether it is in place.
    type Checked = bool;
    const CHECK: Check<bool> = |session, args| Ok(is_in_place(session, &args.send));

    #[inline]
    unsafe fn perform(call: &Call<'_>, &in_place: &bool) -> Result<(), Refusal> {
        let blocks = |buffer: &Buffer, table: &Table| Blocks::new(call.session, buffer, table);
        // SAFETY: the caller's contract.
        unsafe { exchange(call, in_place, blocks) }
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        let (args, team) = (call.args, call.team);
        let (mut send, mut recv) = (List::new(), List::new());
        // SAFETY: the program's arrays, with an entry per rank.
        let (from, into) = unsafe {
            (
                call.blocks(&args.send, &args.send_table, &mut send)?,
                call.blocks(&args.recv, &args.recv_table, &mut recv)?,
            )
        };
        let alike = bytes_of(&send, team.rank()) == bytes_of(&recv, team.rank());
        if !alike || overlap(&from, &into) {
            return None;
        }
        team.begin_call();
        let (from, into) = (args.send.address.cast(), args.recv.address.cast());
        // SAFETY: the caller's contract.
        Some(done(unsafe { team.alltoallv(from, &send, into, &recv) }))
    }
}

impl Collective for Alltoallw {
    const NAME: &'static str = "alltoallw";
    const NONBLOCKING_NAME: &'static str = "ialltoallw";
    const PERSISTENT_NAME: &'static str = "alltoallw_init";
    const RULE_NAME: &'static str = Alltoallv::NAME;
    const TYPE_EACH: bool = true;
    /// Whether it is in place.
    type Checked = bool;
    const CHECK: Check<bool> = Alltoallv::CHECK;

    #[inline]
    unsafe fn perform(call: &Call<'_>, &in_place: &bool) -> Result<(), Refusal> {
        // SAFETY: the caller's contract.
        unsafe { exchange(call, in_place, Blocks::typed) }
    }

    #[inline(always)]
    unsafe fn fast_path(_: &FastCall<'_>) -> Option<Outcome> {
        None
    }
}
