/* Dynamic windows, operations with requests, and hints.
 *
 *     mpirun -n P win_dynamic
 */
#include "host.h"
#include "check.h"
#include <sys/mman.h>

static int rank, size;

/* Memory is attached and detached while others look at other pieces; addresses are used again. */
static void dynamic(void)
{
    MPI_Win win;
    MPI_Aint *where = must(calloc((size_t)size, sizeof *where));
    enum { WORDS = 3000 };
    long *own[4], in[WORDS];
    int flag, *flavour, right = (rank + 1) % size, left = (rank + size - 1) % size;
    void *base;
    snprintf(context, sizeof context, "dynamic");
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavour, &flag);
    expect(flag && *flavour == MPI_WIN_FLAVOR_DYNAMIC, "flavour", flag, 0);
    MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag);
    expect(flag && base == MPI_BOTTOM, "base", flag, 0);
    for (int round = 0; round < 12; round++) {
        int slot = round % 4;
        snprintf(context, sizeof context, "dynamic, round %d", round);
        if (round >= 4) {
            MPI_Win_detach(win, own[slot]);
            free(own[slot]);
        }
        own[slot] = must(malloc(sizeof in));
        for (int i = 0; i < WORDS; i++)
            own[slot][i] = 100000L * rank + 10 * i + round;
        MPI_Win_attach(win, own[slot], sizeof in);
        MPI_Aint mine;
        MPI_Get_address(own[slot], &mine);
        HOST(Allgather)(&mine, 1, MPI_AINT, where, 1, MPI_AINT, MPI_COMM_WORLD);
        MPI_Win_lock_all(0, win);
        MPI_Get(in, WORDS, MPI_LONG, right, where[right], WORDS, MPI_LONG, win);
        MPI_Win_flush(right, win);
        for (int i = 0; i < WORDS; i += 17)
            expect(in[i] == 100000L * right + 10 * i + round, "got", in[i], i);
        HOST(Barrier)(MPI_COMM_WORLD);
        long value = 7 + rank, before;
        MPI_Aint word = MPI_Aint_add(where[right], 5 * (MPI_Aint)sizeof(long));
        MPI_Put(&value, 1, MPI_LONG, right, where[right], 1, MPI_LONG, win);
        MPI_Fetch_and_op(&value, &before, MPI_LONG, right, word, MPI_SUM, win);
        MPI_Win_unlock_all(win);
        expect(before == 100000L * right + 50 + round, "before", before, round);
        HOST(Barrier)(MPI_COMM_WORLD);
        expect(own[slot][0] == 7 + left, "put", own[slot][0], left);
        expect(own[slot][5] == 100000L * rank + 50 + round + 7 + left, "added", own[slot][5], left);
        HOST(Barrier)(MPI_COMM_WORLD);
    }
    for (int slot = 0; slot < 4; slot++) {
        MPI_Win_detach(win, own[slot]);
        free(own[slot]);
    }
    MPI_Win_free(&win);
    free(where);
}

/* Gets a page twice and the next but one, between which there is none. */
static void gap(void)
{
    enum { PAGE = 65536 };
    int lengths[] = {PAGE, PAGE, PAGE}, places[] = {0, 0, 2 * PAGE}, right = (rank + 1) % size;
    unsigned char *in = must(calloc(3, PAGE));
    unsigned char *memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MPI_Aint mine, *where = must(calloc((size_t)size, sizeof *where));
    MPI_Datatype pages;
    MPI_Win win;
    snprintf(context, sizeof context, "gap");
    fill(memory, PAGE, 1, rank);
    fill(memory + 2 * PAGE, PAGE, 2, rank);
    munmap(memory + PAGE, PAGE);
    MPI_Type_indexed(3, lengths, places, MPI_BYTE, &pages);
    MPI_Type_commit(&pages);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, memory, PAGE);
    MPI_Win_attach(win, memory + 2 * PAGE, PAGE);
    MPI_Get_address(memory, &mine);
    HOST(Allgather)(&mine, 1, MPI_AINT, where, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
    MPI_Get(in, 3 * PAGE, MPI_BYTE, right, where[right], 1, pages, win);
    MPI_Win_unlock(right, win);
    expect_pattern(in, PAGE, 1, right);
    expect_pattern(in + PAGE, PAGE, 1, right);
    expect_pattern(in + 2 * PAGE, PAGE, 2, right);
    HOST(Barrier)(MPI_COMM_WORLD);
    MPI_Win_detach(win, memory);
    MPI_Win_detach(win, memory + 2 * PAGE);
    MPI_Win_free(&win);
    MPI_Type_free(&pages);
    munmap(memory, PAGE), munmap(memory + 2 * PAGE, PAGE);
    free(where);
    free(in);
}

