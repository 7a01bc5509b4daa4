/* Threads with non-blocking collectives at the same time, each on a communicator of its own, awaited by all kinds of calls,
 * with a blocking one now and then. Needs MPI_THREAD_MULTIPLE.
 *
 *     mpirun -n P nonblocking_threads [rounds, default 1000]
 */
#include "check.h"
#include "nonblocking_ready.h"
#include <pthread.h>

enum { THREADS = 3, LONGEST = 64 };

static MPI_Comm comms[THREADS];
static long rounds;

static void await(int round, MPI_Request requests[3])
{
    int index, done = 0;
    if (round % 3 == 0)
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 3 && round % 3 == 1; i++)
        MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
    while (round % 3 == 2 && !done)
        MPI_Testall(3, requests, &done, MPI_STATUSES_IGNORE);
}

static void *run(void *comm_of_thread)
{
    MPI_Comm comm = *(MPI_Comm *)comm_of_thread;
    int rank, size, mine[LONGEST], sums[LONGEST];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int *all = must(malloc(sizeof(int) * LONGEST * (size_t)size));
    for (int round = 0; round < rounds; round++) {
        int length = 1 + round * 7 % LONGEST;
        MPI_Request requests[3];
        for (int i = 0; i < length; i++)
            mine[i] = rank + round + i;
        MPI_Iallreduce(mine, sums, length, MPI_INT, MPI_SUM, comm, &requests[0]);
        MPI_Iallgather(mine, length, MPI_INT, all, length, MPI_INT, comm, &requests[1]);
        MPI_Ibarrier(comm, &requests[2]);
        await(round, requests);
        for (int i = 0; i < length; i++) {
            expect(sums[i] == size * (size - 1) / 2 + size * (round + i), "sum", i, sums[i]);
            for (int peer = 0; peer < size; peer++)
                expect(all[peer * length + i] == peer + round + i, "block of", peer, i);
        }
        if (round % 50 == 0)
            MPI_Allreduce(mine, sums, 1, MPI_INT, MPI_SUM, comm);
    }
    free(all);
    return NULL;
}

int main(int argc, char **argv)
{
    int level;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    expect(level == MPI_THREAD_MULTIPLE, "no MPI_THREAD_MULTIPLE", level, 0);
    rounds = argc > 1 ? atol(argv[1]) : 1000;
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        make_ready(comms[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, &comms[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    return finish("nonblocking_threads");
}
