//! Collectives that are left to the host and counted: the neighbourhood collectives (MPI 4.1, section 8.6).

use super::export_both;
use super::narrow::{Handler, Peers, Received, Sent};
use crate::collective;
use libc::c_void;

type Pointer = *const c_void;

/// Both forms of each collective; arguments are those before the communicator.
macro_rules! forwarded {
    ($($label:literal: $name:ident $large:ident ($($arg:ident: $ty:ty),*);)*) => {
        export_both! { $(
            $name $large ($($arg: $ty,)* comm: usize), Peers::Neighbours(comm), Handler::Comm(comm),
            |forward| collective::count_and_forward($label, comm, forward);
        )* }
    };
}

forwarded! {
    "neighbor_allgather": MPI_Neighbor_allgather MPI_Neighbor_allgather_c (
        send: Pointer, send_count: Count, send_type: usize, recv: Pointer, recv_count: Count,
        recv_type: usize
    );

    "neighbor_allgatherv": MPI_Neighbor_allgatherv MPI_Neighbor_allgatherv_c (
        send: Pointer, send_count: Count, send_type: usize, recv: Pointer,
        recv_counts: Received<Count>, displacements: Received<Displacement>, recv_type: usize
    );

    "neighbor_alltoall": MPI_Neighbor_alltoall MPI_Neighbor_alltoall_c (
        send: Pointer, send_count: Count, send_type: usize, recv: Pointer, recv_count: Count,
        recv_type: usize
    );

    "neighbor_alltoallv": MPI_Neighbor_alltoallv MPI_Neighbor_alltoallv_c (
        send: Pointer, send_counts: Sent<Count>, send_displacements: Sent<Displacement>,
        send_type: usize, recv: Pointer, recv_counts: Received<Count>,
        recv_displacements: Received<Displacement>, recv_type: usize
    );

    "neighbor_alltoallw": MPI_Neighbor_alltoallw MPI_Neighbor_alltoallw_c (
        send: Pointer, send_counts: Sent<Count>, send_displacements: Pointer, send_types: Pointer,
        recv: Pointer, recv_counts: Received<Count>, recv_displacements: Pointer,
        recv_types: Pointer
    );
}
