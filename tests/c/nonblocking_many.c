/* Many non-blocking collectives at once, on several communicators, awaited in an order that differs between ranks, beside
 * messages, blocking collectives and computations; types and communicators are freed while they are in use.
 *
 *     mpirun -n P nonblocking_many [seed, default 1] [rounds, default 60] [largest block in bytes, default 60000]
 */
#include "check.h"
#include "nonblocking_ready.h"
#include "random_data.h"
#include <unistd.h>

enum { MOST = 40, KINDS = 11 };

/* A call under way, with what it is to bring. */
typedef struct {
    int kind, root, count;
    MPI_Comm comm;
    int *send, *recv;
    long round;
} call_t;

static MPI_Comm comms[4];
static int comm_count;
static call_t calls[MOST];
static MPI_Request requests[MOST + 1], idle; /* never started */

/* Element `at` of what a rank contributes. */
static int element(long round, int rank, int at)
{
    return (int)(round * 7919 + rank * 101 + at) % 100000;
}

static void start(call_t *call, MPI_Request *request)
{
    int rank, size, n = call->count, root = call->root;
    MPI_Comm comm = call->comm;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    size_t all = (size_t)n * (size_t)size + 1;
    call->send = must(malloc(all * sizeof(int)));
    call->recv = must(malloc(all * sizeof(int)));
    for (size_t i = 0; i < all; i++)
        call->send[i] = element(call->round, rank, (int)i), call->recv[i] = -1;
    int *s = call->send, *r = call->recv;
    MPI_Datatype pair;
    switch (call->kind) {
    case 0:
        if (rank == root)
            memcpy(r, s, (size_t)n * sizeof(int));
        MPI_Ibcast(r, n, MPI_INT, root, comm, request);
        break;
    case 1:
        MPI_Iallgather(s, n, MPI_INT, r, n, MPI_INT, comm, request);
        break;
    case 2:
        MPI_Iallreduce(s, r, n, MPI_INT, MPI_SUM, comm, request);
        break;
    case 3:
        MPI_Igather(s, n, MPI_INT, r, n, MPI_INT, root, comm, request);
        break;
    case 4:
        MPI_Ialltoall(s, n, MPI_INT, r, n, MPI_INT, comm, request);
        break;
    case 5:
        MPI_Iscan(s, r, n, MPI_INT, MPI_SUM, comm, request);
        break;
    case 6:
        MPI_Ibarrier(comm, request);
        break;
    case 8:
        MPI_Ireduce(s, r, n, MPI_INT, MPI_SUM, root, comm, request);
        break;
    case 9:
        MPI_Iexscan(s, r, n, MPI_INT, MPI_SUM, comm, request);
        break;
    case 10:
        MPI_Ireduce_scatter_block(s, r, n, MPI_INT, MPI_SUM, comm, request);
        break;
    default: /* 7: every second element, of a type that is gone when it is sent */
        MPI_Type_vector(n / 2, 1, 2, MPI_INT, &pair);
        MPI_Type_commit(&pair);
        MPI_Iallgather(s, 1, pair, r, n / 2, MPI_INT, comm, request);
        MPI_Type_free(&pair);
    }
}

/* Element `at` of the result; -1 where none is written. */
static long wanted(const call_t *call, int rank, int size, int at)
{
    int n = call->count;
    long sum = 0;
    switch (call->kind) {
    case 0:
        return at < n ? element(call->round, call->root, at) : -1;
    case 1:
        return at < n * size ? element(call->round, at / n, at % n) : -1;
    case 2:
    case 5:
    case 8:
    case 9:
        for (int peer = 0; peer < (call->kind == 5 ? rank + 1 : call->kind == 9 ? rank : size); peer++)
            sum += element(call->round, peer, at);
        if ((call->kind == 8 && rank != call->root) || (call->kind == 9 && rank == 0))
            return -1;
        return at < n ? sum : -1;
    case 10:
        for (int peer = 0; peer < size; peer++)
            sum += element(call->round, peer, rank * n + at);
        return at < n ? sum : -1;
    case 3:
        return at < n * size && rank == call->root ? element(call->round, at / n, at % n) : -1;
    case 4:
        return at < n * size ? element(call->round, at / n, rank * n + at % n) : -1;
    case 6:
        return -1;
    default:
        return at < n / 2 * size ? element(call->round, at / (n / 2), at % (n / 2) * 2) : -1;
    }
}

