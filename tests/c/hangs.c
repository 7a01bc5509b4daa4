/* Never ends: rank 1 sleeps, rank 3 is alone in a call of the host MPI, and all others wait for rank 1 in an
 * all-reduce.
 *
 * hangs */
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, one = 1, sum = 0, around[2];
    MPI_Comm ring;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &one, 0, &ring);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    while (rank == 1)
        sleep(1);
    if (rank == 3)
        MPI_Neighbor_allgather(&rank, 1, MPI_INT, around, 1, MPI_INT, ring);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
