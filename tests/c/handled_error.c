/* Ranks disagree on the length of a broadcast on the world and on a duplicate; the program handles the
 * error. Later calls there bring what they should or an error, on every rank and soon; a new duplicate works, and
 * the program ends like any other. Some host libraries report nothing, and then go on.
 *
 * handled_error [free: frees the duplicate first] */
#include <mpi.h>
#include <stdio.h>

static int wrong;

/* A sum over all ranks, or an error where there may be one. */
static void add_up(MPI_Comm comm, int may_fail, const char *what)
{
    int ranks, one = 1, sum = 0;
    MPI_Comm_size(comm, &ranks);
    int code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (code == MPI_SUCCESS ? sum == ranks : may_fail)
        return;
    fprintf(stderr, "%s: %s, sum of %d ranks is %d\n", what, code == MPI_SUCCESS ? "no error" : "an error", ranks, sum);
    wrong = 1;
}

static void go_on(MPI_Comm comm)
{
    MPI_Comm fresh;
    for (int i = 0; i < 3; i++)
        add_up(comm, 1, "after the error");
    MPI_Comm_dup(comm, &fresh);
    for (int i = 0; i < 3; i++)
        add_up(fresh, 0, "on a new duplicate");
    MPI_Comm_free(&fresh);
}

int main(int argc, char **argv)
{
    int rank, ranks, class = 0;
    static int values[1000];
    MPI_Comm copy;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(copy);
    for (int i = 0; i < 2; i++) {
        int code = MPI_Bcast(values, rank == ranks - 1 ? 500 : 1000, MPI_INT, 0, i ? copy : MPI_COMM_WORLD);
        MPI_Error_class(code, &class);
    }
    go_on(MPI_COMM_WORLD);
    go_on(copy);
    if (argc > 1)
        MPI_Comm_free(&copy);
    MPI_Finalize();
    printf("handled_error rank=%d class=%d ended=%s\n", rank, class, wrong ? "wrong" : "yes");
    return wrong;
}
