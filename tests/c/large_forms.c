/* The forms with MPI_Count, found by name as programs do that run on hosts with and without them:
   where they are found they work, on calls that ferrorail takes and on those it leaves to the host.
   Counts that the host cannot take are MPI_ERR_COUNT, where the host has no such form (`refuses`).
   Prints `large_forms ranks=N found=F ok=yes|no`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, wrong, found;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            wrong++; \
            fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #condition); \
        } \
    } while (0)

static void *find(const char *name) {
    void *address = dlsym(RTLD_DEFAULT, name);
    found += address != NULL;
    return address;
}

typedef MPI_Datatype T;
typedef MPI_Count N;
typedef MPI_Aint D;

/* All ranks of `comm`, or of its other group, exchange i + 1 numbers with rank i, in gaps. */
static void vectors(MPI_Comm comm, int peers, int me) {
    int (*alltoallv)(const void *, const N *, const D *, T, void *, const N *, const D *, T, MPI_Comm) =
        find("MPI_Alltoallv_c");
    int (*alltoallw)(const void *, const N *, const D *, const T *, void *, const N *, const D *,
                     const T *, MPI_Comm) = find("MPI_Alltoallw_c");
    int (*allgatherv)(const void *, N, T, void *, const N *, const D *, T, MPI_Comm) =
        find("MPI_Allgatherv_c");
    if (!alltoallv || !alltoallw || !allgatherv)
        return;
    N sent[64], received[64];
    D from[64], to[64], from_bytes[64], to_bytes[64];
    T types[64];
    int out[64 * 70], in[64 * 70];
    for (int i = 0; i < peers; i++) {
        sent[i] = i + 1;
        received[i] = me + 1;
        from[i] = to[i] = 70 * i;
        from_bytes[i] = to_bytes[i] = 70 * i * (D)sizeof(int);
        types[i] = MPI_INT;
        for (int j = 0; j < 70; j++)
            out[70 * i + j] = 10000 * me + 100 * i + j;
    }
    for (int form = 0; form < 2; form++) {
        memset(in, -1, sizeof in);
        if (form == 0)
            CHECK(alltoallv(out, sent, from, MPI_INT, in, received, to, MPI_INT, comm) == 0);
        else
            CHECK(alltoallw(out, sent, from_bytes, types, in, received, to_bytes, types, comm) == 0);
        for (int i = 0; i < peers; i++)
            for (int j = 0; j < 70; j++)
                CHECK(in[70 * i + j] == (j <= me ? 10000 * i + 100 * me + j : -1));
    }
    for (int i = 0; i < peers; i++)
        received[i] = i + 1;
    memset(in, -1, sizeof in);
    CHECK(allgatherv(out, me + 1, MPI_INT, in, received, to, MPI_INT, comm) == 0);
    for (int i = 0; i < peers; i++)
        for (int j = 0; j < 70; j++)
            CHECK(in[70 * i + j] == (j <= i ? 10000 * i + j : -1));
}

/* `root` means this rank's part: its rank, MPI_ROOT, or the rank of the root. Others pass no arrays. */
static void rooted(MPI_Comm comm, int root, int is_root, int sends, int peers, int me) {
    int (*gatherv)(const void *, N, T, void *, const N *, const D *, T, int, MPI_Comm) =
        find("MPI_Gatherv_c");
    int (*scatterv)(const void *, const N *, const D *, T, void *, N, T, int, MPI_Comm) =
        find("MPI_Scatterv_c");
    if (!gatherv || !scatterv)
        return;
    N counts[64];
    D at[64];
    int all[64 * 64], mine[64];
    for (int i = 0; i < peers; i++) {
        counts[i] = i + 1;
        at[i] = 64 * i;
    }
    for (int j = 0; j < 64; j++)
        mine[j] = 100 * me + j;
    memset(all, -1, sizeof all);
    CHECK(gatherv(mine, me + 1, MPI_INT, all, is_root ? counts : NULL, is_root ? at : NULL, MPI_INT,
                  root, comm) == 0);
    for (int i = 0; is_root && i < peers; i++)
        for (int j = 0; j < 64; j++)
            CHECK(all[64 * i + j] == (j <= i ? 100 * i + j : -1));
    memset(mine, -1, sizeof mine);
    CHECK(scatterv(all, is_root ? counts : NULL, is_root ? at : NULL, MPI_INT, mine, me + 1, MPI_INT,
                   root, comm) == 0);
    for (int j = 0; sends && j < 64; j++)
        CHECK(mine[j] == (j <= me ? 100 * me + j : -1));
}

static void neighbours(MPI_Comm comm, int before, int after) {
    int (*allgather)(const void *, N, T, void *, N, T, MPI_Comm) = find("MPI_Neighbor_allgather_c");
    int (*alltoallv)(const void *, const N *, const D *, T, void *, const N *, const D *, T, MPI_Comm) =
        find("MPI_Neighbor_alltoallv_c");
    int (*alltoallw)(const void *, const N *, const D *, const T *, void *, const N *, const D *,
                     const T *, MPI_Comm) = find("MPI_Neighbor_alltoallw_c");
    if (!allgather || !alltoallv || !alltoallw)
        return;
    int mine = rank, got[2] = {-1, -1}, out[2] = {2 * rank, 2 * rank + 1};
    CHECK(allgather(&mine, 1, MPI_INT, got, 1, MPI_INT, comm) == 0);
    CHECK(got[0] == before && got[1] == after);
    N counts[2] = {1, 1};
    D at[2] = {0, 1}, bytes[2] = {0, sizeof(int)};
    T types[2] = {MPI_INT, MPI_INT};
    for (int form = 0; form < 2 && before != after; form++) {
        got[0] = got[1] = -1;
        if (form == 0)
            CHECK(alltoallv(out, counts, at, MPI_INT, got, counts, at, MPI_INT, comm) == 0);
        else
            CHECK(alltoallw(out, counts, bytes, types, got, counts, bytes, types, comm) == 0);
        CHECK(got[0] == 2 * before + 1 && got[1] == 2 * after);
    }
}

