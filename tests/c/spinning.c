/* A rank waits in a barrier while another is in a rendezvous send of the host's to it: however long the
 * first one spins, the host's progress goes on. Fails if that takes more than a few seconds.
 *
 *     spinning
 */
#include "check.h"

enum { BYTES = 4 << 20 };

int main(int argc, char **argv)
{
    int rank;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *memory = must(malloc(BYTES));
    snprintf(context, sizeof context, "spinning");
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (rank == 1)
        MPI_Irecv(memory, BYTES, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request);
    else if (rank == 0)
        MPI_Send(memory, BYTES, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    double took = MPI_Wtime() - start;
    expect(took < 5, "milliseconds", (long)(1e3 * took), 5000);
    free(memory);
    return finish("spinning");
}
