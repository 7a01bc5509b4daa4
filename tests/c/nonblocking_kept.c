/* Non-blocking collectives that outlive what they were called with: types freed at once that only the host can pack,
 * communicators freed before a call that failed is awaited, more calls under way than the process has stacks for, and
 * calls on requests that name none.
 *
 *     mpirun -n P nonblocking_kept [calls at once, default 3000]
 */
#include "check.h"
#include "nonblocking_ready.h"
#include "typed_blocks.h"

enum { INTEGERS = 4500000 }; /* over which a type reaches that is not taken apart */

static int rank, size;

/* Waits of no requests end at once while a call is under way. */
static void no_requests(void)
{
    strcpy(context, "no requests");
    MPI_Comm comm = fresh();
    MPI_Request request;
    MPI_Status statuses[1];
    int index = 0, done = 0, none[1];
    MPI_Ibarrier(comm, &request);
    MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE);
    expect(index == MPI_UNDEFINED, "index of none", index, 0);
    MPI_Waitsome(0, NULL, &done, none, statuses);
    expect(done == MPI_UNDEFINED, "some of none", done, 0);
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
}

/* Every fourth integer, of a type that ferrorail does not take apart. */
static MPI_Datatype every_fourth(int *extent)
{
    MPI_Datatype type;
    MPI_Type_vector(INTEGERS / 4, 1, 4, MPI_INT, &type);
    type = nested(type);
    MPI_Type_commit(&type);
    *extent = INTEGERS;
    return type;
}

/* Types that the host packs, freed at once: what the root has comes, and what lies between is left. */
static void freed_types(void)
{
    strcpy(context, "a type freed at once");
    MPI_Comm comm = fresh();
    for (int root = 0; root < size && root < 2; root++) {
        int extent, bytes, in_gap = 0, wrong = 0;
        MPI_Datatype type = every_fourth(&extent);
        MPI_Type_size(type, &bytes);
        int *data = must(malloc((size_t)extent * sizeof(int)));
        for (int i = 0; i < extent; i++)
            data[i] = rank == root ? i : -1;
        MPI_Request requests[2];
        MPI_Ibcast(data, 1, type, root, comm, &requests[0]);
        MPI_Ibarrier(comm, &requests[1]);
        MPI_Type_free(&type);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < extent; i++) {
            wrong += data[i] != -1 && data[i] != i;
            in_gap += data[i] == -1;
        }
        expect(wrong == 0, "wrong integers", wrong, root);
        expect(rank == root || in_gap == extent - bytes / (int)sizeof(int), "integers left", in_gap, extent);
        free(data);
    }
    MPI_Comm_free(&comm);
}

/* A type for each rank, freed at once, of which the arrays name none any more: short blocks and long ones, two calls under way. */
static void freed_array_of_types(int unit)
{
    snprintf(context, sizeof context, "an array of types freed at once, %d integers", unit);
    MPI_Comm comm = fresh();
    struct typed_blocks blocks[2];
    MPI_Request requests[2];
    for (int i = 0; i < 2; i++) {
        typed_make(&blocks[i], rank, size, unit + i);
        typed_fill(&blocks[i], i);
        MPI_Ialltoallw(TYPED_ARGUMENTS(blocks[i]), comm, &requests[i]);
        typed_drop_types(&blocks[i]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i++) {
        int wrong = typed_wrong(&blocks[i], i);
        expect(wrong == 0, "wrong integers", wrong, i);
        typed_free(&blocks[i]);
    }
    MPI_Comm_free(&comm);
}

/* A call that failed on a communicator that is gone when it is awaited. */
static void freed_communicator(void)
{
    strcpy(context, "a communicator freed before an error is known");
    MPI_Comm comm = fresh();
    MPI_Request request;
    int count = rank == size - 1 ? 8 : 4, sent[8] = {0}, *all = must(calloc((size_t)size, sizeof sent));
    int code = MPI_Iallgather(sent, count, MPI_INT, all, count, MPI_INT, comm, &request), failed, sum;
    MPI_Comm_free(&comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS)
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    failed = code != MPI_SUCCESS;
    HOST(Allreduce)(&failed, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(sum > 0, "no rank has an error", sum, 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    free(all);
}

/* Calls on two communicators, begun in another order on odd ranks, each with a type that is gone at once; then a message
 * that is sent only when the calls before it are over. */
static void many(int calls)
{
    snprintf(context, sizeof context, "%d calls at once", calls);
    MPI_Comm comms[2] = {fresh(), fresh()};
    int *values = must(malloc((size_t)calls * 2 * sizeof(int))), wrong = 0, last = size - 1;
    int *sums = must(malloc((size_t)calls * 2 * sizeof(int)));
    MPI_Request *requests = must(malloc((size_t)calls * 2 * sizeof(MPI_Request)));
    for (int half = 0; half < 2; half++) {
        int on = half ^ (rank & 1);
        for (int i = 0; i < calls; i++) {
            int at = on * calls + i;
            MPI_Datatype pair;
            MPI_Type_contiguous(1, MPI_INT, &pair);
            MPI_Type_commit(&pair);
            values[at] = rank + at;
            sums[at] = rank == at % size ? at : -1;
            if (i % 2)
                MPI_Iallreduce(&values[at], &sums[at], 1, MPI_INT, MPI_SUM, comms[on], &requests[at]);
            else
                MPI_Ibcast(&sums[at], 1, pair, at % size, comms[on], &requests[at]);
            MPI_Type_free(&pair);
        }
    }
    if (rank == last && size > 1) {
        MPI_Waitall(calls * 2, requests, MPI_STATUSES_IGNORE);
        for (int peer = 0; peer < last; peer++)
            MPI_Send(&calls, 1, MPI_INT, peer, 3, MPI_COMM_WORLD);
    } else if (size > 1) {
        int got;
        MPI_Recv(&got, 1, MPI_INT, last, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Waitall(calls * 2, requests, MPI_STATUSES_IGNORE);
    for (int at = 0; at < calls * 2; at++)
        wrong += sums[at] != (at % calls % 2 ? size * at + size * (size - 1) / 2 : at);
    expect(wrong == 0, "wrong results", wrong, calls);
    MPI_Comm_free(&comms[0]);
    MPI_Comm_free(&comms[1]);
    free(values);
    free(sums);
    free(requests);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    no_requests();
    freed_types();
    freed_array_of_types(1);
    freed_array_of_types(7000);
    if (size > 1)
        freed_communicator();
    many(argc > 1 ? atoi(argv[1]) : 3000);
    return finish("nonblocking_kept");
}
