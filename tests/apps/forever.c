/* All-gathers until it is stopped: the victim of fault tests. Every rank prints `rank R pid P` once
 * the first hundred are done, and exits with 1 if a result is wrong.
 *
 *     mpirun -n P forever [ints per rank]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, ranks, count = argc > 1 ? atoi(argv[1]) : 256;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int *mine = malloc((size_t)count * sizeof *mine);
    int *all = malloc((size_t)count * (size_t)ranks * sizeof *all);
    if (mine == NULL || all == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int round = 0;; round++) {
        for (int i = 0; i < count; i++)
            mine[i] = round + rank * 1000 + i;
        MPI_Allgather(mine, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < count * ranks; i++) {
            if (all[i] != round + i / count * 1000 + i % count) {
                fprintf(stderr, "rank %d, round %d: wrong at %d\n", rank, round, i);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        if (round == 100) {
            printf("rank %d pid %d\n", rank, (int)getpid());
            fflush(stdout);
        }
    }
}
