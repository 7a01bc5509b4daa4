/* Long calls, so many of each collective that ranks have timed some through the node's segment and some straight into user
 * memory, and gone on by what was faster. Lengths and roots change from call to call, and now and then a rank is late.
 *
 *     mpirun -n P long_ways [calls of each collective, 240]
 */
#include "check.h"
#include <time.h>

enum { LEAST = 66000, MOST = 130000, RANKS = 64 };

static unsigned char *send, *recv;
static int rank, size, counts[2][RANKS], starts[RANKS];

/* What `from` has for `to` in `call`; the same for everyone where that is 0. */
static void fill_for(int call, int to, unsigned char *block, int bytes)
{
    fill(block, bytes, call * 100 + to, rank);
}

static void expect_from(int from, int call, int to, const unsigned char *block, int bytes)
{
    expect_pattern(block, bytes, call * 100 + to, from);
}

static void broadcast(int call, int bytes, int root)
{
    if (rank == root)
        fill_for(call, 0, recv, bytes);
    MPI_Bcast(recv, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    expect_from(root, call, 0, recv, bytes);
}

static void gather(int call, int bytes, int root)
{
    fill_for(call, 0, send, bytes);
    MPI_Gather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    for (int peer = 0; rank == root && peer < size; peer++)
        expect_from(peer, call, 0, recv + (size_t)peer * bytes, bytes);
}

static void scatter(int call, int bytes, int root)
{
    for (int peer = 0; rank == root && peer < size; peer++)
        fill_for(call, peer, send + (size_t)peer * bytes, bytes);
    MPI_Scatter(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    expect_from(root, call, rank, recv, bytes);
}

static void all_gather(int call, int bytes, int root)
{
    (void)root;
    fill_for(call, 0, send, bytes);
    MPI_Allgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < size; peer++)
        expect_from(peer, call, 0, recv + (size_t)peer * bytes, bytes);
}

static void all_to_all(int call, int bytes, int root)
{
    (void)root;
    for (int peer = 0; peer < size; peer++)
        fill_for(call, peer, send + (size_t)peer * bytes, bytes);
    MPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < size; peer++)
        expect_from(peer, call, rank, recv + (size_t)peer * bytes, bytes);
}

/* Blocks of each pair have a length of their own; the longest is the same everywhere. */
static void set_lengths(int bytes)
{
    for (int peer = 0; peer < size; peer++) {
        counts[0][peer] = bytes - 3 * ((rank + peer) % size);
        counts[1][peer] = counts[0][peer];
        starts[peer] = peer * bytes;
    }
}

static void all_to_all_with_lengths(int call, int bytes, int root)
{
    (void)root;
    set_lengths(bytes);
    for (int peer = 0; peer < size; peer++)
        fill_for(call, peer, send + starts[peer], counts[0][peer]);
    MPI_Alltoallv(send, counts[0], starts, MPI_BYTE, recv, counts[1], starts, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < size; peer++)
        expect_from(peer, call, rank, recv + starts[peer], counts[1][peer]);
}

static void gather_with_lengths(int call, int bytes, int root)
{
    set_lengths(bytes);
    fill_for(call, 0, send, counts[0][root]);
    MPI_Gatherv(send, counts[0][root], MPI_BYTE, recv, counts[1], starts, MPI_BYTE, root, MPI_COMM_WORLD);
    for (int peer = 0; rank == root && peer < size; peer++)
        expect_from(peer, call, 0, recv + starts[peer], counts[1][peer]);
}

static void scatter_with_lengths(int call, int bytes, int root)
{
    set_lengths(bytes);
    for (int peer = 0; rank == root && peer < size; peer++)
        fill_for(call, peer, send + starts[peer], counts[0][peer]);
    MPI_Scatterv(send, counts[0], starts, MPI_BYTE, recv, counts[1][root], MPI_BYTE, root, MPI_COMM_WORLD);
    expect_from(root, call, rank, recv, counts[1][root]);
}

static const struct {
    const char *name;
    void (*run)(int call, int bytes, int root);
} forms[] = {
    {"broadcast", broadcast},
    {"gather", gather},
    {"scatter", scatter},
    {"all-gather", all_gather},
    {"all-to-all", all_to_all},
    {"all-to-all with lengths", all_to_all_with_lengths},
    {"gather with lengths", gather_with_lengths},
    {"scatter with lengths", scatter_with_lengths},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int calls = argc > 1 ? atoi(argv[1]) : 240;
    send = must(malloc((size_t)size * MOST));
    recv = must(malloc((size_t)size * MOST));
    for (size_t form = 0; form < sizeof forms / sizeof *forms; form++)
        for (int call = 0; call < calls; call++) {
            snprintf(context, sizeof context, "%s, call %d", forms[form].name, call);
            if (call % 16 == 15 && call / 16 % size == rank)
                nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
            forms[form].run(call, LEAST + call * 977 % (MOST - LEAST), call / 3 % size);
        }
    free(send);
    free(recv);
    return finish("long_ways");
}
