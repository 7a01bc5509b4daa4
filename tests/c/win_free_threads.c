/* Threads that make, use and free windows at the same time, each on a communicator of its own. A host may give the handle
 * of a window that one thread has just freed to the window of another.
 *
 *     mpirun -n P win_free_threads [ROUNDS]
 */
#include "threads.h"

enum { THREADS = 4 };
static int rank, size, rounds = 200;
static MPI_Comm comms[THREADS];

static void *make(void *argument)
{
    int thread = *(int *)argument, from = (rank + size - 1) % size;
    for (int round = 0; round < rounds; round++) {
        long *memory, sent = (rank * THREADS + thread) * 100000L + round;
        long awaited = (from * THREADS + thread) * 100000L + round;
        MPI_Win window;
        MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, comms[thread], &memory, &window);
        *memory = -1;
        MPI_Win_fence(0, window);
        MPI_Put(&sent, 1, MPI_LONG, (rank + 1) % size, 0, 1, MPI_LONG, window);
        MPI_Win_fence(0, window);
        expect(*memory == awaited, "what was put", *memory, awaited);
        MPI_Win_free(&window);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    init_threads(&argc, &argv, "threads that free windows");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1)
        rounds = atoi(argv[1]);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    in_threads(THREADS, make);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    return finish("win_free_threads");
}
