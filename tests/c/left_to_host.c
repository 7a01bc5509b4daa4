/* The neighbourhood collectives, which ferrorail leaves to the host: results are right, and the
 * statistics count them.
 *
 *     mpirun -n P left_to_host
 */
#include "check.h"

int main(int argc, char **argv)
{
    int rank, size, period = 1;
    MPI_Comm ring;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(context, sizeof context, "left to the host");
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &period, 0, &ring);
    int left, right, got[2], two[2] = {rank, rank + 100}, ones[2] = {1, 1}, steps[2] = {0, 1};
    MPI_Aint offsets[2] = {0, sizeof(int)};
    MPI_Datatype ints[2] = {MPI_INT, MPI_INT};
    MPI_Cart_shift(ring, 0, 1, &left, &right);
#define GOT(a, b) expect(got[0] == (a) && got[1] == (b), "neighbours", got[0], got[1])
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, ring);
    GOT(left, right);
    MPI_Neighbor_allgatherv(&rank, 1, MPI_INT, got, ones, steps, MPI_INT, ring);
    GOT(left, right);
    if (size > 2) { /* else both neighbours are the same rank, and their order is the library's */
        MPI_Neighbor_alltoall(two, 1, MPI_INT, got, 1, MPI_INT, ring);
        GOT(left + 100, right);
        MPI_Neighbor_alltoallv(two, ones, steps, MPI_INT, got, ones, steps, MPI_INT, ring);
        GOT(left + 100, right);
        MPI_Neighbor_alltoallw(two, ones, offsets, ints, got, ones, offsets, ints, ring);
        GOT(left + 100, right);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&ring);
    return finish("left_to_host");
}
