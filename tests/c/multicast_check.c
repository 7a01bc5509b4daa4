/* Broadcasts as a reliable multicast finds them hardest: from every root, of 0 bytes to megabytes, between
 * other collectives and on several communicators at once; a root that runs ahead of a slow receiver;
 * communicators that are freed with messages on their way.
 *
 *     mpirun -n P multicast_check [ROUNDS [LONGEST [AHEAD [SECONDS]]]]
 *
 * ROUNDS rounds (20) of messages up to LONGEST bytes (4194304), then AHEAD short broadcasts (10000) that
 * the last rank begins to receive half a second late, and a broadcast each millisecond for SECONDS (0).
 */
#include "check.h"
#include <unistd.h>

static int rank, size, rounds = 20, ahead = 10000;
static size_t longest = 4u << 20;
static unsigned char *buffer;

/* A length for each round: all magnitudes, and their neighbours. */
static size_t length(long round)
{
    static const size_t lengths[] = {0, 1, 8, 63, 1000, 4096, 16383, 16384, 16385, 70001, 262144, 1000003, 4194304};
    size_t bytes = lengths[(unsigned long)round % (sizeof lengths / sizeof *lengths)];
    return bytes < longest ? bytes : longest;
}

static void broadcast(MPI_Comm comm, int root, size_t bytes, long round)
{
    int me;
    MPI_Comm_rank(comm, &me);
    if (me == root)
        fill(buffer, bytes, round, root);
    else
        memset(buffer, 0xa5, bytes + 1);
    buffer[bytes] = 0xa5;
    MPI_Bcast(buffer, (int)bytes, MPI_BYTE, root, comm);
    snprintf(context, sizeof context, "broadcast %ld of %zu bytes from %d", round, bytes, root);
    expect_pattern(buffer, bytes, round, root);
    expect(buffer[bytes] == 0xa5, "byte behind the buffer", buffer[bytes], 0xa5);
}

static void gather_all(MPI_Comm comm, size_t bytes, long round)
{
    int me, members;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &members);
    fill(buffer + (size_t)me * bytes, bytes, round, me);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, (int)bytes, MPI_BYTE, comm);
    snprintf(context, sizeof context, "all-gather %ld of %zu bytes", round, bytes);
    for (int member = 0; member < members; member++)
        expect_pattern(buffer + (size_t)member * bytes, bytes, round, member);
}

static void sum_up(MPI_Comm comm, long round)
{
    long mine = rank + round, sum = -1, members_sum;
    int members;
    MPI_Comm_size(comm, &members);
    members_sum = (long)size * (size - 1) / 2 + (long)size * round;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, comm);
    snprintf(context, sizeof context, "sum %ld", round);
    expect(members < size || sum == members_sum, "sum", sum, members_sum);
}

/* Roots, lengths and communicators change with each call. */
static void mixed(MPI_Comm *comms, int count)
{
    for (long round = 0; round < rounds; round++)
        for (int index = 0; index < count; index++) {
            int members;
            MPI_Comm_size(comms[index], &members);
            broadcast(comms[index], (int)((round * 7 + index) % members), length(round + index), round);
            if ((round + index) % 3 == 0)
                gather_all(comms[index], length(round) / (size_t)members % 70000, round + 1000);
            if ((round + index) % 4 == 0)
                sum_up(comms[index], round);
        }
}

/* A root far ahead of the last rank: memory stays bounded and nothing is lost. */
static void run_ahead(MPI_Comm comm)
{
    if (rank == size - 1)
        usleep(500000);
    for (long round = 0; round < ahead; round++)
        broadcast(comm, 0, 8 + (size_t)(round % 100), round);
}

/* Until the root says that the time is over. */
static void for_some_time(MPI_Comm comm, double seconds)
{
    double end = MPI_Wtime() + seconds;
    int more = 1;
    for (long round = 0; more; round++) {
        broadcast(comm, 0, 100, round);
        more = rank == 0 && MPI_Wtime() < end;
        MPI_Bcast(&more, 1, MPI_INT, 0, comm);
        usleep(1000);
    }
}

/* Who is done frees at once; the last rank is late each time. */
static void freed_at_once(void)
{
    for (long round = 0; round < rounds && round < 10; round++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (rank == size - 1 && round % 4 == 1)
            usleep(50000);
        for (long message = 0; message < 3 + round; message++)
            broadcast(comm, (int)(round % size), 100 * (size_t)message, 100 * round + message);
        MPI_Comm_free(&comm);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comms[3];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (argc > 2)
        longest = (size_t)atol(argv[2]);
    if (argc > 3)
        ahead = atoi(argv[3]);
    buffer = must(malloc((longest > 70000 * (size_t)size ? longest : 70000 * (size_t)size) + 1));
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[2]);
    mixed(comms, 3);
    run_ahead(comms[1]);
    if (argc > 4)
        for_some_time(comms[0], atof(argv[4]));
    MPI_Comm_free(&comms[1]);
    MPI_Comm_free(&comms[2]);
    freed_at_once();
    free(buffer);
    return finish("multicast_check");
}
