/* The MPI_Count forms of the collectives (MPI 4.0, section 19.2): data arrives, and a count beyond
 * `int` is not cut off, shown with a type of no bytes, so that it needs no memory.
 *
 *     mpirun -n P large_counts
 */
#include "check.h"

static const MPI_Count huge = 5000000000;

static void small_blocks(MPI_Comm comm, int rank, int size)
{
    int *mine = must(calloc((size_t)size, sizeof(int)));
    int *all = must(calloc((size_t)size, sizeof(int)));
    for (int root = 0; root < size; root++) {
        snprintf(context, sizeof context, "root %d", root);
        int value = rank == root ? 1000 + root : 0;
        expect(MPI_Bcast_c(&value, 1, MPI_INT, root, comm) == MPI_SUCCESS, "bcast", 0, 0);
        expect(value == 1000 + root, "value", value, root);
        for (int peer = 0; peer < size; peer++)
            mine[peer] = 10 * rank + peer;
        int code = MPI_Gather_c(mine, 1, MPI_INT, all, 1, MPI_INT, root, comm);
        expect(code == MPI_SUCCESS, "gather", code, 0);
        for (int peer = 0; rank == root && peer < size; peer++)
            expect(all[peer] == 10 * peer, "gathered", all[peer], peer);
        code = MPI_Scatter_c(mine, 1, MPI_INT, all, 1, MPI_INT, root, comm);
        expect(code == MPI_SUCCESS && all[0] == 10 * root + rank, "scattered", all[0], code);
    }
    snprintf(context, sizeof context, "everybody");
    int code = MPI_Allgather_c(mine, 1, MPI_INT, all, 1, MPI_INT, comm);
    for (int peer = 0; peer < size; peer++)
        expect(code == MPI_SUCCESS && all[peer] == 10 * peer, "all-gather", all[peer], code);
    code = MPI_Alltoall_c(mine, 1, MPI_INT, all, 1, MPI_INT, comm);
    for (int peer = 0; peer < size; peer++)
        expect(code == MPI_SUCCESS && all[peer] == 10 * peer + rank, "all-to-all", all[peer], code);
    free(mine);
    free(all);
}

static void huge_counts(MPI_Comm comm)
{
    MPI_Datatype empty;
    int a = 7, b = 8;
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    snprintf(context, sizeof context, "%lld elements without bytes", (long long)huge);
#define WORKS(name, call) expect(call == MPI_SUCCESS, name, 0, 0)
    WORKS("bcast", MPI_Bcast_c(&a, huge, empty, 0, comm));
    WORKS("gather", MPI_Gather_c(&a, huge, empty, &b, huge, empty, 0, comm));
    WORKS("scatter", MPI_Scatter_c(&a, huge, empty, &b, huge, empty, 0, comm));
    WORKS("all-gather", MPI_Allgather_c(&a, huge, empty, &b, huge, empty, comm));
    WORKS("all-to-all", MPI_Alltoall_c(&a, huge, empty, &b, huge, empty, comm));
#undef WORKS
    expect(a == 7 && b == 8, "memory", a, b);
    MPI_Type_free(&empty);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    small_blocks(MPI_COMM_WORLD, rank, size);
    huge_counts(MPI_COMM_WORLD);
    return finish("large_counts");
}
