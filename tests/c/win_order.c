/*
 * Ranks that lock several targets in the same order wait for each other in no circle, whatever windows these are of: a
 * lock that is not had when the call returns is got before a later one. Hosts whose calls do not wait may hang in it.
 *
 *     win_order ROUNDS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WINDOWS = 2 };

static MPI_Win windows[WINDOWS];

static void add(int target, int window)
{
    const long one = 1;
    MPI_Accumulate(&one, 1, MPI_LONG, target, 0, 1, MPI_LONG, MPI_SUM, windows[window]);
}

/* Locks `count` of the places in their order, and adds to each, the last one first. */
static void round_of(int count, const int (*places)[2])
{
    for (int i = 0; i < count; i++)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, places[i][0], 0, windows[places[i][1]]);
    for (int i = count - 1; i >= 0; i--)
        add(places[i][0], places[i][1]);
    for (int i = 0; i < count; i++)
        MPI_Win_unlock(places[i][0], windows[places[i][1]]);
}

int main(int argc, char **argv)
{
    int rank, size, rounds = atoi(argv[1]), wrong = 0;
    long *memory[WINDOWS], counts[WINDOWS] = { 0 };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < WINDOWS; i++) {
        MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory[i], &windows[i]);
        *memory[i] = 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int (*all)[2] = malloc(sizeof *all * WINDOWS * (size_t)size);
    for (int i = 0; i < WINDOWS * size; i++) {
        /* The last rank of the first window, the first of the second, and so on. */
        all[i][0] = i % 2 ? i / 2 : size - 1 - i / 2;
        all[i][1] = i % 2;
    }
    for (int round = 0; round < rounds; round++) {
        /* Parts of the order that begin at different places. */
        int first = (round + rank) % (WINDOWS * size), count = WINDOWS * size - first;
        round_of(count, all + first);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < rounds; round++)
        for (int other = 0; other < size; other++)
            for (int i = (round + other) % (WINDOWS * size); i < WINDOWS * size; i++)
                if (all[i][0] == rank)
                    counts[all[i][1]]++;
    for (int i = 0; i < WINDOWS; i++) {
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, windows[i]);

        if (*memory[i] != counts[i]) {
            wrong++;
            printf("rank %d, window %d: %ld instead of %ld\n", rank, i, *memory[i], counts[i]);
        }
        MPI_Win_unlock(rank, windows[i]);
    }
    for (int i = 0; i < WINDOWS; i++)
        MPI_Win_free(&windows[i]);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ok=%s\n", wrong ? "no" : "yes");
    MPI_Finalize();
    return 0;
}
