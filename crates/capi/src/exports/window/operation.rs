//! Operations (MPI 4.1, section 12.3).

use super::{In, Out, call};
use crate::collective::Buffer;
use crate::window::{self, Accumulate, Place};
use libc::c_int;

call!(
    MPI_Fetch_and_op,
    "fetch_and_op",
    (origin: In, result: Out, datatype: usize, rank: c_int, displacement: isize, op: usize),
    (),
    |s, w| {
        let args = Accumulate {
            origin: Buffer::new(origin, 1, datatype),
            result: Some(Buffer::new(result, 1, datatype)),
            place: Place::new(rank, displacement, 1, datatype),
            op,
        };
        window::accumulate(s, w, &args)
    }
);

call!(
    MPI_Compare_and_swap,
    "compare_and_swap",
    (origin: In, compare: In, result: Out, datatype: usize, rank: c_int, displacement: isize),
    (),
    |s, w| {
        let place = Place::new(rank, displacement, 1, datatype);
        let buffers = [origin.cast_mut(), compare.cast_mut(), result];
        window::compare_and_swap(s, w, buffers, &place)
    }
);

/// Defines each operation in four forms: without and with a request, with counts of either type.
macro_rules! operations {
    ($($name:ident $large:ident, $requested:ident $requested_large:ident, $label:literal
       $arguments:tt |$session:ident, $entry:ident, $rank:ident| $call:expr;)*) => {
        /// Counts are `int`.
        mod int {
            use super::*;
            type Count = c_int;
            $(forms!($name, $requested, $label, $arguments, |$session, $entry, $rank| $call);)*
        }
        /// Counts are `MPI_Count`.
        mod large {
            use super::*;
            type Count = i64;
            $(forms!(
                $large for $name, $requested_large for $requested, $label, $arguments,
                |$session, $entry, $rank| $call
            );)*
        }
    };
}

macro_rules! forms {
    ($name:ident $(for $int:ident)?, $requested:ident $(for $requested_int:ident)?,
     $label:literal, $arguments:tt,
     |$session:ident, $entry:ident, $rank:ident| $call:expr) => {
        call!($name $(for $int)?, $label, $arguments, (), |$session, $entry| $call);
        call!($requested $(for $requested_int)?, $label, $arguments, (request: Out), |$session, $entry| {
            let outcome = $call;
            window::requested($session, $entry, $rank, request, outcome)
        });
    };
}

operations! {
    MPI_Put MPI_Put_c, MPI_Rput MPI_Rput_c, "put" (
        origin: In, origin_count: Count, origin_type: usize,
        rank: c_int, displacement: isize, count: Count, datatype: usize
    ) |s, w, rank| {
        let buffer = Buffer::new(origin, origin_count, origin_type);
        window::put(s, w, &buffer, &Place::new(rank, displacement, count, datatype))
    };

    MPI_Get MPI_Get_c, MPI_Rget MPI_Rget_c, "get" (
        origin: Out, origin_count: Count, origin_type: usize,
        rank: c_int, displacement: isize, count: Count, datatype: usize
    ) |s, w, rank| {
        let buffer = Buffer::new(origin, origin_count, origin_type);
        window::get(s, w, &buffer, &Place::new(rank, displacement, count, datatype))
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
