/* A rank that is done with communicators frees them and finalizes while another one is seconds behind.
 * Every broadcast must bring what was sent, and MPI_Comm_free must not wait for the late rank.
 *
 * late_free SECONDS LATE_RANK [BYTES (8)] [KEEP: communicators that are never freed (0)] */
#include "check.h"
#include <unistd.h>

enum { BROADCASTS = 100, LATE_AT = 40 };

int main(int argc, char **argv)
{
    int seconds = atoi(argv[1]), late = atoi(argv[2]), rank, ranks;
    int bytes = argc > 3 ? atoi(argv[3]) : 8, keep = argc > 4 ? atoi(argv[4]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm used, other;
    MPI_Comm_dup(MPI_COMM_WORLD, &used);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &other);
    unsigned char *data = must(malloc(bytes));
    int one = rank;
    MPI_Bcast(&one, 1, MPI_INT, 0, other);
    expect(one == ranks - 1, "the root of a reversed communicator", one, ranks - 1);
    for (int i = 0; i < BROADCASTS; i++) {
        if (rank == late % ranks && i == LATE_AT)
            sleep(seconds);
        memset(data, 0, bytes);
        if (rank == 0)
            fill(data, bytes, i, 0);
        MPI_Bcast(data, bytes, MPI_BYTE, 0, used);
        snprintf(context, sizeof context, "broadcast %d", i);
        expect_pattern(data, bytes, i, 0);
    }
    double start = MPI_Wtime();
    if (!keep) {
        MPI_Comm_free(&used);
        MPI_Comm_free(&other);
    }
    expect(MPI_Wtime() - start < 1.0, "milliseconds in MPI_Comm_free",
           (long)((MPI_Wtime() - start) * 1e3), 0);
    /* Nothing else brings the ranks together before MPI_Finalize. */
    printf("late_free rank=%d checks=%ld ok=%s\n", rank, checks, failures ? "no" : "yes");
    fflush(stdout);
    free(data);
    MPI_Finalize();
    return failures != 0;
}
