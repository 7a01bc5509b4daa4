/* Windows over memory of the program whose lengths are no multiples of anything: every byte of them is
 * put and got, the last one also alone.
 *
 *     mpirun -n P win_tail
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int lengths[] = {1, 7, 63, 65, 1003, 4097, 70001};

static unsigned char value(int rank, int at) { return (unsigned char)(rank * 31 + at * 7 + 1); }

int main(int argc, char **argv)
{
    int rank, ranks, wrong = 0, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int n = lengths[i];
        unsigned char *memory = malloc(n), *mine = malloc(n), last;
        MPI_Win win;
        memset(memory, 0, n);
        for (int at = 0; at < n; at++) mine[at] = value(rank, at);
        MPI_Win_create(memory, n, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_fence(0, win);
        MPI_Put(mine, n, MPI_BYTE, right, 0, n, MPI_BYTE, win);
        MPI_Win_fence(0, win);
        for (int at = 0; at < n; at++) wrong += memory[at] != value(left, at);
        memset(mine, 0, n);
        MPI_Get(mine, n, MPI_BYTE, right, 0, n, MPI_BYTE, win);
        MPI_Get(&last, 1, MPI_BYTE, right, n - 1, 1, MPI_BYTE, win);
        MPI_Win_fence(0, win);
        for (int at = 0; at < n; at++) wrong += mine[at] != value(rank, at);
        wrong += last != value(rank, n - 1);
        MPI_Win_free(&win);
        free(memory);
        free(mine);
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("win_tail ranks=%d ok=%s\n", ranks, all ? "no" : "yes");
    MPI_Finalize();
    return all != 0;
}
