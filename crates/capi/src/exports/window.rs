//! One-sided communication called from C, with counts of `int` or `MPI_Count` (names in `_c`).

use crate::collective::Buffer;
use crate::next::{MISSING, Next, call_next};
use crate::panic_guard::guard;
use crate::window::{self, Accumulate, Allocation, NewWindow, Place};
use libc::{c_int, c_void};

type In = *const c_void;
type Out = *mut c_void;

/// A function whose last argument is the window.
macro_rules! call {
    ($name:ident, $label:literal, ($($arg:ident: $ty:ty),*),
     |$session:ident, $entry:ident| $call:expr) => {
        /// As the standard defines it.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty,)* win: usize) -> c_int {
            static NEXT: Next = Next::new(stringify!($name));
            guard(None, || {
                let forward =
                    || call_next!(NEXT, ($($arg => $ty,)* win => usize) -> c_int, else MISSING);
                // SAFETY: the program called the function with these arguments.
                unsafe { window::run($label, win, forward, |$session, $entry| $call) }
            })
        }
    };
}

macro_rules! calls {
    ($($name:ident $label:literal $arguments:tt |$session:ident, $entry:ident| $call:expr;)*) => {
        $(call!($name, $label, $arguments, |$session, $entry| $call);)*
    };
}

calls! {
    MPI_Win_fence "win_fence" (assert: c_int) |s, w| window::fence(s, w, assert);
    MPI_Win_post "win_post" (group: usize, assert: c_int) |s, w| window::post(s, w, group, assert);
    MPI_Win_start "win_start" (group: usize, assert: c_int)
        |s, w| window::start(s, w, group, assert);
    MPI_Win_complete "win_complete" () |s, w| window::complete(s, w);
    MPI_Win_wait "win_wait" () |s, w| window::wait(s, w);
    MPI_Win_lock "win_lock" (kind: c_int, rank: c_int, assert: c_int)
        |s, w| window::lock(s, w, kind, rank, assert);
    MPI_Win_unlock "win_unlock" (rank: c_int) |s, w| window::unlock(s, w, rank);
    MPI_Win_lock_all "win_lock_all" (assert: c_int) |s, w| window::lock_all(s, w, assert);
    MPI_Win_unlock_all "win_unlock_all" () |s, w| window::unlock_all(s, w);
    MPI_Win_flush "win_flush" (rank: c_int) |s, w| window::flush(s, w, rank);
    MPI_Win_flush_local "win_flush_local" (rank: c_int) |s, w| window::flush(s, w, rank);
    MPI_Win_flush_all "win_flush_all" () |s, w| window::flush_all(s, w);
    MPI_Win_flush_local_all "win_flush_local_all" () |s, w| window::flush_all(s, w);
    MPI_Win_sync "win_sync" () |s, w| window::sync(s, w);
    MPI_Fetch_and_op "fetch_and_op" (
        origin: In, result: Out, datatype: usize, rank: c_int, displacement: isize, op: usize
    ) |s, w| {
        let args = Accumulate {
            origin: Buffer::new(origin, 1, datatype),
            result: Some(Buffer::new(result, 1, datatype)),
            place: Place::new(rank, displacement, 1, datatype),
            op,
        };
        window::accumulate(s, w, &args)
    };
    MPI_Compare_and_swap "compare_and_swap" (
        origin: In, compare: In, result: Out, datatype: usize, rank: c_int, displacement: isize
    ) |s, w| {
        let place = Place::new(rank, displacement, 1, datatype);
        let buffers = [origin.cast_mut(), compare.cast_mut(), result];
        window::compare_and_swap(s, w, buffers, &place)
    };
}

/// Defines both forms of functions that have counts, which are of type `Count`.
macro_rules! counted {
    ($($name:ident $large:ident $label:literal $arguments:tt
       |$session:ident, $entry:ident| $call:expr;)*) => {
        /// Counts are `int`.
        mod int {
            use super::*;
            type Count = c_int;
            $(call!($name, $label, $arguments, |$session, $entry| $call);)*
        }
        /// Counts are `MPI_Count`.
        mod large {
            use super::*;
            type Count = i64;
            $(call!($large, $label, $arguments, |$session, $entry| $call);)*
        }
    };
}

counted! {
    MPI_Put MPI_Put_c "put" (
        origin: In, origin_count: Count, origin_type: usize,
        rank: c_int, displacement: isize, count: Count, datatype: usize
    ) |s, w| {
        let buffer = Buffer::new(origin, origin_count, origin_type);
        let place = Place::new(rank, displacement, count, datatype);
        window::put(s, w, &buffer, &place)
    };

    MPI_Get MPI_Get_c "get" (
        origin: Out, origin_count: Count, origin_type: usize,
        rank: c_int, displacement: isize, count: Count, datatype: usize
    ) |s, w| {
        let buffer = Buffer::new(origin, origin_count, origin_type);
        let place = Place::new(rank, displacement, count, datatype);
        window::get(s, w, &buffer, &place)
    };

    MPI_Accumulate MPI_Accumulate_c "accumulate" (
        origin: In, origin_count: Count, origin_type: usize,
        rank: c_int, displacement: isize, count: Count, datatype: usize, op: usize
    ) |s, w| {
        let args = Accumulate {
            origin: Buffer::new(origin, origin_count, origin_type),
            result: None,
            place: Place::new(rank, displacement, count, datatype),
            op,
        };
        window::accumulate(s, w, &args)
    };

    MPI_Get_accumulate MPI_Get_accumulate_c "get_accumulate" (
        origin: In, origin_count: Count, origin_type: usize,
        result: Out, result_count: Count, result_type: usize,
        rank: c_int, displacement: isize, count: Count, datatype: usize, op: usize
    ) |s, w| {
        let args = Accumulate {
            origin: Buffer::new(origin, origin_count, origin_type),
            result: Some(Buffer::new(result, result_count, result_type)),
            place: Place::new(rank, displacement, count, datatype),
            op,
        };
        window::accumulate(s, w, &args)
    };
}

/// `MPI_Win_test`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_test(win: usize, flag: *mut c_int) -> c_int {
    static NEXT: Next = Next::new("MPI_Win_test");
    guard(None, || {
        let forward =
            || call_next!(NEXT, (win => usize, flag => *mut c_int) -> c_int, else MISSING);
        // SAFETY: the program's arguments.
        unsafe {
            window::run("win_test", win, forward, |_, entry| {
                window::test(entry, flag)
            })
        }
    })
}

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
