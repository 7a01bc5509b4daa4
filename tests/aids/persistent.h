/* Persistent collectives (MPI 4.0) where the host lacks them, for programs that run with ferrorail: weak, as the linker finds
 * them nowhere. */
#ifndef PERSISTENT_H
#define PERSISTENT_H

#include <mpi.h>

#define SIDES const void *, int, MPI_Datatype, void *, int, MPI_Datatype
#define SENT const void *, const int *, const int *, MPI_Datatype
#define RECEIVED void *, const int *, const int *, MPI_Datatype
#define TYPED_SENT const void *, const int *, const int *, const MPI_Datatype *
#define TYPED_RECEIVED void *, const int *, const int *, const MPI_Datatype *
#define NEAR_SENT const void *, const int *, const MPI_Aint *, const MPI_Datatype *
#define NEAR_RECEIVED void *, const int *, const MPI_Aint *, const MPI_Datatype *
#define VECTORS const void *, void *, int, MPI_Datatype, MPI_Op
#define END MPI_Comm, MPI_Info, MPI_Request *

__attribute__((weak)) int MPI_Barrier_init(END);
__attribute__((weak)) int MPI_Bcast_init(void *, int, MPI_Datatype, int, END);
__attribute__((weak)) int MPI_Gather_init(SIDES, int, END);
__attribute__((weak)) int MPI_Scatter_init(SIDES, int, END);
__attribute__((weak)) int MPI_Allgather_init(SIDES, END);
__attribute__((weak)) int MPI_Alltoall_init(SIDES, END);
__attribute__((weak)) int MPI_Gatherv_init(const void *, int, MPI_Datatype, RECEIVED, int, END);
__attribute__((weak)) int MPI_Scatterv_init(SENT, void *, int, MPI_Datatype, int, END);
__attribute__((weak)) int MPI_Allgatherv_init(const void *, int, MPI_Datatype, RECEIVED, END);
__attribute__((weak)) int MPI_Alltoallv_init(SENT, RECEIVED, END);
__attribute__((weak)) int MPI_Alltoallw_init(TYPED_SENT, TYPED_RECEIVED, END);
__attribute__((weak)) int MPI_Neighbor_allgather_init(SIDES, END);
__attribute__((weak)) int MPI_Neighbor_alltoall_init(SIDES, END);
__attribute__((weak)) int MPI_Neighbor_allgatherv_init(const void *, int, MPI_Datatype, RECEIVED, END);
__attribute__((weak)) int MPI_Neighbor_alltoallv_init(SENT, RECEIVED, END);
__attribute__((weak)) int MPI_Neighbor_alltoallw_init(NEAR_SENT, NEAR_RECEIVED, END);
__attribute__((weak)) int MPI_Allreduce_init(VECTORS, END);
__attribute__((weak)) int MPI_Reduce_init(VECTORS, int, END);
__attribute__((weak)) int MPI_Scan_init(VECTORS, END);
__attribute__((weak)) int MPI_Exscan_init(VECTORS, END);
__attribute__((weak)) int MPI_Reduce_scatter_init(const void *, void *, const int *, MPI_Datatype, MPI_Op, END);
__attribute__((weak)) int MPI_Reduce_scatter_block_init(VECTORS, END);

#undef SIDES
#undef SENT
#undef RECEIVED
#undef TYPED_SENT
#undef TYPED_RECEIVED
#undef NEAR_SENT
#undef NEAR_RECEIVED
#undef VECTORS
#undef END

#endif
