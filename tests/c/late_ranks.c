/* A rank inside a collective must keep the host MPI going. Every round, one rank is stuck in a
 * synchronous send of a large message to a rank that has posted its receive and then entered the
 * all-gather: without the receiver's progress neither ever ends. Other ranks come late at random.
 *
 *     mpirun -n P late_ranks [rounds, default 20]
 */
#include "check.h"

#include <unistd.h>

enum { LARGE = 4 << 20, BLOCK = 5000 };

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long rounds = argc > 1 ? atol(argv[1]) : 20;
    unsigned char *message = must(malloc(LARGE)), *mine = must(malloc(BLOCK));
    unsigned char *all = must(malloc((size_t)size * BLOCK));
    for (long round = 0; round < rounds; round++) {
        int sender = (int)(round % size), receiver = (sender + 1) % size;
        MPI_Request request = MPI_REQUEST_NULL;
        snprintf(context, sizeof context, "round %ld", round);
        if (rank == receiver && size > 1) {
            memset(message, 0, LARGE);
            MPI_Irecv(message, LARGE, MPI_BYTE, sender, 9, MPI_COMM_WORLD, &request);
        }
        if (rank == sender && size > 1) {
            usleep(5000);
            fill(message, LARGE, round, rank);
            MPI_Ssend(message, LARGE, MPI_BYTE, receiver, 9, MPI_COMM_WORLD);
        } else {
            usleep((useconds_t)pattern(round, rank, 3) * 40);
        }
        fill(mine, BLOCK, round, rank);
        MPI_Allgather(mine, BLOCK, MPI_BYTE, all, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
        for (int peer = 0; peer < size; peer++)
            expect_pattern(all + (size_t)peer * BLOCK, BLOCK, round, peer);
        if (rank == receiver && size > 1) {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            expect_pattern(message, LARGE, round, sender);
        }
    }
    free(message);
    free(mine);
    free(all);
    return finish("late_ranks");
}
