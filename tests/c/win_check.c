/* One-sided communication: windows of every kind, uneven sizes and units, every synchronisation,
 * every operation, derived datatypes on both sides, against what the standard says must be there.
 *
 *     mpirun -n P win_check [create|allocate|shared]...
 */
#include "check.h"

enum { WORDS = 512 };
#define BIG ((size_t)1 << 20)

static int rank, size;

struct window {
    MPI_Win win;
    long *base;
    MPI_Aint bytes;
    int unit;
    int owned; /* by the program */
};

/* Every second rank counts bytes, the others words. */
static int unit_of(int r) { return r % 2 ? 1 : (int)sizeof(long); }
static MPI_Aint at(int r, size_t word) { return (MPI_Aint)(word * sizeof(long)) / unit_of(r); }
static MPI_Aint bytes_of(int r) { return (MPI_Aint)(BIG + (size_t)(r % 3) * 4096 + 8); }

/* What windows are made with. */
static MPI_Info keys = MPI_INFO_NULL;

static struct window make(const char *kind)
{
    struct window w = {.bytes = bytes_of(rank), .unit = unit_of(rank)};
    if (!strcmp(kind, "create")) {
        w.owned = 1;
        w.base = must(malloc((size_t)w.bytes));
        MPI_Win_create(w.base, w.bytes, w.unit, keys, MPI_COMM_WORLD, &w.win);
    } else if (!strcmp(kind, "allocate")) {
        MPI_Win_allocate(w.bytes, w.unit, keys, MPI_COMM_WORLD, &w.base, &w.win);
    } else {
        MPI_Win_allocate_shared(w.bytes, w.unit, keys, MPI_COMM_WORLD, &w.base, &w.win);
    }
    snprintf(context, sizeof context, "%s", kind);
    return w;
}

static void clear(struct window *w)
{
    MPI_Barrier(MPI_COMM_WORLD);
    memset(w->base, 0, (size_t)w->bytes);
    MPI_Win_fence(0, w->win);
}

static void attributes(struct window *w, const char *kind)
{
    void *value;
    int flag, flavour = !strcmp(kind, "create") ? MPI_WIN_FLAVOR_CREATE
        : !strcmp(kind, "allocate")             ? MPI_WIN_FLAVOR_ALLOCATE
                                                : MPI_WIN_FLAVOR_SHARED;
    MPI_Win_get_attr(w->win, MPI_WIN_BASE, &value, &flag);
    expect(flag && value == w->base, "base", flag, 0);
    MPI_Win_get_attr(w->win, MPI_WIN_SIZE, &value, &flag);
    expect(flag && *(MPI_Aint *)value == w->bytes, "size", flag, 0);
    MPI_Win_get_attr(w->win, MPI_WIN_DISP_UNIT, &value, &flag);
    expect(flag && *(int *)value == w->unit, "unit", flag, 0);
    MPI_Win_get_attr(w->win, MPI_WIN_CREATE_FLAVOR, &value, &flag);
    expect(flag && *(int *)value == flavour, "flavour", flag, flag ? *(int *)value : -1);
    MPI_Win_get_attr(w->win, MPI_WIN_MODEL, &value, &flag);
    expect(flag && *(int *)value == MPI_WIN_UNIFIED, "model", flag, 0);
    MPI_Group group, world;
    int same;
    MPI_Win_get_group(w->win, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &same);
    expect(same == MPI_IDENT, "group", same, 0);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    for (int r = 0; !strcmp(kind, "shared") && r < size; r++) {
        MPI_Aint bytes;
        int unit;
        long *base;
        MPI_Win_shared_query(w->win, r, &bytes, &unit, &base);
        expect(bytes == bytes_of(r) && unit == unit_of(r), "shared_query", bytes, unit);
        base[WORDS + rank] = 1000 * r + rank;
    }
    MPI_Win_fence(0, w->win);
    for (int r = 0; !strcmp(kind, "shared") && r < size; r++)
        expect(w->base[WORDS + r] == 1000 * rank + r, "stored by a peer", w->base[WORDS + r], r);
}

