/* Turns the blocking collectives of a program, into which it is linked or preloaded before ferrorail, into non-blocking ones
 * that are awaited at once, by one of the calls that there are for this. A communicator's first collective is preceded by an
 * MPI_Ibarrier and an MPI_Barrier, after which ferrorail takes non-blocking ones. Rank 0 of the world prints
 * `non-blocking: N calls` at the end. Operations of the program stay blocking: the hosts, which ferrorail leaves them to, crash
 * in them (Open MPI 4.1) or compute something else (MPICH 4.0).
 *
 * With PERSISTENT defined, into persistent ones (MPI 4.0), which are started twice if that changes nothing, and freed. Rank 0
 * prints `persistent: N calls`. Those on inter-communicators stay blocking, as not every host has a persistent form for them. */
#include <mpi.h>
#include <stdio.h>

static long nonblocking_calls;

/* Which way of waiting comes next; ranks need not agree. */
static unsigned nonblocking_ways;

/* Whether it is not MPI_Testall, in which MPICH fails with persistent reductions that are its own (4.0 and 5.0). */
static int no_testall;

static int await(MPI_Request *request)
{
    int code = MPI_SUCCESS, done = 0, index;
    MPI_Request pair[2] = {MPI_REQUEST_NULL, *request};
    MPI_Status statuses[2];
    switch (nonblocking_ways++ % 9) {
    case 0:
        return MPI_Wait(request, MPI_STATUS_IGNORE);
    case 1:
        return MPI_Waitall(1, request, statuses);
    case 2:
        return MPI_Waitany(2, pair, &index, statuses);
    case 3:
        return MPI_Waitsome(2, pair, &done, (int[2]){0}, statuses);
    case 4:
        while (code == MPI_SUCCESS && !done)
            code = MPI_Test(request, &done, statuses);
        return code;
    case 5:
        while (code == MPI_SUCCESS && !done)
            code = no_testall ? MPI_Test(request, &done, statuses)
                              : MPI_Testall(2, pair, &done, MPI_STATUSES_IGNORE);
        return code;
    case 6:
        while (code == MPI_SUCCESS && !done)
            code = MPI_Testany(2, pair, &index, &done, statuses);
        return code;
    case 7:
        while (code == MPI_SUCCESS && !done)
            code = MPI_Testsome(2, pair, &done, (int[2]){0}, statuses);
        return code;
    default:
        while (code == MPI_SUCCESS && !done)
            code = MPI_Request_get_status(*request, &done, statuses);
        return code == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : code;
    }
}

#ifdef PERSISTENT
#define KIND "persistent"
#define BEGIN(small, capital, ...) MPI_##capital##_init(__VA_ARGS__, MPI_INFO_NULL, &request)
#if MPI_VERSION < 4
#include "persistent.h"
#endif
#ifndef OPEN_MPI
#define FAILS_IN_TESTALL 1
#endif

/* The results of a request that was made with this `code`. It is started once if `from`, which is the same on all ranks, is
 * MPI_IN_PLACE: then its results are what the next start would begin with. */
static int results(int code, MPI_Request *request, const void *from)
{
    int starts = from == MPI_IN_PLACE ? 1 : 2;
    if (code != MPI_SUCCESS)
        return code;
    for (int start = 0; start < starts && code == MPI_SUCCESS; start++) {
        MPI_Request copy = *request;
        code = start ? MPI_Startall(1, request) : MPI_Start(request);
        if (code == MPI_SUCCESS)
            code = await(&copy);
        /* Of an inactive request this ends at once. */
        if (code == MPI_SUCCESS)
            code = MPI_Wait(request, MPI_STATUS_IGNORE);
    }
    int freed = MPI_Request_free(request);
    return code == MPI_SUCCESS && *request != MPI_REQUEST_NULL ? MPI_ERR_REQUEST : code == MPI_SUCCESS ? freed : code;
}

static int is_turned(MPI_Comm comm)
{
    int inter = 0;
    if (comm != MPI_COMM_NULL)
        MPI_Comm_test_inter(comm, &inter);
    return !inter;
}
#else
#define KIND "non-blocking"
#define BEGIN(small, capital, ...) MPI_I##small(__VA_ARGS__, &request)

static int results(int code, MPI_Request *request, const void *from)
{
    (void)from;
    return code == MPI_SUCCESS ? await(request) : code;
}

/* Has ferrorail prepare for non-blocking collectives on `comm`, if it is new. */
static void prepare(MPI_Comm comm)
{
    static int key = MPI_KEYVAL_INVALID;
    int known, inter;
    void *value;
    MPI_Request request;
    if (comm == MPI_COMM_NULL)
        return;
    if (key == MPI_KEYVAL_INVALID)
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_get_attr(comm, key, &value, &known);
    MPI_Comm_test_inter(comm, &inter);
    if (known || inter)
        return;
    MPI_Comm_set_attr(comm, key, &key);
    PMPI_Barrier(comm);
    MPI_Ibarrier(comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    PMPI_Barrier(comm);
}

static int is_turned(MPI_Comm comm)
{
    prepare(comm);
    return 1;
}
#endif

#ifndef FAILS_IN_TESTALL
#define FAILS_IN_TESTALL 0
#endif

static int is_predefined(MPI_Op op)
{
    const MPI_Op all[] = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_BAND, MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR,
                          MPI_MINLOC, MPI_MAXLOC};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (op == all[i])
            return 1;
    return 0;
}