static void requests(void)
{
    enum { N = 40000 };
    MPI_Win win;
    long *base, *out = must(malloc(N * sizeof(long))), *in = must(malloc(N * sizeof(long)));
    int right = (rank + 1) % size, left = (rank + size - 1) % size, flag = 0;
    MPI_Request requests[3];
    MPI_Status status;
    snprintf(context, sizeof context, "requests");
    MPI_Win_allocate(N * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    memset(base, 0, N * sizeof(long));
    for (int i = 0; i < N; i++)
        out[i] = 1000L * rank + i;
    HOST(Barrier)(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    MPI_Rput(out, N, MPI_LONG, right, 0, N, MPI_LONG, win, &requests[0]);
    MPI_Wait(&requests[0], &status);
    expect(requests[0] == MPI_REQUEST_NULL, "null", 0, 0);
    memset(out, 0, N * sizeof(long));
    MPI_Win_flush_all(win);
    HOST(Barrier)(MPI_COMM_WORLD);
    for (int i = 0; i < N; i += 13)
        expect(base[i] == 1000L * left + i, "rput", base[i], i);
    MPI_Rget(in, N, MPI_LONG, right, 0, N, MPI_LONG, win, &requests[0]);
    while (!flag)
        MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i += 13)
        expect(in[i] == 1000L * rank + i, "rget", in[i], i);
    HOST(Barrier)(MPI_COMM_WORLD);
    long one[3] = {1, 2, 3}, before[3];
    MPI_Raccumulate(one, 3, MPI_LONG, right, 10, 3, MPI_LONG, MPI_SUM, win, &requests[0]);
    MPI_Rget_accumulate(one, 3, MPI_LONG, before, 3, MPI_LONG, right, 10, 3, MPI_LONG, MPI_SUM,
                        win, &requests[1]);
    MPI_Rput(one, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win, &requests[2]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    expect(before[2] == 1000L * rank + 12 + 3, "before", before[2], rank);
    MPI_Win_unlock_all(win);
    HOST(Barrier)(MPI_COMM_WORLD);
    expect(base[11] == 1000L * left + 11 + 4, "after", base[11], left);
    MPI_Win_free(&win);
    free(out);
    free(in);
}

/* Every lock algorithm, by hint: a counter that only locks protect. */
static void hints(void)
{
    static const char *locks[] = {"test_and_set", "mcs", "queue", "thread", "event"};
    for (int k = 0; k < 5; k++) {
        MPI_Info info;
        MPI_Win win;
        long *base, value;
        snprintf(context, sizeof context, "lock %s", locks[k]);
        MPI_Info_create(&info);
        MPI_Info_set(info, "ferrorail_lock", locks[k]);
        MPI_Win_allocate(2 * sizeof(long), sizeof(long), info, MPI_COMM_WORLD, &base, &win);
        MPI_Info_free(&info);
        base[0] = base[1] = 0;
        HOST(Barrier)(MPI_COMM_WORLD);
        for (int i = 0; i < 30; i++) {
            int target = i % 3 ? 0 : size - 1;
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
            MPI_Get(&value, 1, MPI_LONG, target, 1, 1, MPI_LONG, win);
            MPI_Win_flush(target, win);
            value++;
            MPI_Put(&value, 1, MPI_LONG, target, 1, 1, MPI_LONG, win);
            MPI_Win_unlock(target, win);
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
            MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
            MPI_Win_unlock(0, win);
        }
        HOST(Barrier)(MPI_COMM_WORLD);
        /* All inside at once. */
        MPI_Win_lock_all(0, win);
        MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
        MPI_Win_flush_all(win);
        HOST(Barrier)(MPI_COMM_WORLD);
        MPI_Win_unlock_all(win);
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        if (size > 1) {
            MPI_Win_lock(MPI_LOCK_SHARED, size - 1, 0, win);
            MPI_Win_unlock(size - 1, win);
        }
        MPI_Win_unlock(0, win);
        HOST(Barrier)(MPI_COMM_WORLD);
        long mine = base[1], sum = 0;
        HOST(Allreduce)(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        expect(sum == 30L * size, "increments", sum, 30L * size);
        MPI_Win_free(&win);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    dynamic();
#ifdef OPEN_MPI
    /* It takes such a gap for memory that is not attached: alone, and where windows are its own. */
    const char *cma = getenv("FERRORAIL_CMA");
    if (getenv("LD_PRELOAD") != NULL && (cma == NULL || strcmp(cma, "off") != 0))
#endif
        gap();
    requests();
    hints();
    return finish("win_dynamic");
}
