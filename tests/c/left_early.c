/* A rank that calls MPI_Finalize while others still make calls on communicators: these get an error, and do not wait for
 * ever. `many` broadcasts have a root that waits for nobody until it is too far ahead. What is a broadcast of nothing to
 * its root alone, and the last call there, has `other_length` for those who look later.
 *
 *     mpirun -n P left_early
 */
#include "check.h"

enum call { ALLREDUCE, GATHER, BCAST, REDUCE_SCATTER, MANY, OTHER_LENGTH, CALLS };

static const char *const names[] = {"allreduce", "gather", "bcast", "reduce_scatter", "many", "other_length"};
static int all[1 << 16], sum[1 << 16];

static int run(enum call call, int leaver, MPI_Comm comm)
{
    int result = MPI_SUCCESS;
    switch (call) {
    case ALLREDUCE:
        return MPI_Allreduce(all, sum, 1, MPI_INT, MPI_SUM, comm);
    case GATHER:
        return MPI_Gather(&leaver, 1, MPI_INT, all, 1, MPI_INT, 0, comm);
    case BCAST:
    case OTHER_LENGTH:
        return MPI_Bcast(all, 1 << 16, MPI_INT, leaver, comm);
    case REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(all, sum, 1000, MPI_INT, MPI_SUM, comm);
    default:
        for (int i = 0; i < 1000000 && result == MPI_SUCCESS; i++)
            result = MPI_Bcast(sum, 1, MPI_INT, 0, comm);
        return result;
    }
}

int main(int argc, char **argv)
{
    int rank, size, class, length;
    char text[MPI_MAX_ERROR_STRING] = "";
    MPI_Comm comms[CALLS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < CALLS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
        MPI_Allreduce(all, sum, 1, MPI_INT, MPI_SUM, comms[i]);
        for (int root = 0; root < size; root++)
            MPI_Bcast(sum, 1, MPI_INT, root, comms[i]);
    }
    int leaver = size - 1;
    if (rank == leaver) {
        MPI_Bcast(all, 0, MPI_INT, leaver, comms[OTHER_LENGTH]);
        return MPI_Finalize();
    }
    for (int i = 0; i < CALLS; i++) {
        snprintf(context, sizeof context, "%s", names[i]);
        int result = run(i, leaver, comms[i]);
        MPI_Error_class(result, &class);
        MPI_Error_string(result, text, &length);
        int may_succeed = i == GATHER && rank > 0; /* who sends waits for nobody */
        int may_be_truncated = i == OTHER_LENGTH;
        expect(class == MPI_ERR_OTHER || (may_succeed && class == MPI_SUCCESS) ||
                   (may_be_truncated && class == MPI_ERR_TRUNCATE),
               "class of the error", class, MPI_ERR_OTHER);
        if (rank == 0)
            printf("%s: %s\n", names[i], text);
    }
    if (rank == 0)
        printf("ok=%s\n", failures == 0 ? "yes" : "no");
    MPI_Finalize();
    return failures != 0;
}