static void windows(MPI_Comm comm, const char *how) {
    int (*make)(D, D, MPI_Info, MPI_Comm, void *, MPI_Win *) = find("MPI_Win_allocate_c");
    int (*put)(const void *, N, T, int, D, N, T, MPI_Win) = find("MPI_Put_c");
    int (*query)(MPI_Win, int, D *, D *, void *) = find("MPI_Win_shared_query_c");
    int (*shared)(D, D, MPI_Info, MPI_Comm, void *, MPI_Win *) = find("MPI_Win_allocate_shared_c");
    if (!make || !put || !query || !shared)
        return;
    int *memory, me, n, value;
    MPI_Win win;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    CHECK(make(64, sizeof(int), MPI_INFO_NULL, comm, &memory, &win) == 0);
    memory[0] = -1;
    value = 100 + me;
    MPI_Win_fence(0, win);
    CHECK(put(&value, 1, MPI_INT, (me + 1) % n, 0, 1, MPI_INT, win) == 0);
    MPI_Win_fence(0, win);
    CHECK(memory[0] == 100 + (me + n - 1) % n);
    MPI_Win_free(&win);
    if (strcmp(how, "apart") == 0)
        return;
    CHECK(shared(64, sizeof(int), MPI_INFO_NULL, comm, &memory, &win) == 0);
    D bytes = -1, unit = -1;
    void *base = NULL;
    CHECK(query(win, n - 1, &bytes, &unit, &base) == 0);
    CHECK(bytes == 64 && unit == sizeof(int) && base != NULL);
    MPI_Win_free(&win);
    /* A unit that only this form can tell; hosts alone make no such windows. */
    if (getenv("LD_PRELOAD") == NULL)
        return;
    const D large = (D)3 << 31;
    int small, class = -1;
    CHECK(shared(64, large, MPI_INFO_NULL, comm, &memory, &win) == 0);
    CHECK(query(win, n - 1, &bytes, &unit, &base) == 0 && unit == large);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Win_shared_query(win, n - 1, &bytes, &small, &base), &class);
    CHECK(class == MPI_ERR_DISP);
    MPI_Win_free(&win);
}

static void refuses(MPI_Comm two_groups, MPI_Comm ring) {
    int (*bcast)(void *, N, T, int, MPI_Comm) = find("MPI_Bcast_c");
    int (*alltoallv)(const void *, const N *, const D *, T, void *, const N *, const D *, T, MPI_Comm) =
        find("MPI_Neighbor_alltoallv_c");
    N one_each[2] = {1, 1}, counts[2] = {1, 1L << 40};
    D at[2] = {0, 0};
    static int sent_and_received[2];
    int *number = sent_and_received, class = -1;
    MPI_Comm_set_errhandler(two_groups, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    MPI_Error_class(bcast(number, 1L << 40, MPI_INT, 0, two_groups), &class);
    CHECK(class == MPI_ERR_COUNT);
    class = -1;
    MPI_Error_class(
        alltoallv(number, one_each, at, MPI_INT, number + 1, counts, at, MPI_INT, ring), &class);
    CHECK(class == MPI_ERR_COUNT);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *how = argc > 1 ? argv[1] : "";
    MPI_Comm half, other, ring;
    int all = ranks, periodic = 1, before, after;
    vectors(MPI_COMM_WORLD, ranks, rank);
    rooted(MPI_COMM_WORLD, ranks - 1, rank == ranks - 1, 1, ranks, rank);
    windows(MPI_COMM_WORLD, how);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &all, &periodic, 0, &ring);
    MPI_Cart_shift(ring, 0, 1, &before, &after);
    neighbours(ring, before, after);
    if (ranks > 1) {
        int side = rank % 2, me, others;
        MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 0, &other);
        MPI_Comm_rank(half, &me);
        MPI_Comm_remote_size(other, &others);
        int (*allreduce)(const void *, void *, N, T, MPI_Op, MPI_Comm) = find("MPI_Allreduce_c");
        if (allreduce) {
            int sum = -1;
            CHECK(allreduce(&side, &sum, 1, MPI_INT, MPI_SUM, other) == 0);
            CHECK(sum == (1 - side) * others);
        }
        if (ranks % 2 == 0)
            vectors(other, others, me);
        int root = side == 1 ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL;
        rooted(other, root, root == MPI_ROOT, side == 1, others, me);
        if (strcmp(how, "refuses") == 0)
            refuses(other, ring);
        MPI_Comm_free(&other);
        MPI_Comm_free(&half);
    }
    MPI_Comm_free(&ring);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("large_forms ranks=%d found=%d ok=%s\n", ranks, found, wrong ? "no" : "yes");
    MPI_Finalize();
    return wrong != 0;
}
