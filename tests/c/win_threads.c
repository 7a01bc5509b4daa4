/* Threads of a rank in epochs of one window at the same time (MPI_THREAD_MULTIPLE): one accesses its
 * neighbour's memory while another exposes this rank's; then all of them add to every rank under one
 * MPI_Win_lock_all, and attach and detach memory of a dynamic window. Open MPI 4.1 alone hangs in it.
 *
 *     win_threads [rounds (300)] */
#include "check.h"

#include <pthread.h>
#include <unistd.h>

#define THREADS 4

static MPI_Win window, dynamic;
static MPI_Group left, right;
static int rank, ranks, rounds;
static long *memory;
static long wrong;

static void *access_right(void *unused)
{
    for (long i = 1; i <= rounds; i++) {
        if (i % 8 == 0)
            usleep(1000); /* every rank waits for its exposure to end before any begins to access */
        MPI_Win_start(right, 0, window);
        MPI_Put(&i, 1, MPI_LONG, (rank + 1) % ranks, 0, 1, MPI_LONG, window);
        MPI_Win_complete(window);
    }
    return unused;
}

static void *expose_to_left(void *unused)
{
    for (long i = 1; i <= rounds; i++) {
        MPI_Win_post(left, 0, window);
        MPI_Win_wait(window);
        wrong += memory[0] != i;
    }
    return unused;
}

static void *add_everywhere(void *unused)
{
    long one = 1;
    for (int i = 0; i < rounds; i++)
        for (int to = 0; to < ranks; to++) {
            MPI_Accumulate(&one, 1, MPI_LONG, (rank + to) % ranks, 1, 1, MPI_LONG, MPI_SUM, window);
            if (i % 16 == 0)
                MPI_Win_flush((rank + to) % ranks, window);
        }
    return unused;
}

static void *come_and_go(void *own)
{
    for (int i = 0; i < rounds / 10; i++) {
        MPI_Win_attach(dynamic, own, 64);
        MPI_Win_detach(dynamic, own);
    }
    return NULL;
}

static void in_threads(void *(*act)(void *), void *(*other)(void *), int count, char *memories)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, i % 2 ? other : act, memories ? memories + 64 * i : NULL);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    static char memories[64 * THREADS];
    int provided, neighbour;
    MPI_Group all;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    rounds = argc > 1 ? atoi(argv[1]) : 300;
    snprintf(context, sizeof context, "threads");
    expect(provided == MPI_THREAD_MULTIPLE, "thread level", provided, MPI_THREAD_MULTIPLE);
    MPI_Win_allocate(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
    memory[0] = memory[1] = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    neighbour = (rank + 1) % ranks;
    MPI_Group_incl(all, 1, &neighbour, &right);
    neighbour = (rank + ranks - 1) % ranks;
    MPI_Group_incl(all, 1, &neighbour, &left);
    MPI_Barrier(MPI_COMM_WORLD);

    in_threads(access_right, expose_to_left, 2, NULL);
    expect(wrong == 0, "rounds in which the neighbour's value was missing", wrong, rounds);

    MPI_Win_lock_all(0, window);
    in_threads(add_everywhere, add_everywhere, THREADS, NULL);
    MPI_Win_unlock_all(window);
    in_threads(come_and_go, come_and_go, THREADS, memories);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    expect(memory[1] == (long)THREADS * ranks * rounds, "sum", memory[1], (long)THREADS * ranks * rounds);
    MPI_Win_unlock(rank, window);

    MPI_Group_free(&left);
    MPI_Group_free(&right);
    MPI_Group_free(&all);
    MPI_Win_free(&dynamic);
    MPI_Win_free(&window);
    return finish("win_threads");
}
