/* How long an all-gather of 8 bytes stands still while somebody breaks and mends what it travels on.
 *
 *     mpirun -n P pause FILE [least pause in ms that is printed, default 10]
 *
 * goes on until the file exists on rank 0's machine. Rank 0 prints `running` once every rank is in the loop,
 * a line for each pause of that length or more, and at the end the median of all calls and the longest.
 * Every byte is compared.
 */
#include "check.h"

#include <unistd.h>

enum { CALLS_PER_LOOK = 64, BUCKETS = 1 << 16 };

/* Calls by their length in steps of 10 us; the last one holds all that are longer. */
static long buckets[BUCKETS];

static double median_ms(long calls)
{
    long seen = 0;
    for (int i = 0; i < BUCKETS; i++) {
        seen += buckets[i];
        if (2 * seen >= calls)
            return (i + 0.5) / 100;
    }
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *file = argc > 1 ? argv[1] : "";
    double least_ms = argc > 2 ? atof(argv[2]) : 10, longest_ms = 0;
    uint64_t *all = malloc((size_t)size * sizeof *all);
    long calls = 0;
    int over = 0;
    double begun = MPI_Wtime();
    while (!over) {
        for (int i = 0; i < CALLS_PER_LOOK; i++, calls++) {
            uint64_t mine = (uint64_t)calls * 1000003 + (uint64_t)rank;
            double before = MPI_Wtime();
            MPI_Allgather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, MPI_COMM_WORLD);
            double ms = (MPI_Wtime() - before) * 1e3;
            for (int peer = 0; peer < size; peer++)
                expect(all[peer] == (uint64_t)calls * 1000003 + (uint64_t)peer, "wrong bytes from", peer,
                       calls);
            if (calls < CALLS_PER_LOOK) /* connections are made */
                continue;
            int bucket = (int)(ms * 100);
            buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
            longest_ms = ms > longest_ms ? ms : longest_ms;
            if (rank == 0 && ms >= least_ms) {
                printf("pause: %.1f ms at %.2f s\n", ms, before - begun);
                fflush(stdout);
            }
        }
        if (rank == 0 && calls == CALLS_PER_LOOK) {
            printf("running\n");
            fflush(stdout);
        }
        over = rank == 0 && access(file, F_OK) == 0;
        MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%ld calls, median %.2f ms, longest %.1f ms\n", calls, median_ms(calls - CALLS_PER_LOOK),
               longest_ms);
    free(all);
    return finish("pause");
}
