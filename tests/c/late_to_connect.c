/* Ranks of a node wait for one of another, first to connect to it and then for its words about lengths: no
 * rank may take what another showed in the first wait for another call. For rails with a latency of 0.2 s. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    enum { ROOM = 8, RANKS_MAX = 64 };
    int rank, size, lengths[RANKS_MAX], where[RANKS_MAX];
    unsigned char mine[RANKS_MAX], all[ROOM * RANKS_MAX];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int peer = 0; peer < size; peer++)
        lengths[peer] = 1 + peer % ROOM, where[peer] = ROOM * peer;
    fill(mine, (size_t)lengths[rank], 1, rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1)
        usleep(400000);
    MPI_Gatherv(mine, lengths[rank], MPI_BYTE, all, lengths, where, MPI_BYTE, 0, MPI_COMM_WORLD);
    for (int peer = 0; rank == 0 && peer < size; peer++)
        expect_pattern(all + where[peer], (size_t)lengths[peer], 1, peer);
    return finish("late_to_connect");
}
