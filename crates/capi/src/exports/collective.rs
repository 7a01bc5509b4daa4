//! Collectives called from C.

use super::narrow::{Handler, Peers, Received, Sent};
use super::{export, export_both};
use crate::collective::{
    self, Allgather, Allgatherv, Allreduce, Alltoall, Alltoallv, Alltoallw, Args, Barrier, Bcast,
    Buffer, Collective, Entries, Exscan, Gather, Gatherv, NeighborAllgather, NeighborAllgatherv,
    NeighborAlltoall, NeighborAlltoallv, NeighborAlltoallw, Reduce, ReduceScatter,
    ReduceScatterBlock, Scan, Scatter, Scatterv, Table,
};
use crate::next::{MISSING, Next, call_next};
use libc::{c_int, c_void};
use std::ptr;

/// Runs a collective as a program calls it.
///
/// # Safety
/// As [`collective::run`].
#[inline(always)]
unsafe fn run<C: Collective>(args: &Args, forward: &impl Fn() -> c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { collective::run::<C>(args, forward) }
}

/// Displacements that are bytes in both forms of a call.
type Offsets = *const isize;

/// The ranks that arrays of counts have entries for.
fn peers<C: Collective>(args: &Args) -> Peers {
    match C::ENTRIES {
        Entries::All => Peers::All(args.comm),
        Entries::AtRoot => Peers::AtRoot(args.comm, args.root),
        Entries::Neighbours => Peers::Neighbours(args.comm),
    }
}

export!(MPI_Barrier(comm: usize), else MISSING, |forward| {
    let args = Args { comm, ..Args::NONE };
    // SAFETY: the program called the function with these arguments.
    unsafe { run::<Barrier>(&args, &forward) }
});

export!(MPI_Barrier_init(comm: usize, info: usize, request: *mut c_void), else MISSING, |forward| {
    static START: Next = Next::new("MPI_Ibarrier");
    let args = Args { comm, ..Args::NONE };
    let of_host = move |request: *mut c_void| {
        call_next!(START, (comm => usize, request => *mut c_void) -> c_int, else MISSING)
    };
    // SAFETY: the program called the function with these arguments.
    unsafe { collective::persist::<Barrier>(&args, request, &forward, of_host) }
});

export!(MPI_Ibarrier(comm: usize, request: *mut c_void), else MISSING, |forward| {
    let args = Args { comm, ..Args::NONE };
    let of_host = move |request: *mut c_void| {
        call_next!(NEXT, (comm => usize, request => *mut c_void) -> c_int, else MISSING)
    };
    // SAFETY: the program called the function with these arguments.
    unsafe { collective::start::<Barrier>(&args, request, &forward, of_host) }
});

/// Defines those that make persistent requests, which have an info and a request as well.
macro_rules! persistent {
    ($($kind:ident $start:ident $name:ident $start_large:ident $large:ident
       ($($arg:ident: $ty:ty),*) $args:expr;)*) => {
        mod persistent {
            use super::*;
            export_both! { $(
                $name $large ($($arg: $ty,)* info: usize, request: *mut c_void),
                peers::<$kind>(&$args), Handler::Started($args.comm), |forward| {
                    static START: Next = Next::new(match size_of::<Count>() == size_of::<i64>() {
                        true => stringify!($start_large),
                        false => stringify!($start),
                    });
                    let args: Args = $args;
                    let of_host = move |request: *mut c_void| {
                        call_next!(
                            START, ($($arg => $ty,)* request => *mut c_void) -> c_int, else MISSING
                        )
                    };
                    // SAFETY: the program called the function with these arguments.
                    unsafe { collective::persist::<$kind>(&args, request, &forward, of_host) }
                };
            )* }
        }
    };
}

/// Defines functions with the same arguments: which collectives they are, with their non-blocking and
/// persistent forms, and what the arguments mean to these.
macro_rules! entries {
    ($($($kind:ident $name:ident $large:ident $nonblocking:ident $nonblocking_large:ident
         $persistent:ident $persistent_large:ident),+:
       $arguments:tt $args:expr;)*) => {
        export_both! { $($(
            $name $large $arguments, peers::<$kind>(&$args), Handler::Comm($args.comm), |forward| {
                let args: Args = $args;
                // SAFETY: the program called the function with these arguments.
                unsafe { run::<$kind>(&args, &forward) }
            };
        )+)* }
        nonblocking! { $($(
            $kind $nonblocking $nonblocking_large $arguments $args;
        )+)* }
        persistent! { $($(
            $kind $nonblocking $persistent $nonblocking_large $persistent_large $arguments $args;
        )+)* }
    };
}

