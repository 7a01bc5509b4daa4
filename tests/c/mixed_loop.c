/* Collectives in random order, sizes and communicators, round after round, while somebody breaks and
 * mends what they travel on; every byte is compared. Communicators are freed and made anew meanwhile.
 *
 *     mpirun -n P mixed_loop SEED MILLISECONDS|FILE [most bytes, default 100000] [limit in ms, 0]
 *
 * goes on for that long, but 200 rounds at least, or until the file exists on rank 0's machine. Rank 0 prints `running` when
 * every rank is in the loop. With a limit the loop ends with an error: a call fails at every rank, in
 * at most that time after it was entered, and the line with its class begins with `lost`. All calls
 * are then on MPI_COMM_WORLD: a rank that has given up comes to no other communicator.
 */
#include "check.h"

#include <unistd.h>

enum { COMMS = 4, OFFSETS = 1 << 16, GUARD = 64, ROUNDS_PER_LOOK = 8, ROUNDS_MIN = 200 };

typedef struct {
    MPI_Comm comm;
    int rank, size;
} group_t;

static group_t groups[COMMS];
static unsigned char *numbers, *send_buffer, *recv_buffer;
static long room, limit_ms;
static uint64_t state; /* drawn from alike on all ranks */

static long below(long limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (long)(state >> 33) % limit;
}

/* What `rank` has for `peer` in a round: neither two ranks nor two rounds in a row are alike. */
static const unsigned char *block(long round, int rank, int peer)
{
    return numbers + (size_t)(round * 8191 + rank * 257 + peer * 61) % OFFSETS;
}

static void same(const unsigned char *got, const unsigned char *wanted, size_t bytes, int from)
{
    expect(memcmp(got, wanted, bytes) == 0, "wrong bytes from", from, (long)bytes);
}

/* A failed call: the class, and the end. The other ranks fail by themselves. */
static void lost(int code, double entered)
{
    int class, length;
    char words[MPI_MAX_ERROR_STRING];
    double waited_ms = (MPI_Wtime() - entered) * 1e3;
    MPI_Error_class(code, &class);
    MPI_Error_string(class, words, &length);
    expect(limit_ms > 0, "a call failed with class", class, 0);
    expect(waited_ms <= (double)limit_ms, "ms until it failed", (long)waited_ms, limit_ms);
    printf("lost: class %d (%s) after %.0f ms, %s\n", class, words, waited_ms, context);
    fflush(stdout);
    exit(finish("mixed_loop"));
}

static size_t draw_bytes(int size)
{
    static const long edges[] = {8, 64, 512, 1024, 4096, 8192, 65536};
    long most = room / size, bytes = 0;
    switch (below(4)) {
    case 0: bytes = below(64); break;
    case 1: bytes = below(5000); break;
    case 2: bytes = edges[below(sizeof edges / sizeof *edges)] + below(3) - 1; break;
    default: bytes = below(most);
    }
    return (size_t)(bytes < most ? bytes : most);
}

static int sums(const group_t *on, long round, size_t count, int everywhere, int root)
{
    int *from = (int *)send_buffer, *to = (int *)recv_buffer, size = on->size;
    for (size_t i = 0; i < count; i++)
        from[i] = (int)(round + (long)i * (on->rank + 1));
    int code = everywhere ? MPI_Allreduce(from, to, (int)count, MPI_INT, MPI_SUM, on->comm)
                          : MPI_Reduce(from, to, (int)count, MPI_INT, MPI_SUM, root, on->comm);
    if (code != MPI_SUCCESS || (!everywhere && on->rank != root))
        return code;
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += to[i] != (int)(round * size + (long)i * size * (size + 1) / 2);
    expect(wrong == 0, "wrong sums", (long)wrong, (long)count);
    return code;
}

static int to_all(const group_t *on, long round, int n)
{
    size_t bytes = (size_t)n;
    for (int peer = 0; peer < on->size; peer++)
        memcpy(send_buffer + (size_t)peer * bytes, block(round, on->rank, peer), bytes);
    int code = MPI_Alltoall(send_buffer, n, MPI_BYTE, recv_buffer, n, MPI_BYTE, on->comm);
    for (int peer = 0; peer < on->size && code == MPI_SUCCESS; peer++)
        same(recv_buffer + (size_t)peer * bytes, block(round, peer, on->rank), bytes, peer);
    return code;
}

/* All-gather, or gather at `root` if there is one. */
static int from_all(const group_t *on, long round, int n, int root)
{
    size_t bytes = (size_t)n;
    memcpy(send_buffer, block(round, on->rank, 0), bytes);
    int code = root < 0
        ? MPI_Allgather(send_buffer, n, MPI_BYTE, recv_buffer, n, MPI_BYTE, on->comm)
        : MPI_Gather(send_buffer, n, MPI_BYTE, recv_buffer, n, MPI_BYTE, root, on->comm);
    int gets = code == MPI_SUCCESS && (root < 0 || root == on->rank);
    for (int peer = 0; peer < on->size && gets; peer++)
        same(recv_buffer + (size_t)peer * bytes, block(round, peer, 0), bytes, peer);
    return code;
}

/* Broadcast, or scatter. */
static int from_root(const group_t *on, long round, int n, int root, int scatters)
{
    size_t bytes = (size_t)n;
    for (int peer = 0; peer < on->size && scatters && on->rank == root; peer++)
        memcpy(send_buffer + (size_t)peer * bytes, block(round, root, peer), bytes);
    if (!scatters && on->rank == root)
        memcpy(recv_buffer, block(round, root, 0), bytes);
    int code = scatters
        ? MPI_Scatter(send_buffer, n, MPI_BYTE, recv_buffer, n, MPI_BYTE, root, on->comm)
        : MPI_Bcast(recv_buffer, n, MPI_BYTE, root, on->comm);
    if (code == MPI_SUCCESS)
        same(recv_buffer, block(round, root, scatters ? on->rank : 0), bytes, root);
    return code;
}

