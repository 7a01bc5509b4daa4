//! Operations (MPI 4.1, section 12.3).

use super::{Aint, In, Int, Out, routines};
use crate::window::{self, Accumulate};
use libc::c_int;

/// Defines each operation without and with a request; the last spelling of either is that of `mpi_f08`.
macro_rules! operations {
    ($($label:literal ($($arg:ident: $ty:ty),*)
       |$t:ident, $session:ident, $entry:ident, $rank:ident| $call:expr,
       as $($name:ident)*; $f08:ident, $($requested:ident)*; $requested_f08:ident;)*) => {
        routines! {$(
            ($($arg: $ty,)* win: Int) |$t, forward| {
                window::run($label, $t.win(win), forward, |$session, $entry| $call)
            }, as $($name)*; $f08;

            ($($arg: $ty,)* win: Int, request: *mut c_int) |$t, forward| {
                $t.made_request(request, |request| {
                    window::run($label, $t.win(win), forward, |$session, $entry| {
                        let outcome = $call;
                        window::requested($session, $entry, *$rank, request, outcome)
                    })
                })
            }, as $($requested)*; $requested_f08;
        )*}
    };
}

operations! {
    "put" (
        origin: In, origin_count: Int, origin_type: Int,
        rank: Int, displacement: Aint, count: Int, datatype: Int
    ) |t, s, w, rank| {
        let buffer = t.buffer(origin, origin_count, origin_type);
        window::put(s, w, &buffer, &t.place(rank, displacement, count, datatype))
    }, as mpi_put mpi_put_ mpi_put__ MPI_PUT; mpi_put_f08_,
        mpi_rput mpi_rput_ mpi_rput__ MPI_RPUT; mpi_rput_f08_;

    "get" (
        origin: Out, origin_count: Int, origin_type: Int,
        rank: Int, displacement: Aint, count: Int, datatype: Int
    ) |t, s, w, rank| {
        let buffer = t.buffer(origin, origin_count, origin_type);
        window::get(s, w, &buffer, &t.place(rank, displacement, count, datatype))
    }, as mpi_get mpi_get_ mpi_get__ MPI_GET; mpi_get_f08_,
        mpi_rget mpi_rget_ mpi_rget__ MPI_RGET; mpi_rget_f08_;

    "accumulate" (
        origin: In, origin_count: Int, origin_type: Int,
        rank: Int, displacement: Aint, count: Int, datatype: Int, op: Int
    ) |t, s, w, rank| {
        let args = Accumulate {
            origin: t.buffer(origin, origin_count, origin_type),
            result: None,
            place: t.place(rank, displacement, count, datatype),
            op: t.op(op),
        };
        window::accumulate(s, w, &args)
    }, as mpi_accumulate mpi_accumulate_ mpi_accumulate__ MPI_ACCUMULATE; mpi_accumulate_f08_,
        mpi_raccumulate mpi_raccumulate_ mpi_raccumulate__ MPI_RACCUMULATE; mpi_raccumulate_f08_;

    "get_accumulate" (
        origin: In, origin_count: Int, origin_type: Int,
        result: Out, result_count: Int, result_type: Int,
        rank: Int, displacement: Aint, count: Int, datatype: Int, op: Int
    ) |t, s, w, rank| {
        let args = Accumulate {
            origin: t.buffer(origin, origin_count, origin_type),
            result: Some(t.buffer(result, result_count, result_type)),
            place: t.place(rank, displacement, count, datatype),
            op: t.op(op),
        };
        window::accumulate(s, w, &args)
    }, as mpi_get_accumulate mpi_get_accumulate_ mpi_get_accumulate__ MPI_GET_ACCUMULATE;
        mpi_get_accumulate_f08_,
        mpi_rget_accumulate mpi_rget_accumulate_ mpi_rget_accumulate__ MPI_RGET_ACCUMULATE;
        mpi_rget_accumulate_f08_;
}

routines! {
    (origin: In, result: Out, datatype: Int, rank: Int, displacement: Aint, op: Int, win: Int)
    |t, forward| window::run("fetch_and_op", t.win(win), forward, |s, w| {
        let args = Accumulate {
            origin: t.buffer(origin, &1, datatype),
            result: Some(t.buffer(result, &1, datatype)),
            place: t.place(rank, displacement, &1, datatype),
            op: t.op(op),
        };
        window::accumulate(s, w, &args)
    }), as mpi_fetch_and_op mpi_fetch_and_op_ mpi_fetch_and_op__ MPI_FETCH_AND_OP;
        mpi_fetch_and_op_f08_;

    (origin: In, compare: In, result: Out, datatype: Int, rank: Int, displacement: Aint, win: Int)
    |t, forward| window::run("compare_and_swap", t.win(win), forward, |s, w| {
        let buffers = [t.address(origin), t.address(compare), t.address(result)];
        window::compare_and_swap(s, w, buffers, &t.place(rank, displacement, &1, datatype))
    }), as mpi_compare_and_swap mpi_compare_and_swap_ mpi_compare_and_swap__ MPI_COMPARE_AND_SWAP;
        mpi_compare_and_swap_f08_;
}
