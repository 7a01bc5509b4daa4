/* Misuse of windows: the error class that the window's error handler is called with, and that memory
 * stays as it was. Afterwards the window must still work.
 *
 *     mpirun -n P win_errors
 */
#include "check.h"

static int handled, last;

static void note(MPI_Win *win, int *code, ...)
{
    (void)win;
    handled++;
    last = *code;
}

static void wants(const char *name, int class)
{
    int got = -1;
    snprintf(context, sizeof context, "%s", name);
    expect(handled == 1, "error handler calls", handled, 1);
    if (handled)
        MPI_Error_class(last, &got);
    expect(got == class, "class", got, class);
    handled = 0;
}

int main(int argc, char **argv)
{
    int rank, size, flag;
    long memory[8], one = 1, got = -1, *base;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int right = (rank + 1) % size;
    MPI_Win win;
    MPI_Errhandler handler;
    MPI_Datatype loose;
    MPI_Group world, none;
    MPI_Type_vector(2, 1, 2, MPI_LONG, &loose);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Win_allocate(sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    memset(base, 0x5a, sizeof memory);
    memcpy(memory, base, sizeof memory);
    MPI_Win_create_errhandler(note, &handler);
    MPI_Win_set_errhandler(win, handler);
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_Put(&one, 1, MPI_LONG, right, 0, 1, MPI_LONG, win);
    wants("put outside an epoch", MPI_ERR_RMA_SYNC);
    MPI_Get(&got, 1, MPI_LONG, right, 0, 1, MPI_LONG, win);
    wants("get outside an epoch", MPI_ERR_RMA_SYNC);
    MPI_Accumulate(&one, 1, MPI_LONG, right, 0, 1, MPI_LONG, MPI_SUM, win);
    wants("accumulate outside an epoch", MPI_ERR_RMA_SYNC);
    MPI_Fetch_and_op(&one, &got, MPI_LONG, right, 0, MPI_SUM, win);
    wants("fetch_and_op outside an epoch", MPI_ERR_RMA_SYNC);
    MPI_Win_unlock(right, win);
    wants("unlock without lock", MPI_ERR_RMA_SYNC);
    MPI_Win_unlock_all(win);
    wants("unlock_all without lock_all", MPI_ERR_RMA_SYNC);
    MPI_Win_flush(right, win);
    wants("flush without lock", MPI_ERR_RMA_SYNC);
    MPI_Win_complete(win);
    wants("complete without start", MPI_ERR_RMA_SYNC);
    MPI_Win_wait(win);
    wants("wait without post", MPI_ERR_RMA_SYNC);
    MPI_Win_test(win, &flag);
    wants("test without post", MPI_ERR_RMA_SYNC);
    MPI_Win_lock(12345, right, 0, win);
    wants("type of lock", MPI_ERR_LOCKTYPE);
    MPI_Win_lock(MPI_LOCK_SHARED, size, 0, win);
    wants("lock of no rank", MPI_ERR_RANK);
    MPI_Win_fence(-1, win);
    wants("fence's assertion", MPI_ERR_ASSERT);
    MPI_Win_post(MPI_GROUP_NULL, 0, win);
    wants("post to no group", MPI_ERR_GROUP);
    MPI_Win_start(MPI_GROUP_NULL, 0, win);
    wants("start with no group", MPI_ERR_GROUP);

    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win);
    wants("locked twice", MPI_ERR_RMA_SYNC);
    MPI_Win_lock_all(0, win);
    wants("all locked while one is", MPI_ERR_RMA_SYNC);
    MPI_Win_fence(0, win);
    wants("fence while locked", MPI_ERR_RMA_SYNC);
    MPI_Win_start(world, 0, win);
    wants("start while locked", MPI_ERR_RMA_SYNC);
    MPI_Win_free(&win);
    wants("freed while locked", MPI_ERR_RMA_SYNC);
    if (size > 1) {
        MPI_Put(&one, 1, MPI_LONG, rank, 0, 1, MPI_LONG, win);
        wants("put to a target that is not locked", MPI_ERR_RMA_SYNC);
    }
    MPI_Put(&one, 1, MPI_LONG, size, 0, 1, MPI_LONG, win);
    wants("put to no rank", MPI_ERR_RANK);
    MPI_Put(&one, 1, MPI_LONG, -77, 0, 1, MPI_LONG, win);
    wants("put to a negative rank", MPI_ERR_RANK);
    MPI_Put(&one, 1, MPI_LONG, right, 8, 1, MPI_LONG, win);
    wants("put behind the window", MPI_ERR_RMA_RANGE);
    MPI_Put(&one, 1, MPI_LONG, right, -1, 1, MPI_LONG, win);
    wants("put before the window", MPI_ERR_DISP);
    MPI_Get(memory, 8, MPI_LONG, right, 1, 8, MPI_LONG, win);
    wants("get across the end", MPI_ERR_RMA_RANGE);
    MPI_Accumulate(&one, 1, MPI_LONG, right, 1L << 60, 1, MPI_LONG, MPI_SUM, win);
    wants("accumulate far away", MPI_ERR_RMA_RANGE);
    MPI_Put(&one, -1, MPI_LONG, right, 0, 1, MPI_LONG, win);
    wants("negative count", MPI_ERR_COUNT);
    MPI_Put(&one, 1, loose, right, 0, 1, MPI_LONG, win);
    wants("type not committed", MPI_ERR_TYPE);
    MPI_Accumulate(&one, 1, MPI_LONG, right, 0, 1, MPI_LONG, MPI_OP_NULL, win);
    wants("no operation", MPI_ERR_OP);
    MPI_Win_unlock(right, win);
    expect(handled == 0, "unlock", handled, 0);

    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_post(world, 0, win);
    MPI_Win_post(world, 0, win);
    wants("posted twice", MPI_ERR_RMA_SYNC);
    MPI_Win_start(world, 0, win);
    MPI_Win_start(world, 0, win);
    wants("started twice", MPI_ERR_RMA_SYNC);
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
    wants("locked between start and complete", MPI_ERR_RMA_SYNC);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    MPI_Group_incl(world, 0, NULL, &none);
    MPI_Win_start(none, 0, win);
    MPI_Put(&one, 1, MPI_LONG, right, 0, 1, MPI_LONG, win);
    wants("put to a target outside the group", MPI_ERR_RMA_SYNC);
    MPI_Win_complete(win);
    expect(handled == 0, "post and start", handled, 0);

    MPI_Barrier(MPI_COMM_WORLD);
    expect(memcmp(memory, base, sizeof memory) == 0, "memory", base[0], memory[0]);
    MPI_Win_fence(0, win);
    MPI_Put(&one, 1, MPI_LONG, right, 3, 1, MPI_LONG, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    snprintf(context, sizeof context, "afterwards");
    expect(handled == 0 && base[3] == 1, "put", handled, base[3]);
    MPI_Group_free(&none);
    MPI_Group_free(&world);
    MPI_Errhandler_free(&handler);
    MPI_Win_free(&win);
    MPI_Type_free(&loose);
    return finish("win_errors");
}
