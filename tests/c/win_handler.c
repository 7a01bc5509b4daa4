/* What threads of targets do for others: long accumulates in parts, old values in order, a counter
 * under a lock that all contend for, while some targets compute or sleep outside MPI; a child of
 * fork that ends; and a window that is never freed.
 *
 *     mpirun -n P win_handler [leave]
 *
 * `leave` does not free the last window.
 */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

/* More than a handler takes at a time, and no multiple of it. */
enum { LONG = 100003, ROUNDS = 40 };

static int rank, size;

static void long_accumulates(MPI_Win win, const int *base)
{
    snprintf(context, sizeof context, "long");
    int *operands = must(malloc(LONG * sizeof(int))), *old = must(malloc(LONG * sizeof(int)));
    for (int i = 0; i < LONG; i++) operands[i] = i + rank;
    MPI_Win_fence(0, win);
    for (int r = 0; r < size; r++) MPI_Accumulate(operands, LONG, MPI_INT, r, 0, LONG, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < LONG; i++) {
        long want = (long)size * i + (long)size * (size - 1) / 2;
        expect(base[i] == (int)want, "sum", i, base[i]);
    }
    MPI_Win_fence(0, win);
    int next = (rank + 1) % size;
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    MPI_Get_accumulate(operands, LONG, MPI_INT, old, LONG, MPI_INT, next, 0, LONG, MPI_INT, MPI_REPLACE, win);
    MPI_Win_unlock(next, win);
    for (int i = 0; i < LONG; i++) {
        long want = (long)size * i + (long)size * (size - 1) / 2;
        expect(old[i] == (int)want, "old", i, old[i]);
    }
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    MPI_Get_accumulate(NULL, 0, MPI_INT, old, LONG, MPI_INT, next, 0, LONG, MPI_INT, MPI_NO_OP, win);
    MPI_Win_unlock(next, win);
    for (int i = 0; i < LONG; i++) expect(old[i] == i + rank, "replaced", i, old[i]);
    MPI_Win_fence(0, win);
    free(operands);
    free(old);
}

/* Reads and writes under the lock lose no update, and fetch-and-adds beside them neither. */
static void counters(MPI_Win win, const int *base)
{
    snprintf(context, sizeof context, "counters");
    int zeros[2] = {0, 0}, one = 1, found, last = -1;
    MPI_Win_fence(0, win);
    MPI_Put(zeros, 2, MPI_INT, rank, 0, 2, MPI_INT, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&found, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_flush(0, win);
        found++;
        MPI_Put(&found, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_unlock(0, win);
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Fetch_and_op(&one, &found, MPI_INT, 0, 1, MPI_SUM, win);
        MPI_Win_unlock(0, win);
        expect(found > last && found < size * ROUNDS, "order", found, last);
        last = found;
        if (rank == 0 && i % 10 == 0) usleep(2000);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    if (rank == 0) {
        expect(base[0] == size * ROUNDS, "locked", base[0], size * ROUNDS);
        expect(base[1] == size * ROUNDS, "added", base[1], size * ROUNDS);
    }
    MPI_Win_unlock(rank, win);
}

/* A child has none of the threads; it ends as any program does. */
static void forked(void)
{
    snprintf(context, sizeof context, "fork");
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) exit(7);
    waitpid(child, &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "child", status, 7);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < 3; round++) {
        MPI_Win win;
        int *base, leave = round == 2 && argc > 1 && !strcmp(argv[1], "leave");
        MPI_Win_allocate((LONG + 1) * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        memset(base, 0, LONG * sizeof(int));
        MPI_Win_fence(0, win);
        long_accumulates(win, base);
        counters(win, base);
        if (round == 1) forked();
        if (!leave) MPI_Win_free(&win);
    }
    return finish("win_handler");
}