#define TURN(name, small, parameters, from, ...) \
    int MPI_##name parameters \
    { \
        MPI_Request request = MPI_REQUEST_NULL; \
        if (!is_turned(c)) \
            return PMPI_##name(__VA_ARGS__); \
        nonblocking_calls++; \
        return results(BEGIN(small, name, __VA_ARGS__), &request, from); \
    }

#define TURN_REDUCTION(name, small, parameters, from, ...) \
    int MPI_##name parameters \
    { \
        MPI_Request request = MPI_REQUEST_NULL; \
        if (!is_turned(c) || !is_predefined(o)) \
            return PMPI_##name(__VA_ARGS__); \
        nonblocking_calls++; \
        no_testall = FAILS_IN_TESTALL; \
        int code = results(BEGIN(small, name, __VA_ARGS__), &request, from); \
        no_testall = 0; \
        return code; \
    }

#define DATA const void *s, int sc, MPI_Datatype st, void *r, int rc, MPI_Datatype rt
#define GATHERED const void *s, int sc, MPI_Datatype st, void *r, const int *rc, const int *d, MPI_Datatype rt
#define EXCHANGED \
    const void *s, const int *sc, const int *sd, MPI_Datatype st, void *r, const int *rc, const int *rd, MPI_Datatype rt
#define REDUCED const void *s, void *r, int n, MPI_Datatype t, MPI_Op o

TURN(Barrier, barrier, (MPI_Comm c), NULL, c)
TURN(Bcast, bcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c), NULL, b, n, t, root, c)
TURN(Gather, gather, (DATA, int root, MPI_Comm c), NULL, s, sc, st, r, rc, rt, root, c)
TURN(Scatter, scatter, (DATA, int root, MPI_Comm c), NULL, s, sc, st, r, rc, rt, root, c)
TURN(Allgather, allgather, (DATA, MPI_Comm c), s, s, sc, st, r, rc, rt, c)
TURN(Alltoall, alltoall, (DATA, MPI_Comm c), s, s, sc, st, r, rc, rt, c)
TURN(Gatherv, gatherv, (GATHERED, int root, MPI_Comm c), NULL, s, sc, st, r, rc, d, rt, root, c)
TURN(Scatterv, scatterv,
     (const void *s, const int *sc, const int *d, MPI_Datatype st, void *r, int rc, MPI_Datatype rt,
      int root, MPI_Comm c),
     NULL, s, sc, d, st, r, rc, rt, root, c)
TURN(Allgatherv, allgatherv, (GATHERED, MPI_Comm c), s, s, sc, st, r, rc, d, rt, c)
TURN(Alltoallv, alltoallv, (EXCHANGED, MPI_Comm c), s, s, sc, sd, st, r, rc, rd, rt, c)
TURN(Alltoallw, alltoallw,
     (const void *s, const int *sc, const int *sd, const MPI_Datatype *st, void *r, const int *rc,
      const int *rd, const MPI_Datatype *rt, MPI_Comm c),
     s, s, sc, sd, st, r, rc, rd, rt, c)
TURN(Neighbor_allgather, neighbor_allgather, (DATA, MPI_Comm c), NULL, s, sc, st, r, rc, rt, c)
TURN(Neighbor_alltoall, neighbor_alltoall, (DATA, MPI_Comm c), NULL, s, sc, st, r, rc, rt, c)
TURN(Neighbor_allgatherv, neighbor_allgatherv, (GATHERED, MPI_Comm c), NULL, s, sc, st, r, rc, d, rt, c)
TURN(Neighbor_alltoallv, neighbor_alltoallv, (EXCHANGED, MPI_Comm c), NULL, s, sc, sd, st, r, rc, rd, rt, c)
TURN(Neighbor_alltoallw, neighbor_alltoallw,
     (const void *s, const int *sc, const MPI_Aint *sd, const MPI_Datatype *st, void *r,
      const int *rc, const MPI_Aint *rd, const MPI_Datatype *rt, MPI_Comm c),
     NULL, s, sc, sd, st, r, rc, rd, rt, c)
TURN_REDUCTION(Allreduce, allreduce, (REDUCED, MPI_Comm c), s, s, r, n, t, o, c)
TURN_REDUCTION(Reduce, reduce, (REDUCED, int root, MPI_Comm c), MPI_IN_PLACE, s, r, n, t, o, root, c)
TURN_REDUCTION(Scan, scan, (REDUCED, MPI_Comm c), s, s, r, n, t, o, c)
TURN_REDUCTION(Exscan, exscan, (REDUCED, MPI_Comm c), s, s, r, n, t, o, c)
TURN_REDUCTION(Reduce_scatter, reduce_scatter,
               (const void *s, void *r, const int *n, MPI_Datatype t, MPI_Op o, MPI_Comm c), s, s, r, n,
               t, o, c)
TURN_REDUCTION(Reduce_scatter_block, reduce_scatter_block, (REDUCED, MPI_Comm c), s, s, r, n, t, o, c)

int MPI_Finalize(void)
{
    int rank;
    long all = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Reduce(&nonblocking_calls, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf(KIND ": %ld calls\n", all);
    fflush(stdout);
    return PMPI_Finalize();
}
