//! Collectives called from C, in two forms: counts are `int`, or `MPI_Count` in names that end in
//! `_c` (MPI 4.0, section 19.2). Libraries older than MPI 4.0 have the first form only.

use super::export;
use super::narrow::{Handler, Peers, Received, Sent, call_narrowed};
use crate::collective::{
    self, Allgather, Allgatherv, Allreduce, Alltoall, Alltoallv, Args, Barrier, Bcast, Buffer,
    Collective, Exscan, Gather, Gatherv, Reduce, ReduceScatter, ReduceScatterBlock, Scan, Scatter,
    Scatterv, Table,
};
use crate::next::MISSING;
use crate::panic_guard::guard;
use libc::{c_int, c_void};
use std::ptr;

export!(MPI_Barrier(comm: usize), else MISSING, |forward| {
    let args = Args { comm, ..Args::NONE };
    // SAFETY: the program called the function with these arguments.
    guard(Some(comm), || unsafe { collective::run::<Barrier>(&args, &forward) })
});

/// Defines both forms of functions that have counts, which are of type `Count` below;
/// displacements are of type `Displacement`.
macro_rules! entries {
    ($($name:ident $large:ident $arguments:tt is $kind:ty: $args:expr;)*) => {
        /// Counts are `int`.
        mod int {
            use super::*;
            type Count = c_int;
            type Displacement = c_int;
            $(entry!($name $arguments, else MISSING, $kind, $args);)*
        }
        /// Counts are `MPI_Count`.
        mod large {
            use super::*;
            type Count = i64;
            type Displacement = isize;
            $(entry!($large $arguments, else narrowed!($name $arguments, $kind, $args), $kind, $args);)*
        }
    };
}

/// Defines one function: its arguments, and what these are to which collective.
macro_rules! entry {
    ($name:ident $arguments:tt, else $missing:expr, $kind:ty, $args:expr) => {
        export!($name $arguments, else $missing, |forward| {
            let args: Args = $args;
            guard(Some(args.comm), || {
                // SAFETY: the program called the function with these arguments.
                unsafe { collective::run::<$kind>(&args, &forward) }
            })
        });
    };
}

/// Calls the form with `int`.
macro_rules! narrowed {
    ($name:ident $arguments:tt, $kind:ty, $args:expr) => {{
        let args: Args = $args;
        let peers = match <$kind as Collective>::AT_ROOT {
            true => Peers::AtRoot(args.comm, args.root),
            false => Peers::All(args.comm),
        };
        call_narrowed!($name, $arguments, peers, Handler::Comm(args.comm))
    }};
}

