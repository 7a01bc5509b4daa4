//! Making, freeing and asking about windows (MPI 4.1, section 12.2).

use super::Out;
use crate::next::{MISSING, Next, call_next};
use crate::panic_guard::guard;
use crate::window::{self, Allocation, NewWindow};
use libc::c_int;

/// `MPI_Win_free`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_free(win: Out) -> c_int {
    static NEXT: Next = Next::new("MPI_Win_free");
    guard(None, || {
        let forward = || call_next!(NEXT, (win => Out) -> c_int, else MISSING);
        // SAFETY: the program's argument.
        unsafe { window::free(win, forward) }
    })
}

/// `MPI_Win_create_dynamic`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_create_dynamic(info: usize, comm: usize, win: Out) -> c_int {
    static NEXT: Next = Next::new("MPI_Win_create_dynamic");
    let args = NewWindow {
        bytes: 0,
        unit: 1,
        allocation: Allocation::Dynamic,
        info,
        comm,
        window: win,
    };
    guard(Some(comm), || {
        let forward =
            || call_next!(NEXT, (info => usize, comm => usize, win => Out) -> c_int, else MISSING);
        // SAFETY: the program's arguments.
        unsafe { window::create("win_create_dynamic", &args, forward) }
    })
}

/// `MPI_Win_get_attr`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_get_attr(
    win: usize,
    key: c_int,
    value: Out,
    flag: *mut c_int,
) -> c_int {
    static NEXT: Next = Next::new("MPI_Win_get_attr");
    guard(None, || {
        let forward = || {
            call_next!(
                NEXT,
                (win => usize, key => c_int, value => Out, flag => *mut c_int) -> c_int,
                else MISSING
            )
        };
        // SAFETY: the program's arguments.
        unsafe { window::attribute(win, key, value, flag, forward) }
    })
}

/// Defines functions that make windows, and that query shared ones; `Unit` is a displacement unit.
macro_rules! creations {
    ($unit:ty, $create:ident $allocate:ident $shared:ident $query:ident) => {
        type Unit = $unit;

        /// As the standard defines it.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(
            base: Out,
            bytes: isize,
            unit: Unit,
            info: usize,
            comm: usize,
            win: Out,
        ) -> c_int {
            static NEXT: Next = Next::new(stringify!($create));
            let args = NewWindow {
                bytes: bytes as i64,
                unit: unit as i64,
                allocation: Allocation::None { base },
                info,
                comm,
                window: win,
            };
            guard(Some(comm), || {
                let forward = || {
                    call_next!(
                        NEXT,
                        (
                            base => Out, bytes => isize, unit => Unit, info => usize,
                            comm => usize, win => Out
                        ) -> c_int,
                        else MISSING
                    )
                };
                // SAFETY: the program's arguments.
                unsafe { window::create("win_create", &args, forward) }
            })
        }

        creations!(@allocate $allocate "win_allocate" Private);
        creations!(@allocate $shared "win_allocate_shared" Shared);

        /// As the standard defines it.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $query(
            win: usize,
            rank: c_int,
            bytes: *mut isize,
            unit: *mut Unit,
            base: Out,
        ) -> c_int {
            static NEXT: Next = Next::new(stringify!($query));
            guard(None, || {
                let forward = || {
                    call_next!(
                        NEXT,
                        (
                            win => usize, rank => c_int, bytes => *mut isize, unit => *mut Unit,
                            base => Out
                        ) -> c_int,
                        else MISSING
                    )
                };
                // SAFETY: the program's arguments.
                unsafe {
                    window::run("win_shared_query", win, forward, |session, entry| {
                        let found = window::shared_query(session, entry, rank)?;
                        base.cast::<Out>().write_unaligned(found.0);
                        *bytes = found.1;
                        *unit = found.2 as Unit;
                        Ok(())
                    })
                }
            })
        }
    };
    (@allocate $name:ident $label:literal $kind:ident) => {
        /// As the standard defines it.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            bytes: isize,
            unit: Unit,
            info: usize,
            comm: usize,
            base: Out,
            win: Out,
        ) -> c_int {
            static NEXT: Next = Next::new(stringify!($name));
            let args = NewWindow {
                bytes: bytes as i64,
                unit: unit as i64,
                allocation: Allocation::$kind { base },
                info,
                comm,
                window: win,
            };
            guard(Some(comm), || {
                let forward = || {
                    call_next!(
                        NEXT,
                        (
                            bytes => isize, unit => Unit, info => usize, comm => usize,
                            base => Out, win => Out
                        ) -> c_int,
                        else MISSING
                    )
                };
                // SAFETY: the program's arguments.
                unsafe { window::create($label, &args, forward) }
            })
        }
    };
}

mod int_units {
    use super::*;
    creations!(c_int, MPI_Win_create MPI_Win_allocate MPI_Win_allocate_shared MPI_Win_shared_query);
}
mod large_units {
    use super::*;
    creations!(
        isize,
        MPI_Win_create_c MPI_Win_allocate_c MPI_Win_allocate_shared_c MPI_Win_shared_query_c
    );
}
