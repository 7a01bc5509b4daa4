//! Fortran entry points, in the four spellings that compilers make of a name.
//!
//! Open MPI's own call `PMPI_*`, so calls must be taken here; MPICH's call `MPI_*`, so they are
//! taken in C and only passed on here. What is not accelerated goes to the next library's routine
//! of the same spelling, which understands its own sentinels. `mpi_f08` passes handles as structures
//! of one integer by address, like `mpif.h` does integers; its `ierror` may be absent (null).

use crate::collective::{
    self, Allgather, Allgatherv, Allreduce, Alltoall, Alltoallv, Args, Barrier, Bcast, Buffer,
    Collective, Exscan, Gather, Gatherv, Reduce, ReduceScatter, ReduceScatterBlock, Scan, Scatter,
    Scatterv, Table,
};
use crate::next::{MISSING, Next, call_next};
use crate::panic_guard::guard;
use crate::runtime::after_init;
use libc::{c_int, c_void};
use std::ptr;

type Int = *const c_int;
type Error = *mut c_int;

/// # Safety
/// `args` reads a Fortran program's arguments; handles are Fortran's. `error` is its `ierror`.
unsafe fn call<C: Collective>(
    args: impl FnOnce() -> Args,
    forward: impl Fn() -> c_int,
    error: Error,
) {
    let code = guard(None, || match args().translated() {
        // SAFETY: the arguments are those of the program's call.
        Some(args) => unsafe { collective::run::<C>(&args, &forward) },
        None => forward(),
    });
    if !error.is_null() {
        // SAFETY: present, hence the address of an integer.
        unsafe { *error = code };
    }
}

/// # Safety
/// The addresses of a Fortran program's count and datatype.
unsafe fn buffer(address: *const c_void, count: Int, datatype: Int) -> Buffer {
    // SAFETY: Fortran passes valid addresses of integers, significant or not.
    unsafe { Buffer::new(address, *count, *datatype as usize) }
}

/// One spelling of a collective's name.
macro_rules! entry {
    ($name:ident, ($($arg:ident: $ty:ty),*), $kind:ty, $args:expr) => {
        /// A collective called from Fortran.
        ///
        /// # Safety
        /// As in Fortran.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "one spelling of many")]
        pub unsafe extern "C" fn $name($($arg: $ty,)* error: Error) {
            static NEXT: Next = Next::new(stringify!($name));
            // SAFETY: the program's own arguments.
            let args = || unsafe { $args };
            let forward = || {
                let mut code = 0;
                let to: Error = &mut code;
                call_next!(
                    NEXT,
                    ($($arg => $ty,)* to => Error) -> (),
                    else code = MISSING
                );
                code
            };
            // SAFETY: the program's own arguments.
            unsafe { call::<$kind>(args, forward, error) }
        }
    };
}

/// Defines all spellings of collectives: their arguments, and what these are to which collective.
macro_rules! entries {
    ($($arguments:tt is $kind:ty: $args:expr, as $($names:ident)*;)*) => {$(
        spellings!($arguments, $kind, $args, $($names)*);
    )*};
}

macro_rules! spellings {
    ($arguments:tt, $kind:ty, $args:expr, $($name:ident)*) => {
        $(entry!($name, $arguments, $kind, $args);)*
    };
}

