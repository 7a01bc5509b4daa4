/* Buffers that are the same where they must not be. Prints a line `class CASE ROOT rank R: N` for each
   call; after each, calls without fault must be right, whichever ranks had an error. On one rank the
   lines must be as over the host alone. On more, MPICH 4.0 alone gets out of step, or hangs. Prints
   `aliases ranks=N ok=yes|no`. */
#include "check.h"

static int rank, size;
static int memory[4096], other[4096];

static void report(const char *name, int root, MPI_Comm comm, int code)
{
    int class = 0;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    printf("class %s root %d rank %d: %d\n", name, root, rank, class);
    fflush(stdout);
    int mine = rank + 1;
    snprintf(context, sizeof context, "after %s, root %d", name, root);
    memset(other, 0, sizeof other);
    MPI_Gather(&mine, 1, MPI_INT, other, 1, MPI_INT, root, comm);
    for (int peer = 0; rank == root && peer < size; peer++)
        expect(other[peer] == peer + 1, "gather", other[peer], peer);
    MPI_Allgather(&mine, 1, MPI_INT, other, 1, MPI_INT, comm);
    for (int peer = 0; peer < size; peer++)
        expect(other[peer] == peer + 1, "all-gather", other[peer], peer);
}

int main(int argc, char **argv)
{
    enum { N = 7 };
    MPI_Comm comm;
    int counts[64], at[64], back[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int peer = 0; peer < size; peer++) {
        counts[peer] = N;
        at[peer] = N * peer;
        back[peer] = N * (size - 1 - peer);
    }
    int *own = memory + N * rank, *shifted = memory + N * (size - 1 - rank), *apart = memory + 1000;
    for (int root = 0; root < size; root += size > 1 ? size - 1 : 1) {
#define CASE(name, call) report(name, root, comm, call)
        CASE("gather base", MPI_Gather(memory, N, MPI_INT, memory, N, MPI_INT, root, comm));
        CASE("gather own", MPI_Gather(own, N, MPI_INT, memory, N, MPI_INT, root, comm));
        CASE("gather none", MPI_Gather(own, 0, MPI_INT, memory, 0, MPI_INT, root, comm));
        CASE("scatter base", MPI_Scatter(memory, N, MPI_INT, memory, N, MPI_INT, root, comm));
        CASE("scatter own", MPI_Scatter(memory, N, MPI_INT, own, N, MPI_INT, root, comm));
        CASE("scatter none", MPI_Scatter(memory, 0, MPI_INT, own, 0, MPI_INT, root, comm));
        CASE("gatherv base", MPI_Gatherv(memory, N, MPI_INT, memory, counts, at, MPI_INT, root, comm));
        CASE("gatherv own", MPI_Gatherv(own, N, MPI_INT, memory, counts, at, MPI_INT, root, comm));
        CASE("gatherv back", MPI_Gatherv(shifted, N, MPI_INT, memory, counts, back, MPI_INT, root, comm));
        CASE("scatterv base", MPI_Scatterv(memory, counts, at, MPI_INT, memory, N, MPI_INT, root, comm));
        CASE("scatterv own", MPI_Scatterv(memory, counts, at, MPI_INT, own, N, MPI_INT, root, comm));
        CASE("scatterv back", MPI_Scatterv(memory, counts, back, MPI_INT, shifted, N, MPI_INT, root, comm));
        CASE("allgather base", MPI_Allgather(memory, N, MPI_INT, memory, N, MPI_INT, comm));
        CASE("allgather own", MPI_Allgather(own, N, MPI_INT, memory, N, MPI_INT, comm));
        CASE("allgatherv base", MPI_Allgatherv(memory, N, MPI_INT, memory, counts, at, MPI_INT, comm));
        CASE("allgatherv own", MPI_Allgatherv(own, N, MPI_INT, memory, counts, at, MPI_INT, comm));
        CASE("allgatherv back",
             MPI_Allgatherv(shifted, N, MPI_INT, memory, counts, back, MPI_INT, comm));
        CASE("alltoall base", MPI_Alltoall(memory, N, MPI_INT, memory, N, MPI_INT, comm));
        CASE("alltoallv base",
             MPI_Alltoallv(memory, counts, at, MPI_INT, memory, counts, at, MPI_INT, comm));
        CASE("gather short",
             MPI_Gather(apart, N, MPI_INT, memory, rank == root ? N - 1 : 0, MPI_INT, root, comm));
        CASE("gather negative",
             MPI_Gather(apart, N, MPI_INT, memory, rank == root ? -1 : 0, MPI_INT, root, comm));
        CASE("scatter long", MPI_Scatter(apart, N, MPI_INT, memory, N - (rank == root), MPI_INT, root, comm));
        CASE("gatherv short",
             MPI_Gatherv(apart, N + (rank == root), MPI_INT, memory, counts, at, MPI_INT, root, comm));
        CASE("gatherv of nothing",
             MPI_Gatherv(apart, N, MPI_INT, memory, counts, at, rank == root ? MPI_DATATYPE_NULL : MPI_INT,
                         root, comm));
        CASE("scatterv long",
             MPI_Scatterv(memory, counts, at, MPI_INT, apart, N - (rank == root), MPI_INT, root, comm));
        CASE("reduce same", MPI_Reduce(apart, rank == root ? apart : memory, N, MPI_INT, MPI_SUM, root, comm));
        CASE("gather apart", MPI_Gather(apart, N, MPI_INT, memory, N, MPI_INT, root, comm));
    }
    MPI_Comm_free(&comm);
    return finish("aliases");
}
