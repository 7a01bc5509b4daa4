/* All ranks but the first compete for the lock of the first one's memory, and add to a counter there
 * by reading and writing it: every addition must be there at the end. The statistics say how many
 * remote messages the lock took.
 *
 *     mpirun -n P win_contend [additions of each, default 100]
 */
#include "check.h"

int main(int argc, char **argv)
{
    int rank, size;
    long *base;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long additions = argc > 1 ? atol(argv[1]) : 100;
    snprintf(context, sizeof context, "contention");
    MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    *base = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (long i = 0; i < additions && rank > 0; i++) {
        long counter = -1;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&counter, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
        MPI_Win_flush(0, win);
        counter++;
        MPI_Put(&counter, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        expect(*base == additions * (size - 1), "additions were lost", *base, additions * (size - 1));
        MPI_Win_unlock(0, win);
    }
    MPI_Win_free(&win);
    return finish("win_contend");
}