entries! {
    (comm: Int) is Barrier: Args { comm: *comm as usize, ..Args::NONE },
    as mpi_barrier mpi_barrier_ mpi_barrier__ MPI_BARRIER mpi_barrier_f08_;

    (address: *mut c_void, count: Int, datatype: Int, root: Int, comm: Int) is Bcast: Args {
        recv: buffer(address, count, datatype),
        root: *root,
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_bcast mpi_bcast_ mpi_bcast__ MPI_BCAST mpi_bcast_f08_;

    (
        send: *const c_void, send_count: Int, send_type: Int,
        recv: *mut c_void, recv_count: Int, recv_type: Int, root: Int, comm: Int
    ) is Gather: Args {
        send: buffer(send, send_count, send_type),
        recv: buffer(recv, recv_count, recv_type),
        root: *root,
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_gather mpi_gather_ mpi_gather__ MPI_GATHER mpi_gather_f08_;

    (
        send: *const c_void, send_count: Int, send_type: Int,
        recv: *mut c_void, recv_count: Int, recv_type: Int, root: Int, comm: Int
    ) is Scatter: Args {
        send: buffer(send, send_count, send_type),
        recv: buffer(recv, recv_count, recv_type),
        root: *root,
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_scatter mpi_scatter_ mpi_scatter__ MPI_SCATTER mpi_scatter_f08_;

    (
        send: *const c_void, send_count: Int, send_type: Int,
        recv: *mut c_void, recv_count: Int, recv_type: Int, comm: Int
    ) is Allgather: Args {
        send: buffer(send, send_count, send_type),
        recv: buffer(recv, recv_count, recv_type),
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_allgather mpi_allgather_ mpi_allgather__ MPI_ALLGATHER mpi_allgather_f08_;

    (
        send: *const c_void, send_count: Int, send_type: Int,
        recv: *mut c_void, recv_count: Int, recv_type: Int, comm: Int
    ) is Alltoall: Args {
        send: buffer(send, send_count, send_type),
        recv: buffer(recv, recv_count, recv_type),
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_alltoall mpi_alltoall_ mpi_alltoall__ MPI_ALLTOALL mpi_alltoall_f08_;

    (
        send: *const c_void, send_count: Int, send_type: Int,
        recv: *mut c_void, counts: Int, displacements: Int, recv_type: Int, comm: Int
    ) is Allgatherv: Args {
        send: buffer(send, send_count, send_type),
        recv: buffer(recv, &0, recv_type),
        recv_table: Table::new(counts, displacements),
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_allgatherv mpi_allgatherv_ mpi_allgatherv__ MPI_ALLGATHERV mpi_allgatherv_f08_;

    (
        send: *const c_void, send_count: Int, send_type: Int,
        recv: *mut c_void, counts: Int, displacements: Int, recv_type: Int, root: Int, comm: Int
    ) is Gatherv: Args {
        send: buffer(send, send_count, send_type),
        recv: buffer(recv, &0, recv_type),
        recv_table: Table::new(counts, displacements),
        root: *root,
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_gatherv mpi_gatherv_ mpi_gatherv__ MPI_GATHERV mpi_gatherv_f08_;

    (
        send: *const c_void, counts: Int, displacements: Int, send_type: Int,
        recv: *mut c_void, recv_count: Int, recv_type: Int, root: Int, comm: Int
    ) is Scatterv: Args {
        send: buffer(send, &0, send_type),
        send_table: Table::new(counts, displacements),
        recv: buffer(recv, recv_count, recv_type),
        root: *root,
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_scatterv mpi_scatterv_ mpi_scatterv__ MPI_SCATTERV mpi_scatterv_f08_;

    (
        send: *const c_void, send_counts: Int, send_displacements: Int, send_type: Int,
        recv: *mut c_void, recv_counts: Int, recv_displacements: Int, recv_type: Int, comm: Int
    ) is Alltoallv: Args {
        send: buffer(send, &0, send_type),
        send_table: Table::new(send_counts, send_displacements),
        recv: buffer(recv, &0, recv_type),
        recv_table: Table::new(recv_counts, recv_displacements),
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_alltoallv mpi_alltoallv_ mpi_alltoallv__ MPI_ALLTOALLV mpi_alltoallv_f08_;

    (
        send: *const c_void, recv: *mut c_void, count: Int, datatype: Int, op: Int, comm: Int
    ) is Allreduce: Args {
        send: buffer(send, count, datatype),
        recv: buffer(recv, count, datatype),
        op: *op as usize,
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_allreduce mpi_allreduce_ mpi_allreduce__ MPI_ALLREDUCE mpi_allreduce_f08_;

    (
        send: *const c_void, recv: *mut c_void, count: Int, datatype: Int, op: Int, root: Int, comm: Int
    ) is Reduce: Args {
        send: buffer(send, count, datatype),
        recv: buffer(recv, count, datatype),
        op: *op as usize,
        root: *root,
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_reduce mpi_reduce_ mpi_reduce__ MPI_REDUCE mpi_reduce_f08_;

    (
        send: *const c_void, recv: *mut c_void, count: Int, datatype: Int, op: Int, comm: Int
    ) is ReduceScatterBlock: Args {
        send: buffer(send, count, datatype),
        recv: buffer(recv, count, datatype),
        op: *op as usize,
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_reduce_scatter_block mpi_reduce_scatter_block_ mpi_reduce_scatter_block__ MPI_REDUCE_SCATTER_BLOCK mpi_reduce_scatter_block_f08_;

    (
        send: *const c_void, recv: *mut c_void, counts: Int, datatype: Int, op: Int, comm: Int
    ) is ReduceScatter: Args {
        send: buffer(send, &0, datatype),
        recv: buffer(recv, &0, datatype),
        recv_table: Table::new(counts, ptr::null::<c_int>()),
        op: *op as usize,
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_reduce_scatter mpi_reduce_scatter_ mpi_reduce_scatter__ MPI_REDUCE_SCATTER
       mpi_reduce_scatter_f08_;

    (
        send: *const c_void, recv: *mut c_void, count: Int, datatype: Int, op: Int, comm: Int
    ) is Scan: Args {
        send: buffer(send, count, datatype),
        recv: buffer(recv, count, datatype),
        op: *op as usize,
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_scan mpi_scan_ mpi_scan__ MPI_SCAN mpi_scan_f08_;

    (
        send: *const c_void, recv: *mut c_void, count: Int, datatype: Int, op: Int, comm: Int
    ) is Exscan: Args {
        send: buffer(send, count, datatype),
        recv: buffer(recv, count, datatype),
        op: *op as usize,
        comm: *comm as usize,
        ..Args::NONE
    },
    as mpi_exscan mpi_exscan_ mpi_exscan__ MPI_EXSCAN mpi_exscan_f08_;
}

macro_rules! inits {
    ($($name:ident)*) => {$(
        /// Start of MPI called from Fortran.
        ///
        /// # Safety
        /// As in Fortran.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "one spelling of many")]
        pub unsafe extern "C" fn $name(error: Error) {
            static NEXT: Next = Next::new(stringify!($name));
            guard(None, || {
                call_next!(NEXT, (error => Error) -> (), else return MISSING);
                after_init();
                0
            });
        }
    )*};
}

inits! { mpi_init mpi_init_ mpi_init__ MPI_INIT mpi_init_f08_ }

macro_rules! thread_inits {
    ($($name:ident)*) => {$(
        /// Start of MPI with threads called from Fortran.
        ///
        /// # Safety
        /// As in Fortran.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "one spelling of many")]
        pub unsafe extern "C" fn $name(required: Int, provided: Error, error: Error) {
            static NEXT: Next = Next::new(stringify!($name));
            guard(None, || {
                call_next!(
                    NEXT,
                    (required => Int, provided => Error, error => Error) -> (),
                    else return MISSING
                );
                after_init();
                0
            });
        }
    )*};
}

thread_inits! {
    mpi_init_thread mpi_init_thread_ mpi_init_thread__ MPI_INIT_THREAD mpi_init_thread_f08_
}
