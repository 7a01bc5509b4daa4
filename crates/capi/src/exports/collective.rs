//! Collectives called from C, in two forms: counts are `int`, or `MPI_Count` in names that end in
//! `_c` (MPI 4.0, section 19.2). Libraries older than MPI 4.0 have the first form only.

use crate::collective::{
    self, Allgather, Allgatherv, Allreduce, Alltoall, Alltoallv, Args, Barrier, Bcast, Buffer,
    Exscan, Gather, Gatherv, Reduce, ReduceScatter, ReduceScatterBlock, Scan, Scatter, Scatterv,
    Table,
};
use crate::next::{MISSING, Next, call_next};
use crate::panic_guard::guard;
use libc::{c_int, c_void};
use std::ptr;

/// Defines one `MPI_*` function: its arguments, and what these are to which collective.
macro_rules! entry {
    ($name:ident, ($($arg:ident: $ty:ty),*), $kind:ty, $args:expr) => {
        /// As the standard defines it.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
            static NEXT: Next = Next::new(stringify!($name));
            let args: Args = $args;
            guard(Some(args.comm), || {
                let forward = || call_next!(NEXT, ($($arg => $ty),*) -> c_int, else MISSING);
                // SAFETY: the program called the function with these arguments.
                unsafe { collective::run::<$kind>(&args, &forward) }
            })
        }
    };
}

entry!(MPI_Barrier, (comm: usize), Barrier, Args { comm, ..Args::NONE });

/// Defines both forms of functions that have counts, which are of type `Count` below;
/// displacements are of type `Displacement`.
macro_rules! entries {
    ($($name:ident $large:ident $arguments:tt is $kind:ty: $args:expr;)*) => {
        /// Counts are `int`.
        mod int {
            use super::*;
            type Count = c_int;
            type Displacement = c_int;
            $(entry!($name, $arguments, $kind, $args);)*
        }
        /// Counts are `MPI_Count`.
        mod large {
            use super::*;
            type Count = i64;
            type Displacement = isize;
            $(entry!($large, $arguments, $kind, $args);)*
        }
    };
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
        recv: *mut c_void, counts: *const Count, displacements: *const Displacement,
        recv_type: usize, comm: usize
    ) is Allgatherv: Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, 0, recv_type),
        recv_table: Table::new(counts, displacements),
        comm,
        ..Args::NONE
    };

    MPI_Gatherv MPI_Gatherv_c (
        send: *const c_void, send_count: Count, send_type: usize,
        recv: *mut c_void, counts: *const Count, displacements: *const Displacement,
        recv_type: usize, root: c_int, comm: usize
    ) is Gatherv: Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, 0, recv_type),
        recv_table: Table::new(counts, displacements),
        root,
        comm,
        ..Args::NONE
    };

    MPI_Scatterv MPI_Scatterv_c (
        send: *const c_void, counts: *const Count, displacements: *const Displacement,
        send_type: usize, recv: *mut c_void, recv_count: Count, recv_type: usize,
        root: c_int, comm: usize
    ) is Scatterv: Args {
        send: Buffer::new(send, 0, send_type),
        send_table: Table::new(counts, displacements),
        recv: Buffer::new(recv, recv_count, recv_type),
        root,
        comm,
        ..Args::NONE
    };

    MPI_Alltoallv MPI_Alltoallv_c (
        send: *const c_void, send_counts: *const Count, send_displacements: *const Displacement,
        send_type: usize, recv: *mut c_void, recv_counts: *const Count,
        recv_displacements: *const Displacement, recv_type: usize, comm: usize
    ) is Alltoallv: Args {
        send: Buffer::new(send, 0, send_type),
        send_table: Table::new(send_counts, send_displacements),
        recv: Buffer::new(recv, 0, recv_type),
        recv_table: Table::new(recv_counts, recv_displacements),
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
        send: *const c_void, recv: *mut c_void, counts: *const Count, datatype: usize, op: usize,
        comm: usize
    ) is ReduceScatter: Args {
        send: Buffer::new(send, 0, datatype),
        recv: Buffer::new(recv, 0, datatype),
        recv_table: Table::new(counts, ptr::null::<Displacement>()),
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
