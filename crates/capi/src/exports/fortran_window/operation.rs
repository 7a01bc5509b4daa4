//! Operations (MPI 4.1, section 12.3).

use super::{Aint, In, Int, Out, routines};
use crate::window::{self, Accumulate};
use libc::c_int;

routines! {
    (origin: In, origin_count: Int, origin_type: Int, rank: Int, displacement: Aint, count: Int, datatype: Int, win: Int) |t, forward| window::run("put", t.win(win), forward, |s, w| window::put(
            s,
            w,
            &t.buffer(origin, origin_count, origin_type),
            &t.place(rank, displacement, count, datatype),
        ))
    , as mpi_put mpi_put_ mpi_put__ MPI_PUT; mpi_put_f08_;

    (origin: In, origin_count: Int, origin_type: Int, rank: Int, displacement: Aint, count: Int, datatype: Int, win: Int, request: *mut c_int) |t, forward| t.made_request(request, |request| {
        window::run("put", t.win(win), forward, |s, w| {
            let outcome = window::put(
            s,
            w,
            &t.buffer(origin, origin_count, origin_type),
            &t.place(rank, displacement, count, datatype),
        );
            window::requested(s, w, *rank, request, outcome)
        })
    })
    , as mpi_rput mpi_rput_ mpi_rput__ MPI_RPUT; mpi_rput_f08_;

    (origin: Out, origin_count: Int, origin_type: Int, rank: Int, displacement: Aint, count: Int, datatype: Int, win: Int) |t, forward| window::run("get", t.win(win), forward, |s, w| window::get(
            s,
            w,
            &t.buffer(origin, origin_count, origin_type),
            &t.place(rank, displacement, count, datatype),
        ))
    , as mpi_get mpi_get_ mpi_get__ MPI_GET; mpi_get_f08_;

    (origin: Out, origin_count: Int, origin_type: Int, rank: Int, displacement: Aint, count: Int, datatype: Int, win: Int, request: *mut c_int) |t, forward| t.made_request(request, |request| {
        window::run("get", t.win(win), forward, |s, w| {
            let outcome = window::get(
            s,
            w,
            &t.buffer(origin, origin_count, origin_type),
            &t.place(rank, displacement, count, datatype),
        );
            window::requested(s, w, *rank, request, outcome)
        })
    })
    , as mpi_rget mpi_rget_ mpi_rget__ MPI_RGET; mpi_rget_f08_;

    (origin: In, origin_count: Int, origin_type: Int, rank: Int, displacement: Aint, count: Int, datatype: Int, op: Int, win: Int) |t, forward| window::run("accumulate", t.win(win), forward, |s, w| window::accumulate(s, w, &Accumulate {
            origin: t.buffer(origin, origin_count, origin_type),
            result: None,
            place: t.place(rank, displacement, count, datatype),
            op: t.op(op),
        }))
    , as mpi_accumulate mpi_accumulate_ mpi_accumulate__ MPI_ACCUMULATE; mpi_accumulate_f08_;

    (origin: In, origin_count: Int, origin_type: Int, rank: Int, displacement: Aint, count: Int, datatype: Int, op: Int, win: Int, request: *mut c_int) |t, forward| t.made_request(request, |request| {
        window::run("accumulate", t.win(win), forward, |s, w| {
            let outcome = window::accumulate(s, w, &Accumulate {
            origin: t.buffer(origin, origin_count, origin_type),
            result: None,
            place: t.place(rank, displacement, count, datatype),
            op: t.op(op),
        });
            window::requested(s, w, *rank, request, outcome)
        })
    })
    , as mpi_raccumulate mpi_raccumulate_ mpi_raccumulate__ MPI_RACCUMULATE; mpi_raccumulate_f08_;

    (origin: In, origin_count: Int, origin_type: Int, result: Out, result_count: Int, result_type: Int, rank: Int, displacement: Aint, count: Int, datatype: Int, op: Int, win: Int) |t, forward| window::run("get_accumulate", t.win(win), forward, |s, w| window::accumulate(s, w, &Accumulate {
            origin: t.buffer(origin, origin_count, origin_type),
            result: Some(t.buffer(result, result_count, result_type)),
            place: t.place(rank, displacement, count, datatype),
            op: t.op(op),
        }))
    , as mpi_get_accumulate mpi_get_accumulate_ mpi_get_accumulate__ MPI_GET_ACCUMULATE; mpi_get_accumulate_f08_;

    (origin: In, origin_count: Int, origin_type: Int, result: Out, result_count: Int, result_type: Int, rank: Int, displacement: Aint, count: Int, datatype: Int, op: Int, win: Int, request: *mut c_int) |t, forward| t.made_request(request, |request| {
        window::run("get_accumulate", t.win(win), forward, |s, w| {
            let outcome = window::accumulate(s, w, &Accumulate {
            origin: t.buffer(origin, origin_count, origin_type),
            result: Some(t.buffer(result, result_count, result_type)),
            place: t.place(rank, displacement, count, datatype),
            op: t.op(op),
        });
            window::requested(s, w, *rank, request, outcome)
        })
    })
    , as mpi_rget_accumulate mpi_rget_accumulate_ mpi_rget_accumulate__ MPI_RGET_ACCUMULATE; mpi_rget_accumulate_f08_;

    (origin: In, result: Out, datatype: Int, rank: Int, displacement: Aint, op: Int, win: Int) |t, forward| window::run("fetch_and_op", t.win(win), forward, |s, w| window::accumulate(s, w, &Accumulate {
            origin: t.buffer(origin, &1, datatype),
            result: Some(t.buffer(result, &1, datatype)),
            place: t.place(rank, displacement, &1, datatype),
            op: t.op(op),
        }))
    , as mpi_fetch_and_op mpi_fetch_and_op_ mpi_fetch_and_op__ MPI_FETCH_AND_OP; mpi_fetch_and_op_f08_;

    (origin: In, compare: In, result: Out, datatype: Int, rank: Int, displacement: Aint, win: Int) |t, forward| window::run("compare_and_swap", t.win(win), forward, |s, w| {
        let buffers = [t.address(origin), t.address(compare), t.address(result)];
        window::compare_and_swap(s, w, buffers, &t.place(rank, displacement, &1, datatype))
    })
    , as mpi_compare_and_swap mpi_compare_and_swap_ mpi_compare_and_swap__ MPI_COMPARE_AND_SWAP; mpi_compare_and_swap_f08_;
}
