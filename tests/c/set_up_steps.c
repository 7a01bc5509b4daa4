/* Every way that sets something up: small and large collectives on the world, a duplicate and a part, windows of
 * each kind. With aids/fail_step.c one step of that fails on one rank. Each call brings what it should, or
 * all ranks get the same class of error and can go on.
 *
 * set_up_steps */
#include "check.h"

enum { LARGE = 300000 };

/* Whether all ranks got the same and can go on. */
static int agreed(int code, MPI_Comm comm, const char *what)
{
    int class = MPI_SUCCESS, both[2], all[2];
    MPI_Error_class(code, &class);
    both[0] = class;
    both[1] = -class;
    HOST(Allreduce)(both, all, 2, MPI_INT, MPI_MAX, comm);
    expect(all[0] == -all[1], what, class, all[0]);
    return all[0] == MPI_SUCCESS && all[1] == MPI_SUCCESS;
}

static void gather(MPI_Comm comm, size_t bytes, long round)
{
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    unsigned char *out = must(malloc(bytes)), *in = must(calloc(bytes, (size_t)ranks));
    fill(out, bytes, round, rank);
    int code = MPI_Allgather(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, comm);
    snprintf(context, sizeof context, "all-gather of %zu bytes, round %ld", bytes, round);
    if (agreed(code, comm, "classes of errors differ"))
        for (int r = 0; r < ranks; r++)
            expect_pattern(in + (size_t)r * bytes, bytes, round, r);
    free(out);
    free(in);
}

static void collectives(MPI_Comm comm, long round)
{
    int rank, ranks, one = 1, sum = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    gather(comm, 8, round);
    gather(comm, LARGE, round + 1);
    unsigned char *data = must(malloc(LARGE));
    if (rank == 0)
        fill(data, LARGE, round + 2, 0);
    snprintf(context, sizeof context, "broadcast, round %ld", round);
    if (agreed(MPI_Bcast(data, LARGE, MPI_BYTE, 0, comm), comm, "classes of errors differ"))
        expect_pattern(data, LARGE, round + 2, 0);
    snprintf(context, sizeof context, "sum, round %ld", round);
    if (agreed(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm), comm, "classes of errors differ"))
        expect(sum == ranks, "a sum", sum, ranks);
    free(data);
}

/* Puts to the next rank in fences, then a counter at rank 0 under locks. */
static void use_window(MPI_Win win, const long *memory)
{
    int rank, ranks, code = MPI_SUCCESS;
    long value, one = 1, old;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    value = rank + 1;
    code = MPI_Win_fence(0, win);
    if (code == MPI_SUCCESS)
        code = MPI_Put(&value, 1, MPI_LONG, (rank + 1) % ranks, 1, 1, MPI_LONG, win);
    int ended = MPI_Win_fence(0, win);
    if (agreed(code == MPI_SUCCESS ? ended : code, MPI_COMM_WORLD, "classes of errors differ"))
        expect(memory[1] == (rank + ranks - 1) % ranks + 1, "what was put", memory[1], rank);
    code = MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    if (code == MPI_SUCCESS) {
        code = MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, win);
        ended = MPI_Win_unlock(0, win);
    }
    code = code == MPI_SUCCESS ? ended : code;
    int right = agreed(code, MPI_COMM_WORLD, "classes of errors differ");
    if (right && rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        expect(memory[0] == ranks, "a counter", memory[0], ranks);
        MPI_Win_unlock(0, win);
    }
}

static void windows(void)
{
    long *memory = NULL, own[2] = {0, 0};
    MPI_Win win = MPI_WIN_NULL;
    snprintf(context, sizeof context, "allocated window");
    int code = MPI_Win_allocate(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    if (agreed(code, MPI_COMM_WORLD, "classes of errors differ")) {
        memory[0] = memory[1] = 0;
        HOST(Barrier)(MPI_COMM_WORLD);
        use_window(win, memory);
        MPI_Win_free(&win);
    }
    snprintf(context, sizeof context, "created window");
    code = MPI_Win_create(own, sizeof own, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (agreed(code, MPI_COMM_WORLD, "classes of errors differ")) {
        use_window(win, own);
        MPI_Win_free(&win);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm same, part;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    collectives(MPI_COMM_WORLD, 0);
    MPI_Comm_dup(MPI_COMM_WORLD, &same);
    collectives(same, 10);
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, -rank, &part);
    collectives(part, 20);
    windows();
    collectives(MPI_COMM_WORLD, 30);
    MPI_Comm_free(&part);
    MPI_Comm_free(&same);
    return finish("set_up_steps");
}
