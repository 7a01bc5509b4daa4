/* What programs may ask of a window, as hosts answer it: the memory of ranks that have none, hints that
 * were given, the types of compare-and-swap; and memory from MPI_BOTTOM on.
 *
 *     win_queries
 */
#include "check.h"

static int rank, ranks;

static void shared_memory(int apart)
{
    int *base, unit;
    MPI_Win win;
    MPI_Info info;
    snprintf(context, sizeof context, "shared memory, %s", apart ? "apart" : "together");
    MPI_Info_create(&info);
    if (apart)
        MPI_Info_set(info, "alloc_shared_noncontig", "true");
    MPI_Win_allocate_shared(rank % 2 ? 0 : 64, 4, info, MPI_COMM_WORLD, &base, &win);
    MPI_Info_free(&info);
    for (int other = 0; other < ranks; other++) {
        MPI_Aint bytes;
        void *there;
        MPI_Win_shared_query(win, other, &bytes, &unit, &there);
        if (other % 2 == 0) {
            expect(bytes >= 64 && there != NULL, "a part", (long)bytes, other);
            continue;
        }
        expect(bytes == 0, "length of no part", (long)bytes, other);
#ifdef OPEN_MPI
        expect((there == NULL) == apart, "address of no part", (long)there, other);
#else
        expect(there == NULL, "address of no part", (long)there, other);
#endif
        expect(other != rank || (void *)base == there, "own address", (long)base, (long)there);
    }
    MPI_Win_free(&win);
}

static void expect_hint(MPI_Win win, const char *key, const char *value)
{
    char found[MPI_MAX_INFO_VAL + 1] = "";
    int flag;
    MPI_Info info;
    MPI_Win_get_info(win, &info);
    MPI_Info_get(info, key, MPI_MAX_INFO_VAL, found, &flag);
    MPI_Info_free(&info);
    if (!expect(flag && strcmp(found, value) == 0, "hint", flag, 0))
        fprintf(stderr, "%s is \"%s\" instead of \"%s\"\n", key, found, value);
}

static void hints(int kind)
{
    static char memory[64];
    void *base;
    MPI_Win win;
    MPI_Info info;
    snprintf(context, sizeof context, "hints of window %d", kind);
    MPI_Info_create(&info);
    MPI_Info_set(info, "no_locks", "true");
    MPI_Info_set(info, "same_size", "true");
    if (kind == 0)
        MPI_Win_create(memory, 64, 1, info, MPI_COMM_WORLD, &win);
    else if (kind == 1)
        MPI_Win_allocate(64, 1, info, MPI_COMM_WORLD, &base, &win);
    else if (kind == 2)
        MPI_Win_allocate_shared(64, 1, info, MPI_COMM_WORLD, &base, &win);
    else
        MPI_Win_create_dynamic(info, MPI_COMM_WORLD, &win);
    expect_hint(win, "no_locks", "true");
    expect_hint(win, "same_size", "true");
    MPI_Info_set(info, "no_locks", "false");
    MPI_Win_set_info(win, info);
    MPI_Info_free(&info);
#ifdef OPEN_MPI
    /* Alone it forgets them in windows that share memory. */
    if (getenv("LD_PRELOAD") == NULL && kind == 2)
        return (void)MPI_Win_free(&win);
#endif
    expect_hint(win, "no_locks", "false");
#ifdef OPEN_MPI
    /* Alone it names no defaults. */
    if (getenv("LD_PRELOAD") == NULL)
        return (void)MPI_Win_free(&win);
#endif
    expect_hint(win, "accumulate_ordering", "rar,raw,war,waw");
    expect_hint(win, "accumulate_ops", "same_op_no_op");
    MPI_Info_create(&info);
    MPI_Info_set(info, "accumulate_ops", "same_op");
    MPI_Win_set_info(win, info);
    MPI_Info_free(&info);
    expect_hint(win, "accumulate_ops", "same_op");
    MPI_Win_free(&win);
}

static int swap_class(MPI_Datatype type, MPI_Win win)
{
    long from[4] = {0}, with[4] = {0}, result[4] = {0};
    int class;
    MPI_Error_class(MPI_Compare_and_swap(from, with, result, type, 0, 0, win), &class);
    return class;
}

static void swaps(void)
{
    long memory[4] = {0};
    MPI_Win win;
    MPI_Datatype bytes, same;
    MPI_Datatype integers[] = {MPI_INT, MPI_CHAR, MPI_UNSIGNED_CHAR, MPI_SHORT, MPI_UINT64_T, MPI_LONG_LONG,
                               MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_BYTE, MPI_C_BOOL, MPI_INTEGER, MPI_LOGICAL};
    snprintf(context, sizeof context, "compare and swap");
    MPI_Type_contiguous(4, MPI_BYTE, &bytes);
    MPI_Type_commit(&bytes);
    MPI_Type_dup(MPI_INT, &same);
    MPI_Datatype others[] = {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_2INT, MPI_FLOAT_INT, MPI_C_DOUBLE_COMPLEX,
                             MPI_WCHAR, MPI_PACKED, bytes, same};
    MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, win);
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        expect(swap_class(integers[i], win) == MPI_SUCCESS, "an integer type is refused", (long)i, 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        expect(swap_class(others[i], win) == MPI_ERR_TYPE, "another type is taken", (long)i, 0);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Type_free(&bytes);
    MPI_Type_free(&same);
}

/* A window of all that rank 0 has: it begins at MPI_BOTTOM there, and others bring nothing. */
static void whole_address_space(void)
{
    static long word;
    const MPI_Aint bytes = rank == 0 ? (MPI_Aint)1 << 47 : 0;
    long found = 0;
    MPI_Aint there;
    MPI_Win win;
    snprintf(context, sizeof context, "from MPI_BOTTOM on");
    word = 1000 + rank;
    MPI_Get_address(&word, &there);
    MPI_Bcast(&there, 1, MPI_AINT, 0, MPI_COMM_WORLD);
    MPI_Win_create(MPI_BOTTOM, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Get(&found, 1, MPI_LONG, 0, there, 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    expect(found == 1000, "a word of rank 0", found, 1000);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    shared_memory(0);
    shared_memory(1);
    for (int kind = 0; kind < 4; kind++)
        hints(kind);
#ifndef OPEN_MPI
    /* Alone it refuses that. */
    if (getenv("LD_PRELOAD") != NULL)
#endif
        whole_address_space();
#ifdef OPEN_MPI
    /* Alone it crashes with types that it cannot swap. */
    if (getenv("LD_PRELOAD") == NULL)
        return finish("win_queries");
#endif
    swaps();
    return finish("win_queries");
}
