//! Collectives that are left to the host and counted: `MPI_Alltoallw` and the neighbourhood
//! collectives (MPI 4.1, sections 6.8 and 8.6), from C and from Fortran.

use crate::collective;
use crate::next::{MISSING, Next, call_next};
use crate::panic_guard::guard;
use libc::{c_int, c_void};

type Pointer = *const c_void;
type Error = *mut c_int;

/// One C function.
macro_rules! from_c {
    ($name:ident, $label:literal, ($($arg:ident: $ty:ty),*)) => {
        /// As the standard defines it.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty,)* comm: usize) -> c_int {
            static NEXT: Next = Next::new(stringify!($name));
            guard(Some(comm), || {
                collective::left($label, || {
                    call_next!(NEXT, ($($arg => $ty,)* comm => usize) -> c_int, else MISSING)
                })
            })
        }
    };
}

/// One spelling of a Fortran routine. Those of MPICH call the C function, which counts.
macro_rules! from_fortran {
    ($name:ident, $label:literal, ($($arg:ident),*)) => {
        /// A collective called from Fortran.
        ///
        /// # Safety
        /// As in Fortran.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "one spelling of many")]
        pub unsafe extern "C" fn $name($($arg: Pointer,)* comm: Pointer, error: Error) {
            static NEXT: Next = Next::new(stringify!($name));
            let forward = || {
                let mut code = 0;
                let to: Error = &mut code;
                call_next!(
                    NEXT,
                    ($($arg => Pointer,)* comm => Pointer, to => Error) -> (),
                    else code = MISSING
                );
                code
            };
            let code = guard(None, || collective::left_by_fortran($label, forward));
            if !error.is_null() {
                // SAFETY: present, hence the address of an integer.
                unsafe { *error = code };
            }
        }
    };
}

/// All forms of one collective.
macro_rules! left {
    ($($label:literal: $name:ident $large:ident $arguments:tt, $fortran:tt as $($spelling:ident)*;)*) => {
        mod int {
            use super::*;
            type Count = c_int;
            const _: Option<Count> = None;
            $(from_c!($name, $label, $arguments);)*
        }
        mod large {
            use super::*;
            type Count = i64;
            const _: Option<Count> = None;
            $(from_c!($large, $label, $arguments);)*
        }
        $(spellings!($label, $fortran, $($spelling)*);)*
    };
}

macro_rules! spellings {
    ($label:literal, $arguments:tt, $($name:ident)*) => {
        $(from_fortran!($name, $label, $arguments);)*
    };
}

left! {
    "alltoallw": MPI_Alltoallw MPI_Alltoallw_c (
        send: Pointer, send_counts: Pointer, send_displacements: Pointer, send_types: Pointer, recv: Pointer, recv_counts: Pointer, recv_displacements: Pointer, recv_types: Pointer
    ), (
        send, send_counts, send_displacements, send_types, recv, recv_counts, recv_displacements, recv_types
    ) as mpi_alltoallw mpi_alltoallw_ mpi_alltoallw__ MPI_ALLTOALLW mpi_alltoallw_f08_;

    "neighbor_allgather": MPI_Neighbor_allgather MPI_Neighbor_allgather_c (
        send: Pointer, send_count: Count, send_type: usize, recv: Pointer, recv_count: Count, recv_type: usize
    ), (
        send, send_count, send_type, recv, recv_count, recv_type
    ) as mpi_neighbor_allgather mpi_neighbor_allgather_ mpi_neighbor_allgather__ MPI_NEIGHBOR_ALLGATHER mpi_neighbor_allgather_f08_;

    "neighbor_allgatherv": MPI_Neighbor_allgatherv MPI_Neighbor_allgatherv_c (
        send: Pointer, send_count: Count, send_type: usize, recv: Pointer, recv_counts: Pointer, displacements: Pointer, recv_type: usize
    ), (
        send, send_count, send_type, recv, recv_counts, displacements, recv_type
    ) as mpi_neighbor_allgatherv mpi_neighbor_allgatherv_ mpi_neighbor_allgatherv__ MPI_NEIGHBOR_ALLGATHERV mpi_neighbor_allgatherv_f08_;

    "neighbor_alltoall": MPI_Neighbor_alltoall MPI_Neighbor_alltoall_c (
        send: Pointer, send_count: Count, send_type: usize, recv: Pointer, recv_count: Count, recv_type: usize
    ), (
        send, send_count, send_type, recv, recv_count, recv_type
    ) as mpi_neighbor_alltoall mpi_neighbor_alltoall_ mpi_neighbor_alltoall__ MPI_NEIGHBOR_ALLTOALL mpi_neighbor_alltoall_f08_;

    "neighbor_alltoallv": MPI_Neighbor_alltoallv MPI_Neighbor_alltoallv_c (
        send: Pointer, send_counts: Pointer, send_displacements: Pointer, send_type: usize, recv: Pointer, recv_counts: Pointer, recv_displacements: Pointer, recv_type: usize
    ), (
        send, send_counts, send_displacements, send_type, recv, recv_counts, recv_displacements, recv_type
    ) as mpi_neighbor_alltoallv mpi_neighbor_alltoallv_ mpi_neighbor_alltoallv__ MPI_NEIGHBOR_ALLTOALLV mpi_neighbor_alltoallv_f08_;

    "neighbor_alltoallw": MPI_Neighbor_alltoallw MPI_Neighbor_alltoallw_c (
        send: Pointer, send_counts: Pointer, send_displacements: Pointer, send_types: Pointer, recv: Pointer, recv_counts: Pointer, recv_displacements: Pointer, recv_types: Pointer
    ), (
        send, send_counts, send_displacements, send_types, recv, recv_counts, recv_displacements, recv_types
    ) as mpi_neighbor_alltoallw mpi_neighbor_alltoallw_ mpi_neighbor_alltoallw__ MPI_NEIGHBOR_ALLTOALLW mpi_neighbor_alltoallw_f08_;
}