/* All-gather of blocks that grow with the rank. */
static int uneven(const group_t *on, long round, int n)
{
    int counts[64], places[64], total = 0;
    for (int peer = 0; peer < on->size; peer++) {
        counts[peer] = n * peer / on->size;
        places[peer] = total;
        total += counts[peer];
    }
    int mine = counts[on->rank];
    memcpy(send_buffer, block(round, on->rank, 0), (size_t)mine);
    int code = MPI_Allgatherv(send_buffer, mine, MPI_BYTE, recv_buffer, counts, places, MPI_BYTE, on->comm);
    for (int peer = 0; peer < on->size && code == MPI_SUCCESS; peer++)
        same(recv_buffer + places[peer], block(round, peer, 0), (size_t)counts[peer], peer);
    return code;
}

static int call(const group_t *on, long round, int kind, size_t bytes, int root)
{
    int n = (int)bytes;
    switch (kind) {
    case 0: return from_all(on, round, n, -1);
    case 1: return from_all(on, round, n, root);
    case 2: return from_root(on, round, n, root, 0);
    case 3: return from_root(on, round, n, root, 1);
    case 4: return to_all(on, round, n);
    case 5: return uneven(on, round, n);
    case 6: return sums(on, round, bytes / sizeof(int), 1, root);
    case 7: return sums(on, round, bytes / sizeof(int), 0, root);
    default: return MPI_Barrier(on->comm);
    }
}

/* One call on one communicator. */
static void play(long round)
{
    static const char *const names[] = {"allgather", "gather", "bcast", "scatter", "alltoall",
                                        "allgatherv", "allreduce", "reduce", "barrier"};
    group_t *on = &groups[below(3) == 0 && limit_ms == 0 ? below(COMMS) : 0];
    int kind = (int)below(9);
    uint64_t before = state;
    size_t bytes = draw_bytes(on->size);
    int root = (int)below(on->size);
    snprintf(context, sizeof context, "round %ld: %s of %zu B on %d ranks, root %d", round,
             names[kind], bytes, on->size, root);
    memset(recv_buffer, 0xa5, (size_t)room + GUARD);
    double entered = MPI_Wtime();
    int code = call(on, round, kind, bytes, root);
    if (code != MPI_SUCCESS)
        lost(code, entered);
    for (size_t at = (size_t)room; at < (size_t)room + GUARD; at++)
        if (recv_buffer[at] != 0xa5)
            expect(0, "byte beyond the buffer", (long)at, 0);
    /* Groups differ in size: what comes next is drawn alike again. */
    state = before;
    below(1);
}

static void renew(int which)
{
    int rank;
    group_t *group = &groups[which];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (group->comm != MPI_COMM_NULL)
        MPI_Comm_free(&group->comm);
    if (which == 1)
        MPI_Comm_dup(MPI_COMM_WORLD, &group->comm);
    else
        MPI_Comm_split(MPI_COMM_WORLD, which == 2 ? rank % 2 : 0, -rank, &group->comm);
    MPI_Comm_rank(group->comm, &group->rank);
    MPI_Comm_size(group->comm, &group->size);
    MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN);
}

static void prepare(int argc, char **argv)
{
    room = argc > 3 ? atol(argv[3]) : 100000;
    limit_ms = argc > 4 ? atol(argv[4]) : 0;
    state = strtoull(argv[1], NULL, 10) * 2 + 1;
    size_t all = (size_t)room + OFFSETS;
    numbers = must(malloc(all));
    fill(numbers, all, 1, 0);
    send_buffer = must(malloc((size_t)room + GUARD));
    recv_buffer = must(malloc((size_t)room + GUARD));
    groups[0] = (group_t){.comm = MPI_COMM_WORLD};
    MPI_Comm_rank(MPI_COMM_WORLD, &groups[0].rank);
    MPI_Comm_size(MPI_COMM_WORLD, &groups[0].size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int which = 1; which < COMMS; which++) {
        groups[which].comm = MPI_COMM_NULL;
        renew(which);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 3) {
        fprintf(stderr, "usage: mixed_loop SEED MILLISECONDS|FILE [MOST BYTES] [LIMIT IN MS]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    prepare(argc, argv);
    char *end;
    double duration_ms = strtod(argv[2], &end), start = MPI_Wtime();
    int goes_on = 1, by_file = *end != '\0', keeps = limit_ms > 0;
    long round = 0;
    while (goes_on) {
        play(round);
        if (++round % ROUNDS_PER_LOOK != 0)
            continue;
        if (round == ROUNDS_PER_LOOK && groups[0].rank == 0) {
            printf("running\n");
            fflush(stdout);
        }
        if (round % (8 * ROUNDS_PER_LOOK) == 0 && !keeps)
            renew(1 + (int)below(COMMS - 1));
        goes_on = by_file ? access(argv[2], F_OK) != 0 : round < ROUNDS_MIN || (MPI_Wtime() - start) * 1e3 < duration_ms;
        double entered = MPI_Wtime();
        int code = MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (code != MPI_SUCCESS)
            lost(code, entered);
    }
    expect(limit_ms == 0, "no call failed", round, 0);
    for (int which = 1; which < COMMS; which++)
        MPI_Comm_free(&groups[which].comm);
    return finish("mixed_loop");
}
