/* Locks that threads of one process ask for.
 *
 * First, a thread waits for a lock, of which the holder waits for what another thread does under a lock of its own. That thread
 * once had the lock that the first one waits for. Then, a thread that was made under a lock takes a second one, in the order in
 * which another rank takes both.
 *
 *     mpirun -n P win_lock_threads [serialized]
 *
 * With MPI_THREAD_SERIALIZED only the second is allowed.
 */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { FIRST = 2, SECOND = 3 };

static MPI_Win window;
static int rank;

/* Locks, and returns with the lock. */
static void have(int target)
{
    const long one = 1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
    MPI_Put(&one, 1, MPI_LONG, target, 0, 1, MPI_LONG, window);
    MPI_Win_flush(target, window);
}

static void *have_and_leave(void *argument)
{
    int target = *(int *)argument;
    have(target);
    MPI_Win_unlock(target, window);
    return NULL;
}

static void *have_second(void *argument)
{
    have(SECOND);
    return argument;
}

static void apart(void)
{
    char token = 0;
    int target = FIRST;
    pthread_t other;
    if (rank == 0)
        have_and_leave(&target);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        have(FIRST);
        MPI_Send(&token, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        MPI_Recv(&token, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_unlock(FIRST, window);
    } else if (rank == 0) {
        MPI_Recv(&token, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pthread_create(&other, NULL, have_and_leave, &target);
        usleep(200000);
        have(SECOND);
        MPI_Win_unlock(SECOND, window);
        MPI_Send(&token, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        pthread_join(other, NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void one_after_the_other(void)
{
    const long one = 1;
    char token = 0;
    pthread_t other;
    if (rank == 1) {
        have(FIRST);
        MPI_Send(&token, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        usleep(200000);
        have(SECOND);
    } else if (rank == 0) {
        MPI_Recv(&token, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, FIRST, 0, window);
        pthread_create(&other, NULL, have_second, NULL);
        pthread_join(other, NULL);
        MPI_Put(&one, 1, MPI_LONG, FIRST, 0, 1, MPI_LONG, window);
    }
    if (rank < 2) {
        MPI_Win_unlock(SECOND, window);
        MPI_Win_unlock(FIRST, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static long memory;
    int provided, level = argc > 1 ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(provided >= level, "level of threads", provided, 0);
    if (level == MPI_THREAD_MULTIPLE)
        apart();
    one_after_the_other();
    MPI_Win_free(&window);
    return finish("win_lock_threads");
}
