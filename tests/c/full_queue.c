/*
 * Scatters of few bytes from a root whose send queue is full most of the time: every message arrives, as itself.
 *
 *     full_queue CALLS INTEGERS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, calls = atoi(argv[1]), count = atoi(argv[2]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *blocks = malloc(sizeof *blocks * (size_t)(size * count)), *block = malloc(sizeof *block * (size_t)count);
    long wrong = 0, all;
    for (int call = 0; call < calls; call++) {
        for (int i = 0; i < size * count && rank == 0; i++)
            blocks[i] = call * 1000000 + i;
        for (int i = 0; i < count; i++)
            block[i] = -1;
        MPI_Scatter(blocks, count, MPI_INT, block, count, MPI_INT, 0, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++)
            wrong += block[i] != call * 1000000 + rank * count + i;
    }
    MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ok=%s wrong=%ld\n", all ? "no" : "yes", all);
    MPI_Finalize();
    return all && rank == 0;
}
