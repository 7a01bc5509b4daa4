/*
 * Threads that accumulate at one target at once, under its exclusive lock, a shared one, and that of all: the lock is the
 * process's, so that accumulating operations are atomic towards those of its other threads (MPI 4.1, section 12.7.1).
 *
 *     win_exclusive ROUNDS
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2, WORDS = 24 };

static MPI_Win window;
static int rounds, target;

/* Adds one to every word in each round, by operations of all lengths. */
static void *add(void *unused)
{
    long ones[WORDS], before[WORDS];
    for (int i = 0; i < WORDS; i++)
        ones[i] = 1;
    for (int round = 0; round < rounds; round++) {
        MPI_Accumulate(ones, 1, MPI_LONG, target, 0, 1, MPI_LONG, MPI_SUM, window);
        MPI_Fetch_and_op(ones, before, MPI_LONG, target, 1, MPI_SUM, window);
        MPI_Get_accumulate(ones, 2, MPI_LONG, before, 2, MPI_LONG, target, 2, 2, MPI_LONG, MPI_SUM, window);
        MPI_Accumulate(ones, WORDS - 5, MPI_LONG, target, 4, WORDS - 5, MPI_LONG, MPI_SUM, window);
        long expected = 0, next = 1, found;
        for (;; expected = found, next = found + 1) {
            MPI_Compare_and_swap(&next, &expected, &found, MPI_LONG, target, WORDS - 1, window);
            MPI_Win_flush(target, window);
            if (found == expected)
                break;
        }
    }
    return unused;
}

int main(int argc, char **argv)
{
    int level, rank, size, wrong = 0;
    rounds = atoi(argv[1]);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long *memory;
    MPI_Win_allocate(WORDS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    for (int way = 0; way < 3; way++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
        for (int i = 0; i < WORDS; i++)
            memory[i] = 0;
        MPI_Win_unlock(rank, window);
        MPI_Barrier(MPI_COMM_WORLD);
        /* Each rank accumulates at the next, or all at the last, who wait for its lock. */
        target = way == 0 ? size - 1 : (rank + 1) % size;
        if (way == 2)
            MPI_Win_lock_all(0, window);
        else
            MPI_Win_lock(way == 0 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, window);
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, add, NULL);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        if (way == 2)
            MPI_Win_unlock_all(window);
        else
            MPI_Win_unlock(target, window);
        MPI_Barrier(MPI_COMM_WORLD);
        long origins = way == 0 ? (rank == size - 1 ? size : 0) : 1, expected = origins * THREADS * rounds;
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
        for (int i = 0; i < WORDS; i++)
            if (memory[i] != expected && !wrong++)
                printf("rank %d, way %d, word %d: %ld instead of %ld\n", rank, way, i, memory[i], expected);
        MPI_Win_unlock(rank, window);
    }
    MPI_Win_free(&window);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ok=%s multiple=%s\n", wrong ? "no" : "yes", level == MPI_THREAD_MULTIPLE ? "yes" : "no");
    MPI_Finalize();
    return 0;
}
