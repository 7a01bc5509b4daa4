/* Shared by the programs of this folder: reproducible data, counted checks, one summary line.
 * Every program prints `NAME ranks=N checks=N failures=N ok=yes|no` on rank 0 and exits with 0 only
 * if every rank found every byte right. All of them also pass without ferrorail. */
#ifndef CHECK_H
#define CHECK_H

#include "host.h"
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long checks, failures;
static char context[256];

/* splitmix64: byte `at` of what `rank` contributes in round `round`. */
static unsigned char pattern(long round, int rank, size_t at)
{
    uint64_t z = (uint64_t)round * 0x9e3779b97f4a7c15u + (uint64_t)(rank + 1) * 0xbf58476d1ce4e5b9u
        + at * 0x94d049bb133111ebu;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (unsigned char)(z ^ (z >> 31));
}

static inline void fill(unsigned char *to, size_t bytes, long round, int rank)
{
    for (size_t at = 0; at < bytes; at++)
        to[at] = pattern(round, rank, at);
}

/* Counts a check; says what failed, for the first few. */
static int expect(int holds, const char *what, long a, long b)
{
    __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED); /* of several threads, in some programs */
    if (!holds && failures++ < 10) {
        int rank = -1;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        fprintf(stderr, "rank %d: %s: %s (%ld, %ld)\n", rank, context, what, a, b);
    }
    return holds;
}

static inline int expect_pattern(const unsigned char *got, size_t bytes, long round, int rank)
{
    for (size_t at = 0; at < bytes; at++)
        if (got[at] != pattern(round, rank, at))
            return expect(0, "wrong byte of block, at", rank, (long)at);
    return expect(1, "", 0, 0);
}

static inline void *must(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return memory;
}

/* `type`, which is freed, inside as many others as ferrorail does not look into: where it reaches over more than 16 MB, only the
 * host knows where its data is. */
static inline MPI_Datatype nested(MPI_Datatype type)
{
    for (int depth = 0; depth < 70; depth++) {
        MPI_Datatype outer;
        MPI_Type_dup(type, &outer);
        MPI_Type_free(&type);
        type = outer;
    }
    return type;
}

/* Sums up, finalises and gives the exit code. Uses no collective that ferrorail takes. */
static inline int finish(const char *name)
{
    long mine[2] = {checks, failures}, all[2];
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    HOST(Allreduce)(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s ranks=%d checks=%ld failures=%ld ok=%s\n", name, ranks, all[0], all[1],
               all[1] == 0 ? "yes" : "no");
        fflush(stdout);
    }
    MPI_Finalize();
    return all[1] == 0 ? 0 : 1;
}

#endif
