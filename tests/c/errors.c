/* Wrong arguments: the error class that collectives return, and that the communicator's error
 * handler ran. All ranks make the same mistake, so that nobody waits. Prints `class CASE NUMBER`
 * lines; their comparison with those of a run without ferrorail is the test. Afterwards the
 * communicator must still work.
 *
 *     mpirun -n P errors
 */
#include "check.h"

static int handled;

static void count(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    handled++;
}

/* Reports one case. With MPI_ERRORS_RETURN the code tells of the error; with a handler of our own
 * its call does, for some libraries then return MPI_SUCCESS. */
static void report(int rank, const char *name, int code, int own_handler)
{
    int class = -1;
    MPI_Error_class(code, &class);
    snprintf(context, sizeof context, "%s", name);
    if (own_handler)
        expect(handled >= 1, "error handler calls", handled, 1);
    else
        expect(code != MPI_SUCCESS, "no error", code, 0);
    handled = 0;
    if (rank == 0) {
        printf("class %s %d\n", name, class);
        fflush(stdout);
    }
}

static void right_call(MPI_Comm comm, int size, const char *when)
{
    int mine, *all = must(calloc((size_t)size, sizeof(int)));
    MPI_Comm_rank(comm, &mine);
    snprintf(context, sizeof context, "%s", when);
    expect(MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm) == MPI_SUCCESS, "code", 0, 0);
    for (int peer = 0; peer < size; peer++)
        expect(all[peer] == peer, "block", peer, all[peer]);
    free(all);
}

static void wrong_calls(MPI_Comm comm, int rank, int size, int own_handler)
{
    int mine = rank, *all = must(calloc((size_t)size + 1, sizeof(int)));
    right_call(comm, size, "before the errors");
    double pair[4] = {0};
    MPI_Datatype loose, tight;
    MPI_Type_vector(2, 1, 2, MPI_INT, &loose);
    MPI_Type_contiguous(2, MPI_INT, &tight);
    MPI_Type_commit(&tight);
#define CASE(name, ...) report(rank, name, MPI_Allgather(__VA_ARGS__), own_handler)
    CASE("negative_send_count", &mine, -1, MPI_INT, all, 1, MPI_INT, comm);
    CASE("negative_recv_count", &mine, 1, MPI_INT, all, -1, MPI_INT, comm);
    CASE("null_send_type", &mine, 1, MPI_DATATYPE_NULL, all, 1, MPI_INT, comm);
    CASE("null_recv_type", &mine, 1, MPI_INT, all, 1, MPI_DATATYPE_NULL, comm);
    CASE("uncommitted_type", &mine, 1, loose, all, 1, loose, comm);
    CASE("in_place_as_recv", &mine, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm);
#undef CASE
#define CASE(name, call) report(rank, name, call, own_handler)
    CASE("negative_bcast_count", MPI_Bcast(all, -1, MPI_INT, 0, comm));
    CASE("uncommitted_bcast_type", MPI_Bcast(all, 1, loose, 0, comm));
    CASE("bcast_root_too_high", MPI_Bcast(all, 1, MPI_INT, size, comm));
    CASE("bcast_root_negative", MPI_Bcast(all, 1, MPI_INT, -99, comm));
    CASE("gather_root_too_high", MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, size, comm));
    CASE("scatter_root_too_high", MPI_Scatter(all, 1, MPI_INT, &mine, 1, MPI_INT, size, comm));
    CASE("reduce_root_too_high", MPI_Reduce(&mine, all, 1, MPI_INT, MPI_SUM, size, comm));
#ifdef OPEN_MPI /* MPICH 4.0 crashes */
    CASE("negative_allreduce_count", MPI_Allreduce(&mine, all, -1, MPI_INT, MPI_SUM, comm));
#endif
    CASE("null_operation", MPI_Allreduce(&mine, all, 1, MPI_INT, MPI_OP_NULL, comm));
    CASE("maximum_of_complex",
         MPI_Allreduce(pair, pair + 2, 1, MPI_C_FLOAT_COMPLEX, MPI_MAX, comm));
    CASE("bits_of_double", MPI_Scan(pair, pair + 2, 1, MPI_DOUBLE, MPI_BAND, comm));
    CASE("sum_of_pairs", MPI_Reduce(pair, pair + 2, 1, MPI_DOUBLE_INT, MPI_SUM, 0, comm));
    CASE("sum_of_derived", MPI_Allreduce(pair, pair + 2, 1, tight, MPI_SUM, comm));
    CASE("negative_alltoall_count", MPI_Alltoall(all, -1, MPI_INT, all + 1, 1, MPI_INT, comm));
#undef CASE
    MPI_Type_free(&loose);
    MPI_Type_free(&tight);
    right_call(comm, size, "after the errors");
    free(all);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
#ifndef OPEN_MPI /* 4.1 crashes */
    int mine = rank, *all = must(calloc((size_t)size, sizeof(int)));
    report(rank, "null_comm", MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_NULL), 0);
    free(all);
#endif
    wrong_calls(MPI_COMM_WORLD, rank, size, 0);

    MPI_Comm comm;
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(count, &handler);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, handler);
    wrong_calls(comm, rank, size, 1);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    return finish("errors");
}
