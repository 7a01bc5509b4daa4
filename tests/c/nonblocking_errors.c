/* Non-blocking collectives with arguments that are wrong, on one rank or on all, or that differ between ranks: an error and
 * no hang, on the rank at fault at least, and communicators that had none of it work. Hangs without ferrorail.
 *
 *     mpirun -n P nonblocking_errors [wait or test]
 */
#include "check.h"
#include "nonblocking_ready.h"

static int tests;

/* How an awaited call ended. */
static int end_of(int started, MPI_Request *request)
{
    int done = 0, code = MPI_SUCCESS;
    if (started != MPI_SUCCESS)
        return started;
    if (!tests)
        return MPI_Wait(request, MPI_STATUS_IGNORE);
    while (code == MPI_SUCCESS && !done)
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    return code;
}

static int class_of(int code)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class;
}

/* Calls go on, on the host, when all ranks have found the error; until then they fail, or are right. */
static void goes_on(MPI_Comm comm, int size)
{
    int right = 0, rank, sum;
    MPI_Comm_rank(comm, &rank);
    for (int call = 0; call < 40 && right < 3; call++) {
        MPI_Request request;
        int value = rank + call;
        int code = end_of(MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm, &request), &request);
        if (code == MPI_SUCCESS && expect(sum == size * (size - 1) / 2 + size * call, "sum after an error", sum, call))
            right++;
    }
    expect(right == 3, "no call succeeds after an error", right, 0);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    tests = argc > 1 && strcmp(argv[1], "test") == 0;
    int rank, size, buffer[4096] = {0}, all[4096 * 64], code;
    MPI_Request request, before, behind;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int last = size - 1;

    /* One rank names a root that is none: it has an error, and nobody hangs. */
    strcpy(context, "a root that is none");
    MPI_Comm comm = fresh();
    MPI_Iallgather(buffer, 1, MPI_INT, all, 1, MPI_INT, comm, &before);
    code = end_of(MPI_Ibcast(buffer, 4, MPI_INT, rank == last ? size : 0, comm, &request), &request);
    if (rank == last)
        expect(class_of(code) == MPI_ERR_ROOT || class_of(code) == MPI_ERR_ARG, "class", class_of(code), 0);
    expect(end_of(MPI_SUCCESS, &before) == MPI_SUCCESS, "the call before", 0, 0);
    if (size > 1)
        goes_on(comm, size);
    MPI_Comm_free(&comm);

    /* A root that is none everywhere, behind a call that is right. */
    strcpy(context, "wrong everywhere");
    comm = fresh();
    MPI_Iallgather(buffer, 3, MPI_INT, all, 3, MPI_INT, comm, &before);
    code = end_of(MPI_Ibcast(buffer, 4, MPI_INT, size, comm, &request), &request);
    expect(class_of(code) == MPI_ERR_ROOT || class_of(code) == MPI_ERR_ARG, "class", class_of(code), 0);
    expect(end_of(MPI_SUCCESS, &before) == MPI_SUCCESS, "the call before", 0, 0);
    goes_on(comm, size);
    MPI_Comm_free(&comm);

    /* What no communicator is needed to tell. */
    strcpy(context, "a negative count");
    comm = fresh();
    code = end_of(MPI_Ibcast(buffer, -1, MPI_INT, 0, comm, &request), &request);
    expect(class_of(code) == MPI_ERR_COUNT, "class", class_of(code), 0);
    goes_on(comm, size);
    MPI_Comm_free(&comm);

    /* Lengths that differ: an error at some rank, nothing beyond a buffer. */
    for (int count = 1; count <= 2048 && size > 1; count += 2047) {
        snprintf(context, sizeof context, "%d and %d integers", count, 2 * count);
        comm = fresh();
        memset(all, 0x55, sizeof all);
        int mine = rank == last ? 2 * count : count, failed, sum;
        code = end_of(MPI_Iallgather(buffer, mine, MPI_INT, all, mine, MPI_INT, comm, &request), &request);
        failed = code != MPI_SUCCESS;
        HOST(Allreduce)(&failed, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        expect(sum > 0, "no rank has an error", sum, 0);
        expect(all[mine * size] == 0x55555555, "beyond the buffer", all[mine * size], 0);
        /* What comes behind fails, or is right: here nobody waits for ever. */
        end_of(MPI_Iallgather(buffer, 1, MPI_INT, all, 1, MPI_INT, comm, &behind), &behind);
        MPI_Comm_free(&comm);
    }

    /* Others are not concerned. */
    strcpy(context, "another communicator");
    comm = fresh();
    code = end_of(MPI_Iallreduce(&rank, &buffer[0], 1, MPI_INT, MPI_SUM, comm, &request), &request);
    expect(code == MPI_SUCCESS && buffer[0] == size * (size - 1) / 2, "sum", buffer[0], code);
    MPI_Comm_free(&comm);
    return finish("nonblocking_errors");
}
