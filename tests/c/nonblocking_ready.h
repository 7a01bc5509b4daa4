/* Communicators on which ferrorail takes non-blocking collectives: after a blocking one that follows a non-blocking one. */
#ifndef NONBLOCKING_READY_H
#define NONBLOCKING_READY_H

#include <mpi.h>

static inline void make_ready(MPI_Comm comm)
{
    MPI_Request request;
    MPI_Barrier(comm);
    MPI_Ibarrier(comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(comm);
}

/* A duplicate of the world that returns errors. */
static inline MPI_Comm fresh(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    make_ready(comm);
    return comm;
}

#endif
