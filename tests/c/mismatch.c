/* Ranks that disagree on a collective: another count, nothing at all, another collective. Each case
 * has a communicator of its own. Nobody may hang, nobody may write beyond a buffer, and some rank
 * gets MPI_ERR_TRUNCATE; a rank that noticed nothing may have success. Rank 1 is the odd one.
 *
 * For ferrorail: host MPIs promise less, and hang in some of the cases.
 *
 *     mpirun -n P mismatch [apart | multicast | groups]
 *
 * The communicator must be of use afterwards: some calls fail, from the time on that all ranks make calls again
 * the same ones on all, then none. After short messages none fails, unless ranks are on nodes `apart`. A `multicast`
 * shows other lengths where it was sent before its receiver says that it is ready, so that mode has only those.
 * All-reduces in `groups` are those of ranks that share cores: there the odd one is any of the ranks.
 */
#include "check.h"
#include <time.h>
#include <unistd.h>

enum { ROOM = 400000, LOST = 200, STREAM = 20 };

static int rank, size, truncated, others, lost_max;
static unsigned char *send_buffer, *recv_buffer;

/* Sleeps until the request is done: who noticed nothing may come FERRORAIL_PEER_TIMEOUT later than the others, and
 * host MPIs spin in MPI_Wait. */
static void await(MPI_Request request)
{
    int done = 0;
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        usleep(1000);
}

static void tell(int peer, int tag)
{
    MPI_Request request;
    MPI_Isend(NULL, 0, MPI_INT, peer, tag, MPI_COMM_WORLD, &request);
    await(request);
}

static void hear(int peer, int tag)
{
    MPI_Request request;
    MPI_Irecv(NULL, 0, MPI_INT, peer, tag, MPI_COMM_WORLD, &request);
    await(request);
}

/* All ranks are here: by messages, which no time-out ends. */
static void meet(void)
{
    for (int peer = 1; peer < size; peer++) {
        if (rank == 0)
            hear(peer, 1);
        if (rank == peer)
            tell(0, 1);
    }
    for (int peer = 1; peer < size; peer++) {
        if (rank == 0)
            tell(peer, 2);
        if (rank == peer)
            hear(0, 2);
    }
}

/* Calls that are right, on a communicator that had an error: after at most `lost_max` of them none fails. */
static void go_on(MPI_Comm comm)
{
    int lost = 0, code;
    double there = 1, all = 0;
    meet();
    do
        code = MPI_Allreduce(&there, &all, 1, MPI_DOUBLE, MPI_SUM, comm);
    while (code != MPI_SUCCESS && ++lost <= lost_max);
    expect(code == MPI_SUCCESS && all == size, "the first all-reduce that succeeds", (long)all, lost);
    for (int i = 0; code == MPI_SUCCESS && i < 200; i++) {
        int sum = 0, value = i + rank, root = i % size, from_root = value;
        code = MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
        expect(code == MPI_SUCCESS && sum == size * i + size * (size - 1) / 2, "all-reduce after it", sum, i);
        code = MPI_Bcast(&from_root, 1, MPI_INT, root, comm);
        expect(code == MPI_SUCCESS && from_root == i + root, "broadcast after it", from_root, i);
    }
}

