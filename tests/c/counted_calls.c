/* A known number of collective calls, for the statistics to tell: on parts of the world that live to the
   end or are freed (`freed`), without or with (`world`) calls on the world itself, and two per part of
   the kind that ferrorail leaves to the host. Prints `counted_calls calls=N left=L ok=yes`. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define PARTS 3
#define ROUNDS 100

int main(int argc, char **argv) {
    int rank, ranks, freed = 0, world = 0;
    MPI_Init(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        freed |= strcmp(argv[i], "freed") == 0;
        world |= strcmp(argv[i], "world") == 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long calls = 0, left = 0;
    double mine = rank, all[64];
    for (int part = 0; part < PARTS; part++) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, part == 2 ? 0 : rank % 2, rank, &comm);
        for (int i = 0; i < ROUNDS; i++) {
            MPI_Allreduce(&mine, all, 1, MPI_DOUBLE, MPI_SUM, comm);
            MPI_Allgather(&mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, comm);
            MPI_Bcast(all, 0, MPI_DOUBLE, 0, comm);
        }
        calls += 3 * ROUNDS;
        /* Non-blocking collectives before the first blocking one. */
        MPI_Comm other;
        MPI_Comm_dup(comm, &other);
        for (int i = 0; i < 2; i++) {
            MPI_Request request;
            MPI_Ibarrier(other, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        left += 2;
        if (freed) {
            MPI_Comm_free(&other);
            MPI_Comm_free(&comm);
        }
    }
    if (world) {
        MPI_Barrier(MPI_COMM_WORLD);
        calls += 1;
    }
    if (rank == 0)
        printf("counted_calls calls=%ld left=%ld ok=yes\n", calls * ranks, left * ranks);
    MPI_Finalize();
    return 0;
}
