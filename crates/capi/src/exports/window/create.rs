//! Making, freeing and asking about windows (MPI 4.1, section 12.2).

use super::{Out, run};
use crate::error::Wrong;
use crate::exports::narrow::{Handler, Peers};
use crate::exports::{export, export_both};
use crate::next::MISSING;
use crate::window::{self, Allocation, NewWindow};
use libc::c_int;
use std::ptr;

/// Makes a window.
fn make(args: &NewWindow, forward: impl Fn() -> c_int) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { window::create(args, forward) }
}

export!(MPI_Win_free(win: Out), else MISSING, |forward| {
    // SAFETY: the program's argument.
    unsafe { window::free(win, forward) }
});

export!(MPI_Win_create_dynamic(info: usize, comm: usize, win: Out), else MISSING, |forward| {
    let args = NewWindow {
        bytes: 0,
        unit: 1,
        allocation: Allocation::Dynamic,
        base: ptr::null_mut(),
        info,
        comm,
        window: win,
    };
    make(&args, forward)
});

export!(
    MPI_Win_get_attr(win: usize, key: c_int, value: Out, flag: *mut c_int),
    else MISSING,
    // SAFETY: the program's arguments.
    |forward| unsafe { window::attribute(win, key, value, flag, forward) }
);

export!(MPI_Win_get_group(win: usize, group: Out), else MISSING, |forward| {
    // SAFETY: the program's arguments.
    unsafe { window::group(win, group, forward) }
});

export!(MPI_Win_set_info(win: usize, info: usize), else MISSING, |forward| {
    window::set_info(win, info, forward)
});

export!(MPI_Win_get_info(win: usize, info: Out), else MISSING, |forward| {
    // SAFETY: the host has put a handle there.
    let handle = |host: &ferrorail_mpi_abi::Host| unsafe { host.handle_at(info) };
    window::get_info(win, forward, handle)
});

export_both! {
    MPI_Win_create MPI_Win_create_c (
        base: Out, bytes: isize, unit: Unit, info: usize, comm: usize, win: Out
    ), Peers::None, Handler::Comm(comm), |forward| {
        let args = NewWindow {
            bytes: bytes as i64,
            unit: unit.into(),
            allocation: Allocation::None,
            base,
            info,
            comm,
            window: win,
        };
        make(&args, forward)
    };

    MPI_Win_allocate MPI_Win_allocate_c (
        bytes: isize, unit: Unit, info: usize, comm: usize, base: Out, win: Out
    ), Peers::None, Handler::Comm(comm), |forward| {
        let args = NewWindow {
            bytes: bytes as i64,
            unit: unit.into(),
            allocation: Allocation::Private,
            base,
            info,
            comm,
            window: win,
        };
        make(&args, forward)
    };

    MPI_Win_allocate_shared MPI_Win_allocate_shared_c (
        bytes: isize, unit: Unit, info: usize, comm: usize, base: Out, win: Out
    ), Peers::None, Handler::Comm(comm), |forward| {
        let args = NewWindow {
            bytes: bytes as i64,
            unit: unit.into(),
            allocation: Allocation::Shared,
            base,
            info,
            comm,
            window: win,
        };
        make(&args, forward)
    };

    MPI_Win_shared_query MPI_Win_shared_query_c (
        win: usize, rank: c_int, bytes: *mut isize, unit: *mut Unit, base: Out
    ), Peers::None, Handler::Window(win), |forward| {
        // SAFETY: the program's arguments.
        unsafe {
            run("win_shared_query", win, forward, |session, entry| {
                let found = window::shared_query(session, entry, rank)?;
                #[allow(clippy::unnecessary_fallible_conversions, reason = "it fails in the other form")]
                { *unit = found.2.try_into().map_err(|_| Wrong::Unit)?; }
                base.cast::<Out>().write_unaligned(found.0);
                *bytes = found.1;
                Ok(())
            })
        }
    };
}
