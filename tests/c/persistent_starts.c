/* Persistent collectives (MPI 4.0) as no blocking ones are: started by ranks in different orders, with messages among them,
 * many at once, after their types and communicators are gone, with arguments that are wrong, and left when the program ends.
 *
 * Hangs without ferrorail, where an error is awaited.
 *
 *     mpirun -n P persistent_starts [requests at once, default 200]
 */
#include "check.h"
#include "typed_blocks.h"
#if MPI_VERSION < 4
#include "../aids/persistent.h"
#endif

static int rank, size;

static MPI_Comm fresh(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

/* Sum of the ranks, and `each` more of every one. */
static int sum_of(int each)
{
    return size * (size - 1) / 2 + size * each;
}

/* Odd ranks start the second one first, and await it before they start the other. */
static void different_orders(void)
{
    strcpy(context, "orders that differ");
    MPI_Comm comm = fresh();
    MPI_Request requests[2];
    int sent[2], sums[2], first = rank % 2;
    for (int i = 0; i < 2; i++)
        MPI_Allreduce_init(&sent[i], &sums[i], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[i]);
    for (int turn = 0; turn < 50; turn++) {
        sent[0] = rank + turn;
        sent[1] = rank + 1000 * turn;
        MPI_Start(&requests[first]);
        if (first)
            MPI_Start(&requests[0]);
        MPI_Wait(&requests[first], MPI_STATUS_IGNORE);
        if (!first)
            MPI_Start(&requests[1]);
        MPI_Wait(&requests[!first], MPI_STATUS_IGNORE);
        expect(sums[0] == sum_of(turn), "first sum", sums[0], turn);
        expect(sums[1] == sum_of(1000 * turn), "second sum", sums[1], turn);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Comm_free(&comm);
}

/* With persistent messages to the next rank in one MPI_Startall, inactive requests among those that are awaited, and other
 * collectives of the communicator meanwhile. */
static void with_messages(void)
{
    strcpy(context, "among messages");
    MPI_Comm comm = fresh();
    MPI_Request requests[4], other;
    int next = (rank + 1) % size, before = (rank + size - 1) % size, sent = 0, got = 0, value = 0, total = 0, done;
    MPI_Status statuses[4];
    MPI_Send_init(&sent, 1, MPI_INT, next, 7, comm, &requests[0]);
    MPI_Recv_init(&got, 1, MPI_INT, before, 7, comm, &requests[1]);
    MPI_Bcast_init(&value, 1, MPI_INT, size - 1, comm, MPI_INFO_NULL, &requests[2]);
    MPI_Barrier_init(comm, MPI_INFO_NULL, &requests[3]);
    for (int turn = 0; turn < 20; turn++) {
        int begun = turn % 3 ? 4 : 3;
        sent = 10 * rank + turn;
        value = rank == size - 1 ? turn : -1;
        MPI_Startall(begun, requests);
        MPI_Iallreduce(&sent, &total, 1, MPI_INT, MPI_SUM, comm, &other);
        MPI_Barrier(comm);
        if (turn % 2) {
            MPI_Waitall(4, requests, statuses);
        } else {
            do
                MPI_Testall(4, requests, &done, statuses);
            while (!done);
        }
        MPI_Wait(&other, MPI_STATUS_IGNORE);
        expect(got == 10 * before + turn, "message", got, turn);
        expect(value == turn, "broadcast", value, turn);
        expect(total == 10 * sum_of(0) + size * turn, "sum", total, turn);
        MPI_Test(&requests[2], &done, statuses);
        expect(done && statuses[0].MPI_SOURCE == MPI_ANY_SOURCE, "status of an inactive one", done, statuses[0].MPI_SOURCE);
    }
    for (int i = 0; i < 4; i++)
        MPI_Request_free(&requests[i]);
    MPI_Comm_free(&comm);
}

/* So many at once on two communicators, started backwards by odd ranks and awaited as they end. */
static void many(int count)
{
    snprintf(context, sizeof context, "%d at once", count);
    MPI_Comm comms[2] = {fresh(), fresh()};
    MPI_Request *requests = must(malloc((size_t)count * sizeof(MPI_Request)));
    int *sent = must(calloc((size_t)count, sizeof(int))), *sums = must(calloc((size_t)count, sizeof(int)));
    for (int i = 0; i < count; i++)
        MPI_Allreduce_init(&sent[i], &sums[i], 1, MPI_INT, MPI_SUM, comms[i % 2], MPI_INFO_NULL, &requests[i]);
    for (int turn = 0; turn < 3; turn++) {
        int index, ended = 0;
        for (int i = 0; i < count; i++) {
            int at = rank % 2 ? count - 1 - i : i;
            sent[at] = rank + at + turn;
            MPI_Start(&requests[at]);
        }
        for (;; ended++) {
            MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE);
            if (index == MPI_UNDEFINED)
                break;
            expect(sums[index] == sum_of(index + turn), "sum", sums[index], index);
        }
        expect(ended == count, "ended", ended, count);
    }
    for (int i = 0; i < count; i++)
        MPI_Request_free(&requests[i]);
    MPI_Comm_free(&comms[0]);
    MPI_Comm_free(&comms[1]);
    free(requests);
    free(sent);
    free(sums);
}

/* A type for each rank, gone before the first start with the arrays and the communicator. */
static void freed_array_of_types(int unit)
{
    snprintf(context, sizeof context, "arrays of types freed before a start, %d integers", unit);
    MPI_Comm comm = fresh();
    struct typed_blocks blocks;
    MPI_Request request;
    typed_make(&blocks, rank, size, unit);
    MPI_Alltoallw_init(TYPED_ARGUMENTS(blocks), comm, MPI_INFO_NULL, &request);
    typed_drop_types(&blocks);
    MPI_Comm_free(&comm);
    for (int turn = 0; turn < 5; turn++) {
        typed_fill(&blocks, turn);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        int wrong = typed_wrong(&blocks, turn);
        expect(wrong == 0, "wrong integers", wrong, turn);
    }
    MPI_Request_free(&request);
    typed_free(&blocks);
}

/* Types and the communicator are freed before the first start; blocks with gaps. */
static void freed(void)
{
    enum { BLOCKS = 300 };
    strcpy(context, "freed before a start");
    MPI_Comm comm = fresh();
    MPI_Datatype strided, pairs;
    MPI_Request gather, bcast;
    int mine[2 * BLOCKS], *all = must(malloc((size_t)size * 2 * BLOCKS * sizeof(int))), root = size / 2, data[3 * BLOCKS];
    MPI_Type_vector(BLOCKS, 1, 2, MPI_INT, &strided);
    MPI_Type_create_resized(strided, 0, 2 * BLOCKS * sizeof(int), &pairs);
    MPI_Type_free(&strided);
    MPI_Type_commit(&pairs);
    MPI_Type_vector(BLOCKS, 2, 3, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    MPI_Gather_init(mine, 1, pairs, all, 1, pairs, root, comm, MPI_INFO_NULL, &gather);
    MPI_Bcast_init(data, 1, strided, root, comm, MPI_INFO_NULL, &bcast);
    MPI_Type_free(&pairs);
    MPI_Type_free(&strided);
    MPI_Comm_free(&comm);
    MPI_Comm other = fresh();
    MPI_Barrier(other);
    for (int turn = 0; turn < 5; turn++) {
        int wrong = 0;
        for (int i = 0; i < 2 * BLOCKS; i++)
            mine[i] = rank + i + turn;
        for (int i = 0; i < size * 2 * BLOCKS; i++)
            all[i] = -1;
        for (int i = 0; i < 3 * BLOCKS; i++)
            data[i] = rank == root ? i * turn : -1;
        MPI_Start(&bcast);
        MPI_Start(&gather);
        MPI_Wait(&gather, MPI_STATUS_IGNORE);
        MPI_Wait(&bcast, MPI_STATUS_IGNORE);
        for (int peer = 0; peer < size && rank == root; peer++)
            for (int i = 0; i < 2 * BLOCKS; i++)
                wrong += all[peer * 2 * BLOCKS + i] != (i % 2 ? -1 : peer + i + turn);
        for (int i = 0; i < 3 * BLOCKS; i++)
            wrong += data[i] != (i % 3 < 2 || rank == root ? i * turn : -1);
        expect(wrong == 0, "wrong integers", wrong, turn);
    }
    MPI_Request_free(&gather);
    MPI_Request_free(&bcast);
    MPI_Comm_free(&other);
    free(all);
}

/* Ranks free other requests before they make the next one together. */
static void freed_in_other_orders(void)
{
    enum { KEPT = 4 };
    strcpy(context, "freed in other orders");
    MPI_Comm comm = fresh();
    MPI_Request requests[KEPT];
    int sent[KEPT], sums[KEPT];
    for (int i = 0; i < KEPT; i++)
        MPI_Allreduce_init(&sent[i], &sums[i], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[i]);
    for (int turn = 0; turn < 30; turn++) {
        /* Of two that are freed in each turn, odd ranks free one before and one behind the call that makes the next one. */
        int first = turn % KEPT, second = (turn + 1) % KEPT;
        MPI_Request next;
        MPI_Request_free(&requests[rank % 2 ? second : first]);
        MPI_Allreduce_init(&sent[first], &sums[first], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &next);
        MPI_Request_free(&requests[rank % 2 ? first : second]);
        requests[first] = next;
        MPI_Allreduce_init(&sent[second], &sums[second], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[second]);
        for (int i = 0; i < KEPT; i++)
            sent[i] = rank + turn * i;
        MPI_Startall(KEPT, requests);
        for (int i = 0; i < KEPT; i++)
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        for (int i = 0; i < KEPT; i++)
            expect(sums[i] == sum_of(turn * i), "sum", sums[i], i);
    }
    for (int i = 0; i < KEPT; i++)
        MPI_Request_free(&requests[i]);
    MPI_Comm_free(&comm);
}

/* A negative count at one rank: all are told, nobody hangs, and what comes behind works. */
static void wrong_arguments(void)
{
    strcpy(context, "a negative count");
    MPI_Comm comm = fresh();
    MPI_Request request = MPI_REQUEST_NULL;
    int value = rank, sum = 0, last = size - 1;
    int code = MPI_Bcast_init(&value, rank == last ? -1 : 1, MPI_INT, 0, comm, MPI_INFO_NULL, &request);
    expect(code != MPI_SUCCESS, "no error", code, 0);
    MPI_Allreduce_init(&value, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(sum == sum_of(0), "sum", sum, 0);
    MPI_Request_free(&request);

    /* Lengths that differ: an error at some rank in the calls that await it, and again. */
    strcpy(context, "lengths that differ");
    int buffer[64] = {0}, all[64 * 64], count = rank == last ? 2 : 1, failed, ranks;
    MPI_Allgather_init(buffer, count, MPI_INT, all, count, MPI_INT, comm, MPI_INFO_NULL, &request);
    code = MPI_Start(&request);
    int awaited = MPI_Wait(&request, MPI_STATUS_IGNORE);
    failed = code != MPI_SUCCESS || awaited != MPI_SUCCESS;
    HOST(Allreduce)(&failed, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(size == 1 || ranks > 0, "ranks with an error", ranks, 0);
    MPI_Request_free(&request);

    /* Others are not concerned. */
    MPI_Allreduce_init(&value, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(sum == sum_of(0), "sum behind", sum, 0);
    MPI_Request_free(&request);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    different_orders();
    with_messages();
    many(argc > 1 ? atoi(argv[1]) : 200);
    freed();
    freed_array_of_types(1);
    freed_array_of_types(7000);
    freed_in_other_orders();
    wrong_arguments();
    /* Is left at the end. */
    MPI_Request left[2];
    static int value;
    MPI_Bcast_init(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &left[0]);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &left[1]);
    MPI_Startall(2, left);
    MPI_Wait(&left[1], MPI_STATUS_IGNORE);
    MPI_Wait(&left[0], MPI_STATUS_IGNORE);
    return finish("persistent_starts");
}
