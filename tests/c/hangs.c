/* Never ends: rank 1 sleeps, rank 3 is alone in a call of the host MPI, and all others wait for rank 1 in an
 * all-reduce.
 *
 * hangs */
#include <mpi.h>
#include <unistd.h>

enum { RANKS_MAX = 16 };

int main(int argc, char **argv)
{
    int rank, one = 1, sum = 0, none[RANKS_MAX] = {0}, ones[RANKS_MAX], in[RANKS_MAX], out[RANKS_MAX] = {0};
    MPI_Datatype types[RANKS_MAX];
    MPI_Comm copy;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int r = 0; r < RANKS_MAX; r++) {
        types[r] = MPI_INT;
        ones[r] = 1;
        in[r] = r;
    }
    while (rank == 1)
        sleep(1);
    if (rank == 3)
        MPI_Alltoallw(in, ones, none, types, out, ones, none, types, copy);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
