/* A profiling tool as programs link or preload them: each wrapper counts and calls PMPI_*. One of
   TOOL_ALL, TOOL_SOME (collectives that move data, and operations, but nothing that completes) and
   TOOL_COMPLETION (barriers and all that completes operations) says what is wrapped. Rank 0 of the
   world prints `tool: N calls` at the end. TOOL_RIVAL answers a PMPI function itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

static long tool_calls;

#define WRAP(name, parameters, arguments) \
    int MPI_##name parameters { \
        __atomic_fetch_add(&tool_calls, 1, __ATOMIC_RELAXED); \
        return PMPI_##name arguments; \
    }

#if defined(TOOL_ALL)
#define MOVES 1
#define COMPLETES 1
#define MAKES 1
#elif defined(TOOL_SOME)
#define MOVES 1
#elif defined(TOOL_COMPLETION)
#define COMPLETES 1
#elif defined(TOOL_RIVAL)
int PMPI_Win_fence(int a, MPI_Win w) {
    int (*next)(int, MPI_Win) = (int (*)(int, MPI_Win))dlsym(RTLD_NEXT, "PMPI_Win_fence");
    return next(a, w);
}
#else
#error "what is to be wrapped?"
#endif

#ifdef MOVES
#define DATA(P, T) P *s, int sc, MPI_Datatype st, T *r, int rc, MPI_Datatype rt
WRAP(Bcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
WRAP(Gather, (DATA(const void, void), int root, MPI_Comm c), (s, sc, st, r, rc, rt, root, c))
WRAP(Scatter, (DATA(const void, void), int root, MPI_Comm c), (s, sc, st, r, rc, rt, root, c))
WRAP(Allgather, (DATA(const void, void), MPI_Comm c), (s, sc, st, r, rc, rt, c))
WRAP(Alltoall, (DATA(const void, void), MPI_Comm c), (s, sc, st, r, rc, rt, c))
WRAP(Gatherv,
     (const void *s, int sc, MPI_Datatype st, void *r, const int *rc, const int *d, MPI_Datatype rt,
      int root, MPI_Comm c),
     (s, sc, st, r, rc, d, rt, root, c))
WRAP(Scatterv,
     (const void *s, const int *sc, const int *d, MPI_Datatype st, void *r, int rc, MPI_Datatype rt,
      int root, MPI_Comm c),
     (s, sc, d, st, r, rc, rt, root, c))
WRAP(Allgatherv,
     (const void *s, int sc, MPI_Datatype st, void *r, const int *rc, const int *d, MPI_Datatype rt,
      MPI_Comm c),
     (s, sc, st, r, rc, d, rt, c))
WRAP(Alltoallv,
     (const void *s, const int *sc, const int *sd, MPI_Datatype st, void *r, const int *rc,
      const int *rd, MPI_Datatype rt, MPI_Comm c),
     (s, sc, sd, st, r, rc, rd, rt, c))
WRAP(Alltoallw,
     (const void *s, const int *sc, const int *sd, const MPI_Datatype *st, void *r, const int *rc,
      const int *rd, const MPI_Datatype *rt, MPI_Comm c),
     (s, sc, sd, st, r, rc, rd, rt, c))
WRAP(Allreduce, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
     (s, r, n, t, o, c))
WRAP(Reduce, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c),
     (s, r, n, t, o, root, c))
WRAP(Scan, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
     (s, r, n, t, o, c))
WRAP(Exscan, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
     (s, r, n, t, o, c))
WRAP(Reduce_scatter, (const void *s, void *r, const int *n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
     (s, r, n, t, o, c))
WRAP(Reduce_scatter_block, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
     (s, r, n, t, o, c))
#define AT int sc, MPI_Datatype st, int to, MPI_Aint d, int tc, MPI_Datatype tt
#define PLACE sc, st, to, d, tc, tt
WRAP(Put, (const void *s, AT, MPI_Win w), (s, PLACE, w))
WRAP(Get, (void *s, AT, MPI_Win w), (s, PLACE, w))
WRAP(Accumulate, (const void *s, AT, MPI_Op o, MPI_Win w), (s, PLACE, o, w))
WRAP(Rput, (const void *s, AT, MPI_Win w, MPI_Request *q), (s, PLACE, w, q))
WRAP(Rget, (void *s, AT, MPI_Win w, MPI_Request *q), (s, PLACE, w, q))
WRAP(Raccumulate, (const void *s, AT, MPI_Op o, MPI_Win w, MPI_Request *q), (s, PLACE, o, w, q))
WRAP(Get_accumulate,
     (const void *s, int sn, MPI_Datatype sy, void *r, AT, MPI_Op o, MPI_Win w),
     (s, sn, sy, r, PLACE, o, w))
WRAP(Fetch_and_op,
     (const void *s, void *r, MPI_Datatype t, int to, MPI_Aint d, MPI_Op o, MPI_Win w),
     (s, r, t, to, d, o, w))
WRAP(Compare_and_swap,
     (const void *s, const void *x, void *r, MPI_Datatype t, int to, MPI_Aint d, MPI_Win w),
     (s, x, r, t, to, d, w))
#endif

#ifdef COMPLETES
WRAP(Barrier, (MPI_Comm c), (c))
WRAP(Win_fence, (int a, MPI_Win w), (a, w))
WRAP(Win_complete, (MPI_Win w), (w))
WRAP(Win_wait, (MPI_Win w), (w))
WRAP(Win_test, (MPI_Win w, int *flag), (w, flag))
WRAP(Win_unlock, (int to, MPI_Win w), (to, w))
WRAP(Win_unlock_all, (MPI_Win w), (w))
WRAP(Win_flush, (int to, MPI_Win w), (to, w))
WRAP(Win_flush_local, (int to, MPI_Win w), (to, w))
WRAP(Win_flush_all, (MPI_Win w), (w))
WRAP(Win_flush_local_all, (MPI_Win w), (w))
WRAP(Win_sync, (MPI_Win w), (w))
#endif

#ifdef MAKES
WRAP(Init, (int *argc, char ***argv), (argc, argv))
WRAP(Init_thread, (int *argc, char ***argv, int level, int *got), (argc, argv, level, got))
WRAP(Win_create, (void *b, MPI_Aint n, int u, MPI_Info i, MPI_Comm c, MPI_Win *w),
     (b, n, u, i, c, w))
WRAP(Win_allocate, (MPI_Aint n, int u, MPI_Info i, MPI_Comm c, void *b, MPI_Win *w),
     (n, u, i, c, b, w))
WRAP(Win_allocate_shared, (MPI_Aint n, int u, MPI_Info i, MPI_Comm c, void *b, MPI_Win *w),
     (n, u, i, c, b, w))
WRAP(Win_create_dynamic, (MPI_Info i, MPI_Comm c, MPI_Win *w), (i, c, w))
WRAP(Win_shared_query, (MPI_Win w, int rank, MPI_Aint *n, int *u, void *b), (w, rank, n, u, b))
WRAP(Win_attach, (MPI_Win w, void *b, MPI_Aint n), (w, b, n))
WRAP(Win_detach, (MPI_Win w, const void *b), (w, b))
WRAP(Win_free, (MPI_Win *w), (w))
WRAP(Win_get_attr, (MPI_Win w, int key, void *value, int *flag), (w, key, value, flag))
WRAP(Win_post, (MPI_Group g, int a, MPI_Win w), (g, a, w))
WRAP(Win_start, (MPI_Group g, int a, MPI_Win w), (g, a, w))
WRAP(Win_lock, (int kind, int to, int a, MPI_Win w), (kind, to, a, w))
WRAP(Win_lock_all, (int a, MPI_Win w), (a, w))
#endif

/* Like tools that sum up what all ranks counted, with calls that nobody else sees. */
int MPI_Finalize(void) {
    int rank;
    long all = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Reduce(&tool_calls, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("tool: %ld calls\n", all);
    fflush(stdout);
    return PMPI_Finalize();
}