entries! {
    MPI_Bcast MPI_Bcast_c (
        buffer: *mut c_void, count: Count, datatype: usize, root: c_int, comm: usize
    ) is Bcast: Args {
        recv: Buffer::new(buffer, count, datatype),
        root,
        comm,
        ..Args::NONE
    };

    MPI_Gather MPI_Gather_c (
        send: *const c_void, send_count: Count, send_type: usize,
        recv: *mut c_void, recv_count: Count, recv_type: usize, root: c_int, comm: usize
    ) is Gather: Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, recv_count, recv_type),
        root,
        comm,
        ..Args::NONE
    };

    MPI_Scatter MPI_Scatter_c (
        send: *const c_void, send_count: Count, send_type: usize,
        recv: *mut c_void, recv_count: Count, recv_type: usize, root: c_int, comm: usize
    ) is Scatter: Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, recv_count, recv_type),
        root,
        comm,
        ..Args::NONE
    };

    MPI_Allgather MPI_Allgather_c (
        send: *const c_void, send_count: Count, send_type: usize,
        recv: *mut c_void, recv_count: Count, recv_type: usize, comm: usize
    ) is Allgather: Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, recv_count, recv_type),
        comm,
        ..Args::NONE
    };

    MPI_Alltoall MPI_Alltoall_c (
        send: *const c_void, send_count: Count, send_type: usize,
        recv: *mut c_void, recv_count: Count, recv_type: usize, comm: usize
    ) is Alltoall: Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, recv_count, recv_type),
        comm,
        ..Args::NONE
    };

    MPI_Allgatherv MPI_Allgatherv_c (
        send: *const c_void, send_count: Count, send_type: usize,
        recv: *mut c_void, counts: Received<Count>, displacements: Received<Displacement>,
        recv_type: usize, comm: usize
    ) is Allgatherv: Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, 0, recv_type),
        recv_table: Table::new(counts.first(), displacements.first()),
        comm,
        ..Args::NONE
    };

    MPI_Gatherv MPI_Gatherv_c (
        send: *const c_void, send_count: Count, send_type: usize,
        recv: *mut c_void, counts: Received<Count>, displacements: Received<Displacement>,
        recv_type: usize, root: c_int, comm: usize
    ) is Gatherv: Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, 0, recv_type),
        recv_table: Table::new(counts.first(), displacements.first()),
        root,
        comm,
        ..Args::NONE
    };

    MPI_Scatterv MPI_Scatterv_c (
        send: *const c_void, counts: Sent<Count>, displacements: Sent<Displacement>,
        send_type: usize, recv: *mut c_void, recv_count: Count, recv_type: usize,
        root: c_int, comm: usize
    ) is Scatterv: Args {
        send: Buffer::new(send, 0, send_type),
        send_table: Table::new(counts.first(), displacements.first()),
        recv: Buffer::new(recv, recv_count, recv_type),
        root,
        comm,
        ..Args::NONE
    };

    MPI_Alltoallv MPI_Alltoallv_c (
        send: *const c_void, send_counts: Sent<Count>, send_displacements: Sent<Displacement>,
        send_type: usize, recv: *mut c_void, recv_counts: Received<Count>,
        recv_displacements: Received<Displacement>, recv_type: usize, comm: usize
    ) is Alltoallv: Args {
        send: Buffer::new(send, 0, send_type),
        send_table: Table::new(send_counts.first(), send_displacements.first()),
        recv: Buffer::new(recv, 0, recv_type),
        recv_table: Table::new(recv_counts.first(), recv_displacements.first()),
        comm,
        ..Args::NONE
    };

    MPI_Allreduce MPI_Allreduce_c (
        send: *const c_void, recv: *mut c_void, count: Count, datatype: usize, op: usize,
        comm: usize
    ) is Allreduce: Args {
        send: Buffer::new(send, count, datatype),
        recv: Buffer::new(recv, count, datatype),
        op,
        comm,
        ..Args::NONE
    };

    MPI_Reduce MPI_Reduce_c (
        send: *const c_void, recv: *mut c_void, count: Count, datatype: usize, op: usize,
        root: c_int, comm: usize
    ) is Reduce: Args {
        send: Buffer::new(send, count, datatype),
        recv: Buffer::new(recv, count, datatype),
        op,
        root,
        comm,
        ..Args::NONE
    };

    MPI_Reduce_scatter_block MPI_Reduce_scatter_block_c (
        send: *const c_void, recv: *mut c_void, count: Count, datatype: usize, op: usize,
        comm: usize
    ) is ReduceScatterBlock: Args {
        send: Buffer::new(send, count, datatype),
        recv: Buffer::new(recv, count, datatype),
        op,
        comm,
        ..Args::NONE
    };

    MPI_Reduce_scatter MPI_Reduce_scatter_c (
        send: *const c_void, recv: *mut c_void, counts: Received<Count>, datatype: usize, op: usize,
        comm: usize
    ) is ReduceScatter: Args {
        send: Buffer::new(send, 0, datatype),
        recv: Buffer::new(recv, 0, datatype),
        recv_table: Table::new(counts.first(), ptr::null::<Displacement>()),
        op,
        comm,
        ..Args::NONE
    };

    MPI_Scan MPI_Scan_c (
        send: *const c_void, recv: *mut c_void, count: Count, datatype: usize, op: usize,
        comm: usize
    ) is Scan: Args {
        send: Buffer::new(send, count, datatype),
        recv: Buffer::new(recv, count, datatype),
        op,
        comm,
        ..Args::NONE
    };

    MPI_Exscan MPI_Exscan_c (
        send: *const c_void, recv: *mut c_void, count: Count, datatype: usize, op: usize,
        comm: usize
    ) is Exscan: Args {
        send: Buffer::new(send, count, datatype),
        recv: Buffer::new(recv, count, datatype),
        op,
        comm,
        ..Args::NONE
    };
}