/* Bytes of a pattern to the right neighbour and from it, of lengths up to a megabyte. */
static void fences(struct window *w)
{
    static const size_t lengths[] = {0, 1, 7, 8, 64, 1000, 2048, 2049, 65536, BIG};
    unsigned char *out = must(malloc(BIG)), *in = must(malloc(BIG));
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t n = lengths[i];
        int last = i % 2;
        snprintf(context, sizeof context, "fence of %zu bytes", n);
        clear(w);
        fill(out, n, (long)i, rank);
        memset(in, 0, n);
        MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win);
        MPI_Put(out, (int)n, MPI_BYTE, right, 0, (int)n, MPI_BYTE, w->win);
        MPI_Win_fence(last ? 0 : MPI_MODE_NOSTORE, w->win);
        expect_pattern((unsigned char *)w->base, n, (long)i, left);
        MPI_Get(in, (int)n, MPI_BYTE, right, 0, (int)n, MPI_BYTE, w->win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
        expect_pattern(in, n, (long)i, rank);
    }
    free(out);
    free(in);
}

static void accumulates(struct window *w)
{
    long mine[WORDS], before[WORDS];
    snprintf(context, sizeof context, "accumulate");
    for (int i = 0; i < WORDS; i++)
        mine[i] = (long)rank * 1000 + i;
    clear(w);
    MPI_Win_fence(0, w->win);
    for (int r = 0; r < size; r++)
        MPI_Accumulate(mine, WORDS, MPI_LONG, r, at(r, 3), WORDS, MPI_LONG, MPI_SUM, w->win);
    MPI_Win_fence(0, w->win);
    long ranks = (long)size * (size - 1) / 2;
    for (int i = 0; i < WORDS; i++)
        expect(w->base[3 + i] == 1000 * ranks + (long)size * i, "sum", w->base[3 + i], i);
    expect(w->base[2] == 0 && w->base[3 + WORDS] == 0, "neighbours", w->base[2], 0);
    clear(w);
    double one[3] = {1.5, -2.0, rank + 1.0}, *doubles = (double *)w->base;
    MPI_Win_fence(0, w->win);
    MPI_Accumulate(one, 3, MPI_DOUBLE, 0, 0, 3, MPI_DOUBLE, MPI_SUM, w->win);
    MPI_Accumulate(&one[2], 1, MPI_DOUBLE, 0, at(0, 5), 1, MPI_DOUBLE, MPI_MAX, w->win);
    MPI_Win_fence(0, w->win);
    expect(rank || (doubles[0] == 1.5 * size && doubles[1] == -2.0 * size), "doubles", 0, 0);
    expect(rank || doubles[5] == size, "maximum", (long)doubles[5], size);
    /* All add one to each word and see different values before. */
    clear(w);
    for (int i = 0; i < WORDS; i++)
        mine[i] = 1;
    MPI_Win_lock_all(0, w->win);
    MPI_Get_accumulate(mine, WORDS, MPI_LONG, before, WORDS, MPI_LONG, 0, 0, WORDS, MPI_LONG,
                       MPI_SUM, w->win);
    MPI_Win_unlock_all(w->win);
    for (int i = 0; i < WORDS; i++)
        expect(before[i] >= 0 && before[i] < size, "before", before[i], i);
    MPI_Win_fence(0, w->win);
    for (int i = 0; rank == 0 && i < WORDS; i++)
        expect(w->base[i] == size, "after", w->base[i], i);
    MPI_Win_fence(0, w->win);
    MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, before, 2, MPI_LONG, 0, 0, 2, MPI_LONG,
                       MPI_NO_OP, w->win);
    MPI_Win_fence(0, w->win);
    expect(before[0] == size, "no_op", before[0], size);
}

static void counters(struct window *w)
{
    long one = 1, before, seen = -1;
    snprintf(context, sizeof context, "fetch_and_op");
    clear(w);
    MPI_Win_lock_all(0, w->win);
    for (int i = 0; i < 100; i++) {
        int target = i % size;
        MPI_Fetch_and_op(&one, &before, MPI_LONG, target, at(target, 1), MPI_SUM, w->win);
        MPI_Win_flush(target, w->win);
        if (target == 0) {
            expect(before > seen, "goes up", before, seen);
            seen = before;
        }
    }
    /* A lock of the program's own, by compare-and-swap. */
    for (int i = 0; i < 5; i++) {
        int free_ = 0, taken = 1, found;
        do {
            MPI_Compare_and_swap(&taken, &free_, &found, MPI_INT, 0, at(0, 2), w->win);
            MPI_Win_flush(0, w->win);
        } while (found != 0);
        long value;
        MPI_Get(&value, 1, MPI_LONG, 0, at(0, 3), 1, MPI_LONG, w->win);
        MPI_Win_flush(0, w->win);
        value++;
        MPI_Put(&value, 1, MPI_LONG, 0, at(0, 3), 1, MPI_LONG, w->win);
        MPI_Win_flush(0, w->win);
        MPI_Fetch_and_op(&free_, &found, MPI_INT, 0, at(0, 2), MPI_REPLACE, w->win);
        MPI_Win_flush_all(w->win);
        expect(found == 1, "own lock", found, i);
    }
    MPI_Win_unlock_all(w->win);
    MPI_Win_fence(0, w->win);
    long hits = 0;
    for (int i = 0; i < 100; i++)
        hits += i % size == rank;
    expect(w->base[1] == hits * size, "count", w->base[1], hits * size);
    expect(rank || w->base[3] == 5L * size, "own lock's count", w->base[3], 5L * size);
}

