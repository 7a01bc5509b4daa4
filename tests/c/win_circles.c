/* Locks of two windows that ranks wait for at the same time, in an order in which nobody has to wait for ever. Hosts whose
 * calls do not wait may hang in the second part.
 *
 *     mpirun -n P win_circles
 */
#include "check.h"
#include <unistd.h>

enum { WINDOWS = 2, FIRST = 4, SECOND = 5 };

static MPI_Win windows[WINDOWS];
static int rank;

/* Locks, and returns with the lock. */
static void have(int mode, int target, int window)
{
    long value;
    MPI_Win_lock(mode, target, 0, windows[window]);
    MPI_Get(&value, 1, MPI_LONG, target, 0, 1, MPI_LONG, windows[window]);
    MPI_Win_flush(target, windows[window]);
}

/* Two ranks read one lock each and want the other's, for which writers have queued up meanwhile. */
static void readers(void)
{
    const int target[WINDOWS] = {FIRST, SECOND};
    if (rank < 2)
        have(MPI_LOCK_SHARED, target[rank], rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank < 2) {
        usleep(200000);
        have(MPI_LOCK_SHARED, target[1 - rank], 1 - rank);
        MPI_Win_unlock(target[1 - rank], windows[1 - rank]);
        MPI_Win_unlock(target[rank], windows[rank]);
    } else if (rank < 4) {
        have(MPI_LOCK_EXCLUSIVE, target[rank - 2], rank - 2);
        MPI_Win_unlock(target[rank - 2], windows[rank - 2]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Both ranks lock targets of the first window, one of them all, before one of the second. */
static void all_before_one(void)
{
    char token = 0;
    if (rank == 0) {
        MPI_Recv(&token, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_lock_all(0, windows[0]);
        have(MPI_LOCK_EXCLUSIVE, SECOND, 1);
        long value;
        MPI_Get(&value, 1, MPI_LONG, FIRST, 0, 1, MPI_LONG, windows[0]);
        MPI_Win_flush(FIRST, windows[0]);
        MPI_Win_unlock(SECOND, windows[1]);
        MPI_Win_unlock_all(windows[0]);
    } else if (rank == 1) {
        have(MPI_LOCK_EXCLUSIVE, FIRST, 0);
        MPI_Send(&token, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        usleep(200000);
        have(MPI_LOCK_EXCLUSIVE, SECOND, 1);
        MPI_Win_unlock(SECOND, windows[1]);
        MPI_Win_unlock(FIRST, windows[0]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static long memory[WINDOWS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < WINDOWS; i++)
        MPI_Win_create(&memory[i], sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &windows[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    readers();
    all_before_one();
    for (int i = 0; i < WINDOWS; i++)
        MPI_Win_free(&windows[i]);
    expect(1, "", 0, 0);
    return finish("win_circles");
}