/// Defines the non-blocking forms, which have a request as well.
macro_rules! nonblocking {
    ($($kind:ident $name:ident $large:ident ($($arg:ident: $ty:ty),*) $args:expr;)*) => {
        mod nonblocking {
            use super::*;
            export_both! { $(
                $name $large ($($arg: $ty,)* request: *mut c_void),
                peers::<$kind>(&$args), Handler::Started($args.comm), |forward| {
                    let args: Args = $args;
                    let of_host = move |request: *mut c_void| {
                        call_next!(
                            NEXT, ($($arg => $ty,)* request => *mut c_void) -> c_int, else MISSING
                        )
                    };
                    // SAFETY: the program called the function with these arguments.
                    unsafe { collective::start::<$kind>(&args, request, &forward, of_host) }
                };
            )* }
        }
    };
}

entries! {
    Bcast MPI_Bcast MPI_Bcast_c MPI_Ibcast MPI_Ibcast_c MPI_Bcast_init MPI_Bcast_init_c: (
        buffer: *mut c_void, count: Count, datatype: usize, root: c_int, comm: usize
    ) Args {
        recv: Buffer::new(buffer, count, datatype),
        root,
        comm,
        ..Args::NONE
    };

    Gather MPI_Gather MPI_Gather_c MPI_Igather MPI_Igather_c MPI_Gather_init MPI_Gather_init_c,
    Scatter MPI_Scatter MPI_Scatter_c MPI_Iscatter MPI_Iscatter_c MPI_Scatter_init MPI_Scatter_init_c: (
        send: *const c_void, send_count: Count, send_type: usize,
        recv: *mut c_void, recv_count: Count, recv_type: usize, root: c_int, comm: usize
    ) Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, recv_count, recv_type),
        root,
        comm,
        ..Args::NONE
    };

    Allgather MPI_Allgather MPI_Allgather_c MPI_Iallgather MPI_Iallgather_c MPI_Allgather_init MPI_Allgather_init_c,
    Alltoall MPI_Alltoall MPI_Alltoall_c MPI_Ialltoall MPI_Ialltoall_c MPI_Alltoall_init MPI_Alltoall_init_c,
    NeighborAllgather MPI_Neighbor_allgather MPI_Neighbor_allgather_c MPI_Ineighbor_allgather MPI_Ineighbor_allgather_c MPI_Neighbor_allgather_init MPI_Neighbor_allgather_init_c,
    NeighborAlltoall MPI_Neighbor_alltoall MPI_Neighbor_alltoall_c MPI_Ineighbor_alltoall MPI_Ineighbor_alltoall_c MPI_Neighbor_alltoall_init MPI_Neighbor_alltoall_init_c: (
        send: *const c_void, send_count: Count, send_type: usize,
        recv: *mut c_void, recv_count: Count, recv_type: usize, comm: usize
    ) Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, recv_count, recv_type),
        comm,
        ..Args::NONE
    };

    Allgatherv MPI_Allgatherv MPI_Allgatherv_c MPI_Iallgatherv MPI_Iallgatherv_c MPI_Allgatherv_init MPI_Allgatherv_init_c,
    NeighborAllgatherv MPI_Neighbor_allgatherv MPI_Neighbor_allgatherv_c MPI_Ineighbor_allgatherv MPI_Ineighbor_allgatherv_c MPI_Neighbor_allgatherv_init MPI_Neighbor_allgatherv_init_c: (
        send: *const c_void, send_count: Count, send_type: usize,
        recv: *mut c_void, counts: Received<Count>, displacements: Received<Displacement>,
        recv_type: usize, comm: usize
    ) Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, 0, recv_type),
        recv_table: Table::new(counts.0, displacements.0),
        comm,
        ..Args::NONE
    };

    Gatherv MPI_Gatherv MPI_Gatherv_c MPI_Igatherv MPI_Igatherv_c MPI_Gatherv_init MPI_Gatherv_init_c: (
        send: *const c_void, send_count: Count, send_type: usize,
        recv: *mut c_void, counts: Received<Count>, displacements: Received<Displacement>,
        recv_type: usize, root: c_int, comm: usize
    ) Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, 0, recv_type),
        recv_table: Table::new(counts.0, displacements.0),
        root,
        comm,
        ..Args::NONE
    };

    Scatterv MPI_Scatterv MPI_Scatterv_c MPI_Iscatterv MPI_Iscatterv_c MPI_Scatterv_init MPI_Scatterv_init_c: (
        send: *const c_void, counts: Sent<Count>, displacements: Sent<Displacement>,
        send_type: usize, recv: *mut c_void, recv_count: Count, recv_type: usize,
        root: c_int, comm: usize
    ) Args {
        send: Buffer::new(send, 0, send_type),
        send_table: Table::new(counts.0, displacements.0),
        recv: Buffer::new(recv, recv_count, recv_type),
        root,
        comm,
        ..Args::NONE
    };

    Alltoallv MPI_Alltoallv MPI_Alltoallv_c MPI_Ialltoallv MPI_Ialltoallv_c MPI_Alltoallv_init MPI_Alltoallv_init_c,
    NeighborAlltoallv MPI_Neighbor_alltoallv MPI_Neighbor_alltoallv_c MPI_Ineighbor_alltoallv MPI_Ineighbor_alltoallv_c MPI_Neighbor_alltoallv_init MPI_Neighbor_alltoallv_init_c: (
        send: *const c_void, send_counts: Sent<Count>, send_displacements: Sent<Displacement>,
        send_type: usize, recv: *mut c_void, recv_counts: Received<Count>,
        recv_displacements: Received<Displacement>, recv_type: usize, comm: usize
    ) Args {
        send: Buffer::new(send, 0, send_type),
        send_table: Table::new(send_counts.0, send_displacements.0),
        recv: Buffer::new(recv, 0, recv_type),
        recv_table: Table::new(recv_counts.0, recv_displacements.0),
        comm,
        ..Args::NONE
    };

    Alltoallw MPI_Alltoallw MPI_Alltoallw_c MPI_Ialltoallw MPI_Ialltoallw_c MPI_Alltoallw_init MPI_Alltoallw_init_c: (
        send: *const c_void, send_counts: Sent<Count>, send_displacements: Sent<Displacement>,
        send_types: *const c_void, recv: *mut c_void, recv_counts: Received<Count>,
        recv_displacements: Received<Displacement>, recv_types: *const c_void, comm: usize
    ) Args {
        send: Buffer::new(send, 0, send_types as usize),
        send_table: Table::new(send_counts.0, send_displacements.0),
        recv: Buffer::new(recv, 0, recv_types as usize),
        recv_table: Table::new(recv_counts.0, recv_displacements.0),
        comm,
        ..Args::NONE
    };

    NeighborAlltoallw MPI_Neighbor_alltoallw MPI_Neighbor_alltoallw_c MPI_Ineighbor_alltoallw MPI_Ineighbor_alltoallw_c MPI_Neighbor_alltoallw_init MPI_Neighbor_alltoallw_init_c: (
        send: *const c_void, send_counts: Sent<Count>, send_displacements: Offsets,
        send_types: *const c_void, recv: *mut c_void, recv_counts: Received<Count>,
        recv_displacements: Offsets, recv_types: *const c_void, comm: usize
    ) Args {
        send: Buffer::new(send, 0, send_types as usize),
        send_table: Table::new(send_counts.0, send_displacements),
        recv: Buffer::new(recv, 0, recv_types as usize),
        recv_table: Table::new(recv_counts.0, recv_displacements),
        comm,
        ..Args::NONE
    };

    Allreduce MPI_Allreduce MPI_Allreduce_c MPI_Iallreduce MPI_Iallreduce_c MPI_Allreduce_init MPI_Allreduce_init_c,
    Scan MPI_Scan MPI_Scan_c MPI_Iscan MPI_Iscan_c MPI_Scan_init MPI_Scan_init_c,
    Exscan MPI_Exscan MPI_Exscan_c MPI_Iexscan MPI_Iexscan_c MPI_Exscan_init MPI_Exscan_init_c,
    ReduceScatterBlock MPI_Reduce_scatter_block MPI_Reduce_scatter_block_c MPI_Ireduce_scatter_block MPI_Ireduce_scatter_block_c MPI_Reduce_scatter_block_init MPI_Reduce_scatter_block_init_c: (
        send: *const c_void, recv: *mut c_void, count: Count, datatype: usize, op: usize,
        comm: usize
    ) Args {
        send: Buffer::new(send, count, datatype),
        recv: Buffer::new(recv, count, datatype),
        op,
        comm,
        ..Args::NONE
    };

    Reduce MPI_Reduce MPI_Reduce_c MPI_Ireduce MPI_Ireduce_c MPI_Reduce_init MPI_Reduce_init_c: (
        send: *const c_void, recv: *mut c_void, count: Count, datatype: usize, op: usize,
        root: c_int, comm: usize
    ) Args {
        send: Buffer::new(send, count, datatype),
        recv: Buffer::new(recv, count, datatype),
        op,
        root,
        comm,
        ..Args::NONE
    };

    ReduceScatter MPI_Reduce_scatter MPI_Reduce_scatter_c MPI_Ireduce_scatter MPI_Ireduce_scatter_c MPI_Reduce_scatter_init MPI_Reduce_scatter_init_c: (
        send: *const c_void, recv: *mut c_void, counts: Received<Count>, datatype: usize, op: usize,
        comm: usize
    ) Args {
        send: Buffer::new(send, 0, datatype),
        recv: Buffer::new(recv, 0, datatype),
        recv_table: Table::new(counts.0, ptr::null::<Displacement>()),
        op,
        comm,
        ..Args::NONE
    };
}
