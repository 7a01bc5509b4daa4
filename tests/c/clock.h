/* One clock for all ranks, wherever they are. */
#ifndef CLOCK_H
#define CLOCK_H

#include <mpi.h>
#include <time.h>

/* To add to this machine's clock for that of rank 0, and by how much any rank may be mistaken. */
static double clock_offset, clock_error;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec + clock_offset;
}

/* One exchange with rank 0; what it said is from the middle of it, give or take half its length. */
static void compare_clocks(double *offset, double *error)
{
    double asked = now(), there;
    MPI_Sendrecv(&asked, 1, MPI_DOUBLE, 0, 7, &there, 1, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    double half = (now() - asked) / 2;
    if (half < *error) {
        *error = half;
        *offset = there - asked - half;
    }
}

/* One machine has one clock; between machines the shortest of some exchanges tells the offset. */
static void agree_on_clock(void)
{
    enum { TRIES = 10 };
    int rank, ranks, here;
    MPI_Comm machine;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &here);
    MPI_Comm_free(&machine);
    int one_machine = here == ranks;
    MPI_Allreduce(MPI_IN_PLACE, &one_machine, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (one_machine)
        return;
    double offset = 0, error = rank == 0 ? 0 : 1e9;
    clock_offset = 0;
    for (int peer = 1; peer < ranks; peer++) {
        for (int i = 0; i < TRIES; i++) {
            if (rank == peer) {
                compare_clocks(&offset, &error);
            } else if (rank == 0) {
                double asked, mine;
                MPI_Recv(&asked, 1, MPI_DOUBLE, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                mine = now();
                MPI_Send(&mine, 1, MPI_DOUBLE, peer, 7, MPI_COMM_WORLD);
            }
        }
    }
    clock_offset = offset;
    MPI_Allreduce(&error, &clock_error, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

#endif
