/* Ranks disagree on the length of a broadcast on the world and on a duplicate; the program handles the
 * error, and ends like any other. Some host libraries report nothing.
 *
 * handled_error [free: frees the duplicate first] */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, ranks, class = 0, values[4] = {1, 2, 3, 4};
    MPI_Comm copy;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(copy);
    for (int i = 0; i < 2; i++) {
        int code = MPI_Bcast(values, rank == ranks - 1 ? 2 : 4, MPI_INT, 0, i ? copy : MPI_COMM_WORLD);
        MPI_Error_class(code, &class);
    }
    if (argc > 1)
        MPI_Comm_free(&copy);
    MPI_Finalize();
    printf("handled_error rank=%d class=%d ended=yes\n", rank, class);
    return 0;
}
