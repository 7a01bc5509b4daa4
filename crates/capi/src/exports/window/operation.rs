//! Operations (MPI 4.1, section 12.3).

use super::{In, Out, calls, run};
use crate::collective::Buffer;
use crate::exports::export_both;
use crate::exports::narrow::{Handler, Peers};
use crate::window::{self, Accumulate, Place, Way};
use libc::c_int;

calls! {
    MPI_Fetch_and_op(
        origin: In, result: Out, datatype: usize, rank: c_int, displacement: isize, op: usize,
        win: usize
    ) "fetch_and_op" on win |s, w| {
        let args = Accumulate {
            origin: Buffer::new(origin, 1, datatype),
            result: Some(Buffer::new(result, 1, datatype)),
            place: Place::new(rank, displacement, 1, datatype),
            op,
        };
        window::accumulate(s, w, &args)
    };

    MPI_Compare_and_swap(
        origin: In, compare: In, result: Out, datatype: usize, rank: c_int, displacement: isize,
        win: usize
    ) "compare_and_swap" on win |s, w| {
        let place = Place::new(rank, displacement, 1, datatype);
        let buffers = [origin.cast_mut(), compare.cast_mut(), result];
        window::compare_and_swap(s, w, buffers, &place)
    };
}

/// Defines each operation in four forms: without and with a request, with counts of either type. Arguments are those
/// before the window.
macro_rules! operations {
    ($($name:ident $large:ident, $requested:ident $requested_large:ident, $label:literal
       ($($arg:ident: $ty:ty),*) |$session:ident, $entry:ident, $rank:ident| $call:expr;)*) => {
        export_both! { $(
            $name $large ($($arg: $ty,)* win: usize), Peers::None, Handler::Window(win),
            |forward| {
                // SAFETY: the program called the function with these arguments.
                unsafe { run($label, win, forward, |$session, $entry| $call) }
            };
            $requested $requested_large ($($arg: $ty,)* win: usize, request: Out),
            Peers::None, Handler::Window(win),
            |forward| {
                // SAFETY: the program called the function with these arguments.
                unsafe {
                    run($label, win, forward, |$session, $entry| {
                        let outcome = $call;
                        window::requested($session, $entry, $rank, request, outcome)
                    })
                }
            };
        )* }
    };
}

operations! {
    MPI_Put MPI_Put_c, MPI_Rput MPI_Rput_c, "put" (
        origin: In, origin_count: Count, origin_type: usize,
        rank: c_int, displacement: isize, count: Count, datatype: usize
    ) |s, w, rank| {
        let buffer = Buffer::new(origin, origin_count, origin_type);
        let place = Place::new(rank, displacement, count, datatype);
        window::transfer(s, w, Way::Put, &buffer, &place)
    };

    MPI_Get MPI_Get_c, MPI_Rget MPI_Rget_c, "get" (
        origin: Out, origin_count: Count, origin_type: usize,
        rank: c_int, displacement: isize, count: Count, datatype: usize
    ) |s, w, rank| {
        let buffer = Buffer::new(origin, origin_count, origin_type);
        let place = Place::new(rank, displacement, count, datatype);
        window::transfer(s, w, Way::Get, &buffer, &place)
    };

    MPI_Accumulate MPI_Accumulate_c, MPI_Raccumulate MPI_Raccumulate_c, "accumulate" (
        origin: In, origin_count: Count, origin_type: usize,
        rank: c_int, displacement: isize, count: Count, datatype: usize, op: usize
    ) |s, w, rank| {
        let args = Accumulate {
            origin: Buffer::new(origin, origin_count, origin_type),
            result: None,
            place: Place::new(rank, displacement, count, datatype),
            op,
        };
        window::accumulate(s, w, &args)
    };

    MPI_Get_accumulate MPI_Get_accumulate_c, MPI_Rget_accumulate MPI_Rget_accumulate_c,
    "get_accumulate" (
        origin: In, origin_count: Count, origin_type: usize,
        result: Out, result_count: Count, result_type: usize,
        rank: c_int, displacement: isize, count: Count, datatype: usize, op: usize
    ) |s, w, rank| {
        let args = Accumulate {
            origin: Buffer::new(origin, origin_count, origin_type),
            result: Some(Buffer::new(result, result_count, result_type)),
            place: Place::new(rank, displacement, count, datatype),
            op,
        };
        window::accumulate(s, w, &args)
    };
}
