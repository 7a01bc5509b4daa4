//! Making, freeing and asking about windows (MPI 4.1, section 12.2).

use super::Out;
use crate::exports::export;
use crate::exports::narrow::{Handler, Peers, call_narrowed};
use crate::next::{MISSING, Next, call_next};
use crate::panic_guard::guard;
use crate::window::{self, Allocation, NewWindow};
use libc::c_int;

export!(MPI_Win_free(win: Out), else MISSING, |forward| {
    // SAFETY: the program's argument.
    guard(None, || unsafe { window::free(win, forward) })
});

export!(MPI_Win_create_dynamic(info: usize, comm: usize, win: Out), else MISSING, |forward| {
    let args = NewWindow {
        bytes: 0,
        unit: 1,
        allocation: Allocation::Dynamic,
        info,
        comm,
        window: win,
    };
    // SAFETY: the program's arguments.
    guard(Some(comm), || unsafe { window::create("win_create_dynamic", &args, forward) })
});

export!(
    MPI_Win_get_attr(win: usize, key: c_int, value: Out, flag: *mut c_int),
    else MISSING,
    // SAFETY: the program's arguments.
    |forward| guard(None, || unsafe { window::attribute(win, key, value, flag, forward) })
);

export!(MPI_Win_set_info(win: usize, info: usize), else MISSING, |forward| {
    guard(None, || window::set_info(win, info, forward))
});

export!(MPI_Win_get_info(win: usize, info: Out), else MISSING, |forward| {
    // SAFETY: the host has put a handle there.
    let handle = |host: &ferrorail_mpi_abi::Host| unsafe { host.handle_at(info) };
    guard(None, || window::get_info(win, forward, handle))
});

/// Defines functions that make windows, and that query shared ones; `Unit` is a displacement unit.
/// `missing` is what they are on hosts that lack them.
macro_rules! creations {
    ($missing:ident, $create:ident $allocate:ident $shared:ident $query:ident) => {
        creations!(@ $missing MPI_Win_create $create "win_create" None base (
            base: Out, bytes: isize, unit: Unit, info: usize, comm: usize, win: Out
        ) bytes unit info comm win);
        creations!(@ $missing MPI_Win_allocate $allocate "win_allocate" Private base (
            bytes: isize, unit: Unit, info: usize, comm: usize, base: Out, win: Out
        ) bytes unit info comm win);
        creations!(@ $missing MPI_Win_allocate_shared $shared "win_allocate_shared" Shared base (
            bytes: isize, unit: Unit, info: usize, comm: usize, base: Out, win: Out
        ) bytes unit info comm win);

        export!(
            $query(win: usize, rank: c_int, bytes: *mut isize, unit: *mut Unit, base: Out),
            else $missing!(query win, rank, bytes, unit, base),
            // SAFETY: the program's arguments.
            |forward| guard(None, || unsafe {
                window::run("win_shared_query", win, forward, |session, entry| {
                    let found = window::shared_query(session, entry, rank)?;
                    base.cast::<Out>().write_unaligned(found.0);
                    *bytes = found.1;
                    *unit = found.2.into();
                    Ok(())
                })
            })
        );
    };
    (@ $missing:ident $int:ident $name:ident $label:literal $kind:ident $base:ident $arguments:tt
     $bytes:ident $unit:ident $info:ident $comm:ident $win:ident) => {
        export!($name $arguments, else $missing!($int $arguments, $comm), |forward| {
            let args = NewWindow {
                bytes: $bytes as i64,
                unit: $unit.into(),
                allocation: Allocation::$kind { $base },
                info: $info,
                comm: $comm,
                window: $win,
            };
            // SAFETY: the program's arguments.
            guard(Some($comm), || unsafe { window::create($label, &args, forward) })
        });
    };
}

macro_rules! missing {
    ($($anything:tt)*) => {
        MISSING
    };
}

macro_rules! narrowed {
    (query $win:ident, $rank:ident, $bytes:ident, $unit:ident, $base:ident) => {{
        static NARROW: Next = Next::new("MPI_Win_shared_query");
        let mut unit: c_int = 1;
        let at = &raw mut unit;
        let code = call_next!(
            NARROW,
            (
                $win => usize, $rank => c_int, $bytes => *mut isize, at => *mut c_int, $base => Out
            ) -> c_int,
            else MISSING
        );
        // SAFETY: the program's output argument.
        unsafe { *$unit = unit.into() };
        code
    }};
    ($name:ident $arguments:tt, $comm:ident) => {
        call_narrowed!($name, $arguments, Peers::None, Handler::Comm($comm))
    };
}

mod int_units {
    use super::*;
    type Unit = c_int;
    creations!(
        missing,
        MPI_Win_create MPI_Win_allocate MPI_Win_allocate_shared MPI_Win_shared_query
    );
}
mod large_units {
    use super::*;
    use crate::exports::narrow::Unit;
    creations!(
        narrowed,
        MPI_Win_create_c MPI_Win_allocate_c MPI_Win_allocate_shared_c MPI_Win_shared_query_c
    );
}