static void locks(struct window *w)
{
    snprintf(context, sizeof context, "lock");
    clear(w);
    for (int i = 0; i < 20; i++) {
        int target = (rank + i) % size;
        long value = -1, copy = -1;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win);
        MPI_Get(&value, 1, MPI_LONG, target, at(target, 9), 1, MPI_LONG, w->win);
        MPI_Win_flush(target, w->win);
        value++;
        MPI_Put(&value, 1, MPI_LONG, target, at(target, 9), 1, MPI_LONG, w->win);
        MPI_Win_unlock(target, w->win);
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win);
        MPI_Get(&copy, 1, MPI_LONG, target, at(target, 9), 1, MPI_LONG, w->win);
        MPI_Win_flush_local(target, w->win);
        expect(copy >= value, "shared", copy, value);
        MPI_Win_unlock(target, w->win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w->win);
    expect(w->base[9] > 0, "own word", w->base[9], 0);
    long all = w->base[9], sum = 0;
    MPI_Win_unlock(rank, w->win);
    MPI_Allreduce(&all, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    expect(sum == 20L * size, "increments", sum, 20L * size);
    /* Every rank holds every lock, shared, at once. */
    MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(w->win);
    MPI_Win_unlock_all(w->win);
    MPI_Win_lock_all(0, w->win);
    MPI_Get(&all, 1, MPI_LONG, (rank + 1) % size, 0, 1, MPI_LONG, w->win);
    MPI_Win_flush_local_all(w->win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(w->win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, MPI_PROC_NULL, 0, w->win);
    MPI_Put(&all, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, w->win);
    MPI_Win_unlock(MPI_PROC_NULL, w->win);
    MPI_Barrier(MPI_COMM_WORLD);
}

#include "win_posts.h"

/* Columns of a matrix of 16 by 16 words, and an indexed type, on both sides. */
static void derived(struct window *w)
{
    MPI_Datatype column, pieces;
    int lengths[3] = {1, 5, 2}, places[3] = {20, 3, 11};
    long out[256], in[256];
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Type_vector(8, 2, 16, MPI_LONG, &column);
    MPI_Type_indexed(3, lengths, places, MPI_LONG, &pieces);
    MPI_Type_commit(&column);
    MPI_Type_commit(&pieces);
    snprintf(context, sizeof context, "derived");
    clear(w);
    for (int i = 0; i < 256; i++)
        out[i] = 1000L * rank + i, in[i] = -1;
    MPI_Win_fence(0, w->win);
    MPI_Put(out, 1, column, right, 0, 2, pieces, w->win);
    MPI_Win_fence(0, w->win);
    int k = 0;
    for (int e = 0; e < 2; e++)
        for (int p = 0; p < 3; p++)
            for (int j = 0; j < lengths[p]; j++, k++) {
                int place = e * 18 + places[p] + j; /* extent from word 3 to 21 */
                long expected = 1000L * left + (k / 2) * 16 + k % 2;
                expect(w->base[place] == expected, "put", w->base[place], expected);
            }
    MPI_Get(in, 2, pieces, right, 0, 1, column, w->win);
    MPI_Win_fence(0, w->win);
    long sum = 0, there[256];
    for (int i = 0; i < 256; i++)
        sum += in[i] != -1;
    expect(sum == 16, "words got", sum, 16);
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w->win);
    MPI_Get(there, 256, MPI_LONG, right, 0, 256, MPI_LONG, w->win);
    MPI_Win_unlock(right, w->win);
    expect(in[20] == there[0] && in[3] == there[1] && in[4] == there[16], "get", in[20], there[0]);
    clear(w);
    MPI_Win_fence(0, w->win);
    for (int r = 0; r < size; r++)
        MPI_Accumulate(out, 1, column, r, at(r, 1), 1, column, MPI_SUM, w->win);
    MPI_Win_fence(0, w->win);
    long ranks = (long)size * (size - 1) / 2;
    for (int i = 0; i < 8; i++) {
        long got = w->base[1 + 16 * i], expected = 1000 * ranks + (long)size * 16 * i;
        expect(got == expected, "accumulated", got, expected);
        expect(w->base[1 + 16 * i + 2] == 0, "gap", w->base[1 + 16 * i + 2], 0);
    }
    MPI_Type_free(&column);
    MPI_Type_free(&pieces);
}

