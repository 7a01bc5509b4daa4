/* Shared by the programs about ranks without ferrorail: what is right with any ranks, and whether it ran
 * in ferrorail. */
#ifndef PRESENCE_CHECK_H
#define PRESENCE_CHECK_H

#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

/* Calls that ferrorail left to the host so far; -1 in a process without it. */
static long left_to_host(void)
{
    unsigned long long (*forwarded)(const char *);
    forwarded = (unsigned long long (*)(const char *))dlsym(RTLD_DEFAULT, "ferrorail_forwarded");
    return forwarded == NULL ? -1 : (long)forwarded(NULL);
}

/* A put to the next rank of `comm`. */
static void use_window(MPI_Comm comm, int rank, int size)
{
    MPI_Win window;
    int *own;
#ifdef OPEN_MPI /* 4.1 alone makes few other windows, and none of one rank */
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &own, &window);
#else /* MPICH 4.0 alone loses puts to such windows of duplicates */
    own = must(malloc(sizeof(int)));
    MPI_Win_create(own, sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &window);
#endif
    MPI_Win_fence(0, window);
    *own = -1;
    MPI_Win_fence(0, window);
    MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    expect(*own == (rank + size - 1) % size, "put", *own, rank);
    MPI_Win_free(&window);
#ifndef OPEN_MPI
    free(own);
#endif
}

/* Collectives and a window on `comm`, whose ranks have `mine`. */
static void use(MPI_Comm comm, const char *name, int mine)
{
    int rank, size, least, sum = 0, from = -1, *all;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    snprintf(context, sizeof context, "%s of %d", name, size);
    MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, comm);
    expect(least == 100, "least of all 100", least, mine);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(sum == size * (size - 1) / 2, "sum of ranks", sum, size);
    if (rank == size - 1)
        from = 1000 + size;
    MPI_Bcast(&from, 1, MPI_INT, size - 1, comm);
    expect(from == 1000 + size, "broadcast", from, size);
    all = must(malloc((size_t)size * sizeof(int)));
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm);
    for (int peer = 0; peer < size; peer++)
        expect(all[peer] == peer, "all-gather", peer, all[peer]);
    MPI_Barrier(comm);
    free(all);
    if (size > 1 || left_to_host() >= 0)
        use_window(comm, rank, size);
}

/* The same, of which nothing, or something, may be left to the host. */
static inline void use_there(MPI_Comm comm, const char *name, int taken)
{
    long before = left_to_host();
    use(comm, name, 100);
    if (before >= 0)
        expect((left_to_host() == before) == taken, "calls left to the host", before, left_to_host());
}

#endif
