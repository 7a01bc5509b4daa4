/* Never ends: rank 1 sleeps, rank 3 is alone in a barrier of two groups, which is the host MPI's, and all others wait for rank 1
 * in an all-reduce.
 *
 * hangs */
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, one = 1, sum = 0;
    MPI_Comm half, both;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &both);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    while (rank == 1)
        sleep(1);
    if (rank == 3)
        MPI_Barrier(both);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