#include "win_runs.h"

/* Pairs have gaps between their elements, or inside. */
static void pairs(struct window *w)
{
    struct { double value; int index; } mine = {(double)(rank * 7 % size), rank}, *best;
    struct { short value; int index; } small = {(short)-rank, rank}, *least;
    snprintf(context, sizeof context, "pairs");
    clear(w);
    best = (void *)w->base;
    least = (void *)(w->base + 8);
    least->value = 1;
    best->value = -1;
    MPI_Win_fence(0, w->win);
    MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, 0, 0, 1, MPI_DOUBLE_INT, MPI_MAXLOC, w->win);
    MPI_Accumulate(&small, 1, MPI_SHORT_INT, 0, at(0, 8), 1, MPI_SHORT_INT, MPI_MINLOC, w->win);
    MPI_Win_fence(0, w->win);
    int most = 0;
    for (int r = 0; r < size; r++)
        if (r * 7 % size > most * 7 % size)
            most = r;
    expect(rank || best->index == most, "largest", best->index, most);
    expect(rank || (least->index == size - 1 && least->value == 1 - size), "least", least->index, 0);
}

static void unmake(struct window *w)
{
    MPI_Win_free(&w->win);
    expect(w->win == MPI_WIN_NULL, "freed", 0, 0);
    if (w->owned)
        free(w->base);
}

/* The forms that are not the default, by info keys of a window. */
static void other_forms(const char *kind)
{
    MPI_Info_create(&keys);
    MPI_Info_set(keys, "ferrorail_pscw", "bit_vectors");
    MPI_Info_set(keys, "ferrorail_lock_request", "deferred");
    MPI_Info_set(keys, "ferrorail_service_threads", "window");
    struct window w = make(kind);
    MPI_Info_free(&keys);
    keys = MPI_INFO_NULL;
    posts(&w);
    counters(&w);
    locks(&w);
    unmake(&w);
}

static void all(const char *kind)
{
    struct window w = make(kind);
    attributes(&w, kind);
    fences(&w);
    accumulates(&w);
    counters(&w);
    locks(&w);
    posts(&w);
    derived(&w);
    runs(&w);
    pairs(&w);
    unmake(&w);
    other_forms(kind);
}

/* A window of nothing on most ranks, and two windows over the same memory. */
static void odd_windows(void)
{
    MPI_Win one, two;
    long word = 0, mine = rank + 1;
    snprintf(context, sizeof context, "odd windows");
    MPI_Win_create(rank == size - 1 ? &word : NULL, rank == size - 1 ? 8 : 0, 8, MPI_INFO_NULL,
                   MPI_COMM_WORLD, &one);
    MPI_Win_create(&word, 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &two);
    MPI_Win_fence(0, one);
    MPI_Accumulate(&mine, 1, MPI_LONG, size - 1, 0, 1, MPI_LONG, MPI_SUM, one);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, one);
    MPI_Win_fence(0, two);
    MPI_Get(&mine, 1, MPI_LONG, size - 1, 0, 1, MPI_LONG, two);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, two);
    expect(mine == (long)size * (size + 1) / 2, "seen by the other", mine, size);
    MPI_Win_free(&two), MPI_Win_free(&one);
}

int main(int argc, char **argv)
{
    static const char *kinds[] = {"create", "allocate", "shared"};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; i < argc; i++)
        all(argv[i]);
    for (int i = 0; argc == 1 && i < 3; i++)
        all(kinds[i]);
    odd_windows();
    return finish("win_check");
}