/* Bytes beyond what this rank said it would receive must be as they were. */
static void finish_case(const char *name, MPI_Comm *comm, int code, size_t may_write, int is_noticed)
{
    int class = 0;
    snprintf(context, sizeof context, "%s", name);
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    int mine[2] = {class == MPI_ERR_TRUNCATE, class != MPI_ERR_TRUNCATE && code != MPI_SUCCESS};
    int all[2];
    meet();
    MPI_Allreduce(mine, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    truncated = all[0], others = all[1];
    expect(truncated >= is_noticed, "nobody noticed", truncated, others);
    size_t beyond = 0;
    for (size_t at = may_write; at < 2 * (size_t)size * ROOM; at++)
        beyond += recv_buffer[at] != 0xa5;
    expect(beyond == 0, "bytes beyond the buffer", (long)beyond, (long)may_write);
    go_on(*comm);
    MPI_Comm_free(comm);
}

static MPI_Comm begin_case(void)
{
    MPI_Comm comm;
    int value = rank, sum = 0;
    memset(send_buffer, rank, 2 * (size_t)size * ROOM);
    memset(recv_buffer, 0xa5, 2 * (size_t)size * ROOM);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    /* A call that is right, so that the communicator is in use. */
    int *all = must(calloc((size_t)size, sizeof(int)));
    int code = MPI_Allgather(&value, 1, MPI_INT, all, 1, MPI_INT, comm);
    for (int peer = 0; peer < size; peer++)
        sum += all[peer];
    free(all);
    char after[sizeof context], text[MPI_MAX_ERROR_STRING];
    int length;
    snprintf(after, sizeof after, "%s", context);
    snprintf(context, sizeof context, "before");
    expect(code == MPI_SUCCESS && sum == size * (size - 1) / 2, "all-gather", sum, size);
    if (code != MPI_SUCCESS) {
        MPI_Error_string(code, text, &length);
        fprintf(stderr, "rank %d, after %s: %s\n", rank, after, text);
    }
    return comm;
}

#define NAME(what) (snprintf(name, sizeof name, what ", %d and %d bytes", usual, odd), name)

/* Everybody has `usual` bytes, rank 1 has `odd`. */
static void broadcast_counts(int usual, int odd)
{
    char name[80];
    int n = rank == 1 ? odd : usual;
    MPI_Comm comm = begin_case();
    int code = MPI_Bcast(recv_buffer, n, MPI_BYTE, 0, comm);
    finish_case(NAME("bcast"), &comm, code, (size_t)n, 1);
}

static void counts(int usual, int odd)
{
    char name[80];
    int n = rank == 1 ? odd : usual;
    broadcast_counts(usual, odd);
    MPI_Comm comm = begin_case();
    int code = MPI_Allgather(send_buffer, n, MPI_BYTE, recv_buffer, n, MPI_BYTE, comm);
    finish_case(NAME("allgather"), &comm, code, (size_t)n * size, 1);
    comm = begin_case();
    code = MPI_Alltoall(send_buffer, n, MPI_BYTE, recv_buffer, n, MPI_BYTE, comm);
    finish_case(NAME("alltoall"), &comm, code, (size_t)n * size, 1);
    if (usual != 0) { /* a root that gathers nothing looks at nobody */
        comm = begin_case();
        code = MPI_Gather(send_buffer, n, MPI_BYTE, recv_buffer, n, MPI_BYTE, 0, comm);
        finish_case(NAME("gather"), &comm, code, rank == 0 ? (size_t)n * size : 0, 1);
    }
    comm = begin_case();
    code = MPI_Scatter(send_buffer, n, MPI_BYTE, recv_buffer, n, MPI_BYTE, 0, comm);
    finish_case(NAME("scatter"), &comm, code, (size_t)n, 1);
}
#undef NAME

/* Of vector forms each pair has a length of its own: rank 1 and the root differ on theirs. What is shorter than was
 * sent may come without an error. */
static void pairs(int usual, int odd)
{
    char name[80];
    int n = rank == 1 ? odd : usual, all[64], where[64];
    for (int peer = 0; peer < size; peer++)
        all[peer] = usual, where[peer] = peer * ROOM;
    snprintf(name, sizeof name, "gatherv, %d and %d bytes", usual, odd);
    MPI_Comm comm = begin_case();
    int code = MPI_Gatherv(send_buffer, n, MPI_BYTE, recv_buffer, all, where, MPI_BYTE, 0, comm);
    size_t end = (size_t)where[size - 1] + (size_t)usual;
    finish_case(name, &comm, code, rank == 0 ? end : 0, 0);
    snprintf(name, sizeof name, "scatterv, %d and %d bytes", usual, odd);
    comm = begin_case();
    code = MPI_Scatterv(send_buffer, all, where, MPI_BYTE, recv_buffer, n, MPI_BYTE, 0, comm);
    finish_case(name, &comm, code, (size_t)n, 0);
    for (int peer = 0; peer < size; peer++)
        all[peer] = n;
    snprintf(name, sizeof name, "alltoallv, %d and %d bytes", usual, odd);
    comm = begin_case();
    code = MPI_Alltoallv(send_buffer, all, where, MPI_BYTE, recv_buffer, all, where, MPI_BYTE, comm);
    finish_case(name, &comm, code, (size_t)where[size - 1] + (size_t)n, 0);
}

static void other_collective(int with_data)
{
    int code;
    MPI_Comm comm = begin_case();
    if (rank == 1 && with_data)
        code = MPI_Alltoall(send_buffer, 2, MPI_BYTE, recv_buffer, 2, MPI_BYTE, comm);
    else if (rank == 1)
        code = MPI_Barrier(comm);
    else
        code = MPI_Allgather(send_buffer, 8, MPI_BYTE, recv_buffer, 8, MPI_BYTE, comm);
    finish_case("another collective", &comm, code, 8 * (size_t)size, 1);
}

/* An all-reduce of ranks that reduce for each other, of which `odd` calls something else. */
static void in_groups(int bytes, int odd)
{
    char name[80];
    for (int other = 0; other < 4; other++) {
        int code, n = rank != odd || other == 3 ? bytes : bytes / 2;
        MPI_Comm comm = begin_case();
        if (rank == odd && other == 1)
            code = MPI_Alltoall(send_buffer, n, MPI_BYTE, recv_buffer, n, MPI_BYTE, comm);
        else if (rank == odd && other == 2)
            code = MPI_Bcast(recv_buffer, n, MPI_BYTE, odd, comm);
        else if (rank == odd && other == 3)
            code = MPI_Reduce(send_buffer, recv_buffer, n, MPI_BYTE, MPI_BXOR, 0, comm);
        else
            code = MPI_Allreduce(send_buffer, recv_buffer, n, MPI_BYTE, MPI_BXOR, comm);
        int all = rank == odd && other == 1;
        snprintf(name, sizeof name, "all-reduce of %d bytes, rank %d has call %d", bytes, odd, other);
        finish_case(name, &comm, code, (size_t)n * (all ? size : 1), 1);
    }
}

/* An all-gather of one word, beside a long call before which ranks may tell each other one. */
static void one_word(void)
{
    MPI_Comm comm = begin_case();
    int code, bytes = 20000;
    if (rank == 1)
        code = MPI_Allgather(send_buffer, 8, MPI_BYTE, recv_buffer, 8, MPI_BYTE, comm);
    else
        code = MPI_Alltoall(send_buffer, bytes, MPI_BYTE, recv_buffer, bytes, MPI_BYTE, comm);
    finish_case("a long call beside a word", &comm, code, (size_t)(rank == 1 ? 8 : bytes) * size, 1);
}

/* A root that runs ahead: of its broadcasts rank 1 takes the third for another. Each that succeeds elsewhere has
 * brought what the root sent in that call. */
static void stream(int bytes)
{
    MPI_Comm comm = begin_case();
    int wrong = 0;
    for (int i = 0; i < STREAM; i++) {
        int n = rank == 1 && i == 2 ? 2 * bytes : bytes;
        memset(recv_buffer, rank == 0 ? i + 1 : 0, 2 * (size_t)bytes);
        int code = MPI_Bcast(recv_buffer, n, MPI_BYTE, 0, comm);
        for (int at = 0; code == MPI_SUCCESS && at < bytes; at++)
            wrong += recv_buffer[at] != i + 1;
    }
    snprintf(context, sizeof context, "a root ahead, %d bytes", bytes);
    expect(wrong == 0, "wrong bytes of broadcasts that succeeded", wrong, 0);
    go_on(comm);
    MPI_Comm_free(&comm);
}

/* Rank 1's broadcast is refused for its arguments, and its next calls are those of the others: what succeeds on any is
 * right, and so it is on a communicator made afterwards, whether or not anybody has noticed. */
static void refused(int bytes, int calls_before_free)
{
    MPI_Comm comm = begin_case();
    snprintf(context, sizeof context, "a refused call, then %d of %d bytes", calls_before_free, bytes);
    int count = bytes / (int)sizeof(long), wrong = 0;
    MPI_Bcast(recv_buffer, rank == 1 ? -1 : 4, MPI_BYTE, 0, comm);
    for (int i = 0; i < calls_before_free; i++) {
        long *mine = (long *)send_buffer, *all = (long *)recv_buffer;
        for (int at = 0; at < count; at++)
            mine[at] = 10 * i + rank;
        int code = MPI_Allreduce(mine, all, count, MPI_LONG, MPI_SUM, comm);
        for (int at = 0; code == MPI_SUCCESS && at < count; at++)
            wrong += all[at] != 10L * i * size + size * (size - 1) / 2;
    }
    expect(wrong == 0, "wrong sums of all-reduces that succeeded", wrong, 0);
    if (calls_before_free)
        go_on(comm);
    else
        meet();
    MPI_Comm_free(&comm);
    for (int fresh = 0; fresh < 3; fresh++) {
        comm = begin_case();
        snprintf(context, sizeof context, "a new communicator after a refused call");
        for (int i = 1; i < 4; i++) {
            memset(recv_buffer, rank == 0 ? i : 0, 8);
            int code = MPI_Bcast(recv_buffer, 8, MPI_BYTE, 0, comm);
            expect(code == MPI_SUCCESS && recv_buffer[7] == i, "broadcast", code, recv_buffer[7]);
        }
        MPI_Comm_free(&comm);
    }
}

/* Forms that take other places in memory than those of the others: gather with lengths beside gather, and, where the last
 * rank comes late, scan beside all-gather. */
static void other_form(int bytes)
{
    int lengths[64], where[64], code;
    for (int peer = 0; peer < size; peer++)
        lengths[peer] = bytes, where[peer] = peer * bytes;
    MPI_Comm comm = begin_case();
    if (rank == 1)
        code = MPI_Gatherv(send_buffer, bytes, MPI_BYTE, recv_buffer, lengths, where, MPI_BYTE, 0, comm);
    else
        code = MPI_Gather(send_buffer, 17, MPI_BYTE, recv_buffer, 17, MPI_BYTE, 0, comm);
    finish_case("gather with lengths", &comm, code, rank == 0 ? 17 * (size_t)size : 0, 0);
    comm = begin_case();
    size_t n = 18777, wrong = 0;
    if (rank == size - 1) {
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        code = MPI_Allgather(send_buffer, (int)n, MPI_BYTE, recv_buffer, (int)n, MPI_BYTE, comm);
        for (size_t at = 0; code == MPI_SUCCESS && at < n * (size_t)size; at++)
            wrong += recv_buffer[at] != at / n;
    } else
        code = MPI_Scan(send_buffer, recv_buffer, 2348, MPI_LONG, MPI_SUM, comm);
    expect(wrong == 0, "wrong bytes of an all-gather that succeeded", (long)wrong, 0);
    finish_case("scan beside all-gather", &comm, code, n * (size_t)size, 0);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    send_buffer = must(malloc(2 * (size_t)size * ROOM));
    recv_buffer = must(malloc(2 * (size_t)size * ROOM));
    if (argc > 1 && strcmp(argv[1], "multicast") == 0) {
        lost_max = LOST;
        broadcast_counts(40, 20);
        broadcast_counts(1000, 5000);
        stream(40);
        stream(3000);
    } else if (argc > 1 && strcmp(argv[1], "groups") == 0) {
        lost_max = LOST;
        for (int odd = 0; odd < size; odd++) {
            in_groups(40, odd);
            in_groups(20000, odd);
        }
    } else if (size > 1) {
        int apart = argc > 1 && strcmp(argv[1], "apart") == 0;
        lost_max = apart ? LOST : 0;
        counts(4, 8);
        counts(40, 20);
        other_collective(1);
        lost_max = LOST;
        counts(8, 4000);
        counts(3000, 2000);
        counts(1000, 5000);
        counts(200000, 100);
        counts(100, 200000);
        counts(200000, 400000);
        counts(400000, 200000);
        counts(0, 40);
        other_collective(0);
        one_word();
        const int lengths[][2] = {{200000, 1000}, {1000, 200000}, {200000, 100000}, {100000, 200000},
                                  {60000, 100000}, {1000, 20000}, {20000, 1000},
                                  {20000, 200000}, {200000, 20000}, {10, 20}, {3000, 1000}, {1000, 3000},
                                  {3000, 6000}, {0, 1000}};
        /* Between nodes only the time-out tells that nothing more comes from another. */
        for (size_t i = 0; !apart && i < sizeof lengths / sizeof *lengths; i++)
            pairs(lengths[i][0], lengths[i][1]);
        for (int bytes = 33; !apart && bytes < 35; bytes++)
            other_form(bytes);
        for (int calls = 0; !apart && calls < 3; calls += 2)
            refused(calls ? 8 : 160000, calls);
        stream(40);
        stream(3000);
        stream(100000);
    }
    free(send_buffer);
    free(recv_buffer);
    return finish("mismatch");
}
