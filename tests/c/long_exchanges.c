/* Exchanges of more than the caches of most processors hold, whose results are written past them; from and to addresses
 * that are no multiple of a line.
 *
 *     mpirun -n P long_exchanges [bytes of a block, 12000001]
 */
#include "check.h"

enum { OFFSET = 13, GAP = 3 };

static size_t bytes;
static int rank, size;

/* What `from` has for `to` in round `round`; 0 to everyone. */
static long round_of(long round, int to)
{
    return round * 100 + to;
}

static void gather(unsigned char *send, unsigned char *recv)
{
    snprintf(context, sizeof context, "all-gather");
    fill(send, bytes, round_of(1, 0), rank);
    memset(recv, 0, bytes * size);
    MPI_Allgather(send, (int)bytes, MPI_BYTE, recv, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < size; peer++)
        expect_pattern(recv + peer * bytes, bytes, round_of(1, 0), peer);
    snprintf(context, sizeof context, "all-gather in place");
    memset(recv, 0, bytes * size);
    fill(recv + rank * bytes, bytes, round_of(2, 0), rank);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, recv, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < size; peer++)
        expect_pattern(recv + peer * bytes, bytes, round_of(2, 0), peer);
}

/* Blocks for peer p begin GAP bytes further with each peer if there are `gaps`, and are p bytes shorter. */
static void to_all(unsigned char *send, unsigned char *recv, int gaps)
{
    int counts[2][64], displacements[64];
    snprintf(context, sizeof context, gaps ? "all-to-all with lengths" : "all-to-all");
    memset(recv, 0xee, size * (bytes + GAP));
    for (int peer = 0; peer < size; peer++) {
        size_t start = peer * (bytes + (gaps ? GAP : 0));
        displacements[peer] = (int)start;
        counts[0][peer] = (int)bytes - (gaps ? peer : 0);
        counts[1][peer] = (int)bytes - (gaps ? rank : 0);
        fill(send + start, counts[0][peer], round_of(3 + gaps, peer), rank);
    }
    if (gaps)
        MPI_Alltoallv(send, counts[0], displacements, MPI_BYTE, recv, counts[1], displacements, MPI_BYTE,
            MPI_COMM_WORLD);
    else
        MPI_Alltoall(send, (int)bytes, MPI_BYTE, recv, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < size; peer++) {
        unsigned char *block = recv + displacements[peer];
        expect_pattern(block, counts[1][peer], round_of(3 + gaps, rank), peer);
        for (int at = 0; gaps && at < GAP; at++)
            expect(block[counts[1][peer] + at] == 0xee, "written beyond block", peer, at);
    }
}

static uint64_t word(int peer, size_t at)
{
    return (at + 1) * 0x9e3779b97f4a7c15u ^ (uint64_t)peer << 40;
}

static void expect_sums(const unsigned char *sums, size_t first, size_t words)
{
    for (size_t at = 0; at < words; at++) {
        uint64_t sum = 0, got;
        for (int peer = 0; peer < size; peer++)
            sum += word(peer, first + at);
        memcpy(&got, sums + 8 * at, 8);
        if (got != sum) {
            expect(0, "wrong sum, at", (long)at, 0);
            return;
        }
    }
    expect(1, "", 0, 0);
}

/* Sums of words, at addresses that are multiples of 8 only. */
static void reduce(unsigned char *send, unsigned char *recv)
{
    size_t words = bytes / 8 * size;
    for (size_t at = 0; at < words; at++) {
        uint64_t value = word(rank, at);
        memcpy(send + 8 * at, &value, 8);
    }
    snprintf(context, sizeof context, "all-reduce");
    memset(recv, 0, 8 * words);
    MPI_Allreduce(send, recv, (int)words, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    expect_sums(recv, 0, words);
    snprintf(context, sizeof context, "reduce-scatter");
    memset(recv, 0, 8 * words);
    MPI_Reduce_scatter_block(send, recv, (int)(words / size), MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    expect_sums(recv, words / size * rank, words / size);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 12000001;
    size_t room = 64 + size * (bytes + GAP);
    unsigned char *send = must(aligned_alloc(64, (room + 63) / 64 * 64));
    unsigned char *recv = must(aligned_alloc(64, (room + 63) / 64 * 64));
    gather(send + OFFSET, recv + OFFSET);
    to_all(send + OFFSET, recv + OFFSET, 0);
    to_all(send + OFFSET, recv + OFFSET, 1);
    reduce(send + 8, recv + 24);
    free(send);
    free(recv);
    return finish("long_exchanges");
}