static void verify(call_t *call, int rank, int size)
{
    for (int at = 0; at <= call->count * size; at++)
        if (call->recv[at] != wanted(call, rank, size, at)) {
            snprintf(context, sizeof context, "round %ld, kind %d, %d integers", call->round, call->kind, call->count);
            expect(0, "wrong element", at, call->recv[at]);
            break;
        }
    expect(1, "", 0, 0);
    free(call->send);
    free(call->recv);
}

/* Waits for all, in an order of this rank's own. */
static void await(int count, draw_t *own)
{
    int left = count, index, done = 0, indices[MOST];
    requests[count] = idle;
    switch (below(own, 5)) {
    case 0:
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        break;
    case 1:
        for (; left > 0; left--)
            MPI_Waitany(count + 1, requests, &index, MPI_STATUS_IGNORE);
        break;
    case 2:
        for (; left > 0; left -= done)
            MPI_Waitsome(count + 1, requests, &done, indices, MPI_STATUSES_IGNORE);
        break;
    case 3:
        for (int i = 0, first = (int)below(own, count); i < count; i++)
            MPI_Wait(&requests[(first + i) % count], MPI_STATUS_IGNORE);
        break;
    default:
        while (!done)
            MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < count; i++)
        expect(requests[i] == MPI_REQUEST_NULL, "a request is left", i, count);
}

/* What the program does meanwhile: the same on all ranks, but for how long. */
static void work(long what, draw_t *own)
{
    int rank, size, value = 1, other = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (below(own, 4) == 0)
        usleep((useconds_t)below(own, 4000));
    switch (what) {
    case 0: /* a message around, which nobody hands on before it has come */
        if (rank > 0)
            MPI_Recv(&value, 1, MPI_INT, rank - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank < size - 1)
            MPI_Send(&value, 1, MPI_INT, rank + 1, 5, MPI_COMM_WORLD);
        break;
    case 1:
        MPI_Allreduce(&value, &other, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        expect(other == size, "a blocking sum", other, size);
        break;
    case 2:
        MPI_Barrier(comms[comm_count - 1]);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Recv_init(NULL, 0, MPI_INT, 0, 6, MPI_COMM_SELF, &idle);
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    long rounds = argc > 2 ? atol(argv[2]) : 60, largest = argc > 3 ? atol(argv[3]) : 60000;
    int rank, size, ranks[4], sizes[4];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    draw_t shared = {seed}, own = {seed * 1000 + (uint64_t)rank};
    for (long round = 0; round < rounds; round++) {
        comm_count = 4;
        comms[0] = MPI_COMM_WORLD;
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[2]);
        MPI_Comm_dup(comms[2], &comms[3]);
        for (int i = 0; i < comm_count; i++) {
            MPI_Comm_rank(comms[i], &ranks[i]);
            MPI_Comm_size(comms[i], &sizes[i]);
            make_ready(comms[i]);
        }
        int count = 1 + (int)below(&shared, MOST), of[MOST];
        for (int i = 0; i < count; i++) {
            long root = below(&shared, 64);
            of[i] = (int)below(&shared, comm_count);
            long length = below(&shared, 5), most = length == 0 ? 8 : length == 1 ? 400 : length == 2 ? 4000 : largest;
            int more = (int)below(&shared, most / 4 + 1);
            calls[i] = (call_t){.kind = (int)below(&shared, KINDS), .root = (int)(root % (size > 1 ? size / 2 : 1)),
                                .count = length == 4 ? 0 : 2 + more, .comm = comms[of[i]], .round = round * MOST + i};
            start(&calls[i], &requests[i]);
            work(below(&shared, 40), &own);
        }
        int freed = below(&shared, 2) == 0;
        for (int i = 1; i < comm_count && freed; i++)
            MPI_Comm_free(&comms[i]);
        work(freed ? 9 : below(&shared, 4), &own);
        await(count, &own);
        for (int i = 0; i < count; i++)
            verify(&calls[i], ranks[of[i]], sizes[of[i]]);
        for (int i = 1; i < comm_count && !freed; i++)
            MPI_Comm_free(&comms[i]);
    }
    MPI_Request_free(&idle);
    return finish("nonblocking_many");
}
