/* Several threads, each with communicators of its own, at once. Communicators are first used by
 * the threads in different orders on different ranks, so that whoever makes per-communicator state
 * under one lock hangs.
 *
 *     mpirun -n P allgather_threads [rounds, default 200]
 */
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, PER_THREAD = 2 };

typedef struct {
    MPI_Comm comms[PER_THREAD];
    int index;
    long rounds, checks, failures;
    pthread_t thread;
} worker_t;

static void *work(void *argument)
{
    worker_t *worker = argument;
    for (long round = 0; round < worker->rounds; round++) {
        for (int c = 0; c < PER_THREAD; c++) {
            int rank, size, bytes = 1 + (int)((round * 37 + worker->index) % 5000);
            MPI_Comm comm = worker->comms[c];
            MPI_Comm_rank(comm, &rank);
            MPI_Comm_size(comm, &size);
            long seed = round * 100 + worker->index * 10 + c;
            unsigned char *mine = must(malloc((size_t)bytes));
            unsigned char *all = must(calloc((size_t)size, (size_t)bytes));
            fill(mine, (size_t)bytes, seed, rank);
            MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm);
            for (int peer = 0; peer < size; peer++)
                for (int at = 0; at < bytes; at++) {
                    worker->checks++;
                    worker->failures +=
                        all[(size_t)peer * bytes + at] != pattern(seed, peer, (size_t)at);
                }
            free(mine);
            free(all);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, rank, ranks;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (provided != MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "the MPI library has no MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    static worker_t workers[THREADS];
    for (int w = 0; w < THREADS; w++) {
        workers[w].index = w;
        workers[w].rounds = argc > 1 ? atol(argv[1]) : 200;
        for (int c = 0; c < PER_THREAD; c++)
            MPI_Comm_split(MPI_COMM_WORLD, c == 0 ? 0 : rank % 2, rank, &workers[w].comms[c]);
    }
    for (int i = 0; i < THREADS; i++) {
        int w = (i + rank) % THREADS;
        pthread_create(&workers[w].thread, NULL, work, &workers[w]);
        if (rank % 2)
            for (volatile int pause = 0; pause < 1000000; pause++) {}
    }
    for (int w = 0; w < THREADS; w++) {
        pthread_join(workers[w].thread, NULL);
        checks += workers[w].checks;
        failures += workers[w].failures;
    }
    for (int w = 0; w < THREADS; w++)
        for (int c = 0; c < PER_THREAD; c++)
            MPI_Comm_free(&workers[w].comms[c]);
    return finish("allgather_threads");
}
