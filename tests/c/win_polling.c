/* Rank 0 has a receive of a long message under way and makes nothing but calls on a window until the sender, which only
 * puts a flag once the message is gone, has done so. Whatever the calls are, they must drive the host's progress.
 *
 *     mpirun -n P win_polling [BYTES]
 */
#include "check.h"

enum { FETCHES, GETS, SYNCHRONISES, FLUSHES, LOCKS, KINDS };

static MPI_Win window;
static long *memory;

/* One look at the flag. */
static long look(int kind)
{
    long flag = 0, nothing = 0;
    switch (kind) {
    case FETCHES:
        MPI_Fetch_and_op(&nothing, &flag, MPI_LONG, 0, 0, MPI_NO_OP, window);
        MPI_Win_flush(0, window);
        return flag;
    case GETS:
        MPI_Get(&flag, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
        MPI_Win_flush(0, window);
        return flag;
    case FLUSHES:
        MPI_Win_flush_all(window);
        break;
    case LOCKS:
        MPI_Win_unlock_all(window);
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        flag = *(volatile long *)memory;
        MPI_Win_unlock(0, window);
        MPI_Win_lock_all(0, window);
        return flag;
    }
    MPI_Win_sync(window);
    return *(volatile long *)memory;
}

int main(int argc, char **argv)
{
    int rank, bytes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    bytes = argc > 1 ? atoi(argv[1]) : 4000000;
    unsigned char *buffer = must(malloc((size_t)bytes));
    MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    *memory = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (long round = 1; round <= KINDS; round++) {
        snprintf(context, sizeof context, "calls of kind %ld", round - 1);
        if (rank == 0) {
            MPI_Request request;
            MPI_Irecv(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
            while (look((int)round - 1) != round)
                ;
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            expect_pattern(buffer, (size_t)bytes, round, 1);
        } else if (rank == 1) {
            fill(buffer, (size_t)bytes, round, 1);
            MPI_Send(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
            MPI_Accumulate(&round, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_REPLACE, window);
            MPI_Win_flush(0, window);
        }
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&window);
    free(buffer);
    return finish("win_polling");
}
