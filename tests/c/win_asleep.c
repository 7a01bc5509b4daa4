/* A target that sleeps outside MPI delays nobody: put, get, lock, unlock, accumulate, fetch-and-op
 * and compare-and-swap of all others, on windows of several kinds, are done before it wakes. It
 * raises a flag in its memory when it does; the others read that last.
 *
 *     mpirun -n P win_asleep [seconds, default 2]
 *
 * Not every host passes without ferrorail.
 */
#include "host.h"
#include "check.h"

#include <time.h>

enum { KINDS = 3, AWAKE = 0, SUM = 1, SWAPPED = 2, OWN = 8, WORDS = 4096, PART = 100 };
static const char *const kinds[KINDS] = {"allocate", "create", "dynamic"};

static int rank, size;
static long memory[2][WORDS];

struct window {
    MPI_Win win;
    long *base;
    MPI_Aint first; /* displacement of the sleeper's memory */
};

static struct window make(int kind)
{
    const MPI_Aint bytes = WORDS * sizeof(long);
    struct window w = {.base = memory[kind == 2]};
    if (kind == 0) {
        MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.base, &w.win);
    } else if (kind == 1) {
        MPI_Win_create(w.base, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
    } else {
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
        MPI_Win_attach(w.win, w.base, bytes);
        MPI_Get_address(w.base, &w.first);
        HOST(Bcast)(&w.first, 1, MPI_AINT, 0, MPI_COMM_WORLD);
    }
    memset(w.base, 0, (size_t)bytes);
    return w;
}

static MPI_Aint at(const struct window *w, int word) { return w->first + word * (MPI_Aint)sizeof(long); }

static void use(const struct window *w)
{
    long mine[PART], back[PART], one = 1, before, compare = 0;
    int own = OWN + rank * PART;
    fill((unsigned char *)mine, sizeof mine, 1, rank);
    for (int round = 0; round < 3; round++) {
        memset(back, 0, sizeof back);
        MPI_Win_lock(round % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, w->win);
        MPI_Put(mine, PART, MPI_LONG, 0, at(w, own), PART, MPI_LONG, w->win);
        MPI_Win_flush(0, w->win);
        MPI_Get(back, PART, MPI_LONG, 0, at(w, own), PART, MPI_LONG, w->win);
        MPI_Win_unlock(0, w->win);
        expect_pattern((unsigned char *)back, sizeof back, 1, rank);
    }
    MPI_Win_lock_all(0, w->win);
    MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, at(w, SUM), MPI_SUM, w->win);
    MPI_Accumulate(&one, 1, MPI_LONG, 0, at(w, SUM), 1, MPI_LONG, MPI_SUM, w->win);
    MPI_Win_flush(0, w->win);
    expect(before >= 0 && before < 2 * size, "sum", before, size);
    MPI_Compare_and_swap(&one, &compare, &before, MPI_LONG, 0, at(w, SWAPPED), w->win);
    MPI_Win_flush(0, w->win);
    expect(before == 0 || before == 1, "swapped", before, 0);
    MPI_Win_unlock_all(w->win);
}

static void sleep_outside(double seconds)
{
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0)
        ;
}

static void look(const struct window *w)
{
    long awake = -1;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win);
    MPI_Get(&awake, 1, MPI_LONG, 0, at(w, AWAKE), 1, MPI_LONG, w->win);
    MPI_Win_unlock(0, w->win);
    expect(awake == 0, "the target was awake before all was done", awake, 0);
}

int main(int argc, char **argv)
{
    struct window windows[KINDS];
    long one = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    for (int kind = 0; kind < KINDS; kind++)
        windows[kind] = make(kind);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        sleep_outside(seconds);
    } else {
        double start = MPI_Wtime();
        for (int kind = 0; kind < KINDS; kind++) {
            snprintf(context, sizeof context, "%s", kinds[kind]);
            use(&windows[kind]);
        }
        for (int kind = 0; kind < KINDS; kind++)
            look(&windows[kind]);
        if (rank == size - 1)
            printf("done after %.3f s\n", MPI_Wtime() - start);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        const struct window *w = &windows[kind];
        snprintf(context, sizeof context, "%s, awake", kinds[kind]);
        if (rank == 0) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win);
            MPI_Put(&one, 1, MPI_LONG, 0, at(w, AWAKE), 1, MPI_LONG, w->win);
            MPI_Win_unlock(0, w->win);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win);
            expect(w->base[SUM] == 2 * (size - 1), "sum of all", w->base[SUM], size);
            expect(w->base[SWAPPED] == (size > 1), "swapped", w->base[SWAPPED], size);
            for (int r = 1; r < size; r++)
                expect_pattern((unsigned char *)(w->base + OWN + r * PART), PART * sizeof(long), 1, r);
            MPI_Win_unlock(0, w->win);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (kind == 2)
            MPI_Win_detach(w->win, w->base);
        MPI_Win_free(&windows[kind].win);
    }
    return finish("win_asleep");
}
