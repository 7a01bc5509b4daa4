/* Accumulating operations of all ranks on the same elements at the same time: single elements, long
 * vectors over them, types with gaps, compare-and-swaps, several operators and types, elements whose
 * addresses eight does not divide. Every operation counts, whatever way it goes.
 *
 *     mpirun -n P win_elements [ROUNDS (30)] [granularity]
 *
 * `granularity` asks for elements that are accumulated one at a time.
 */
#include "check.h"
#include <stddef.h>

enum { WORDS = 300, ODD = 40 };

/* What each rank brings: words that are summed, multiplied doubles, counted ints, words off by four. */
typedef struct {
    int64_t words[WORDS];
    double doubles[WORDS];
    int32_t ints[WORDS];
    uint64_t swapped, most, ored, replaced;
    char odd[4 + 8 * ODD];
} memory_t;

static int rank, size, rounds;
static MPI_Win win;

static MPI_Aint at(size_t offset)
{
    return (MPI_Aint)offset;
}

/* Adds one to words[first..first + count), by a vector, a type with gaps, or one by one. */
static void add_words(int target, int first, int count, int how)
{
    static int64_t ones[WORDS], before[WORDS];
    MPI_Aint there = at(offsetof(memory_t, words) + 8 * (size_t)first);
    for (int i = 0; i < WORDS; i++)
        ones[i] = 1;
    if (how == 0) {
        MPI_Accumulate(ones, count, MPI_INT64_T, target, there, count, MPI_INT64_T, MPI_SUM, win);
    } else if (how == 1) {
        MPI_Datatype odd, even;
        MPI_Type_vector((count + 1) / 2, 1, 2, MPI_INT64_T, &even);
        MPI_Type_vector(count / 2, 1, 2, MPI_INT64_T, &odd);
        MPI_Type_commit(&even);
        MPI_Type_commit(&odd);
        MPI_Get_accumulate(ones, (count + 1) / 2, MPI_INT64_T, before, (count + 1) / 2, MPI_INT64_T,
            target, there, 1, even, MPI_SUM, win);
        MPI_Accumulate(ones, count / 2, MPI_INT64_T, target, there + 8, 1, odd, MPI_SUM, win);
        MPI_Type_free(&even);
        MPI_Type_free(&odd);
    } else {
        for (int i = 0; i < count; i++)
            MPI_Fetch_and_op(ones, before, MPI_INT64_T, target, there + 8 * i, MPI_SUM, win);
    }
}

/* Adds one to a word by compare-and-swap. */
static void swap_word(int target)
{
    uint64_t seen = 0, found, next;
    MPI_Aint there = at(offsetof(memory_t, swapped));
    MPI_Fetch_and_op(NULL, &seen, MPI_UINT64_T, target, there, MPI_NO_OP, win);
    for (;;) {
        next = seen + 1;
        MPI_Compare_and_swap(&next, &seen, &found, MPI_UINT64_T, target, there, win);
        if (found == seen)
            return;
        seen = found;
    }
}

static void one_round(int target, int round)
{
    double doubles[WORDS];
    int32_t ints[WORDS];
    int64_t odd[ODD];
    for (int i = 0; i < WORDS; i++) {
        doubles[i] = 0.5;
        ints[i] = 3;
    }
    for (int i = 0; i < ODD; i++)
        odd[i] = 5;
    add_words(target, 0, WORDS, round % 2);
    add_words(target, 7 * (round % 3), 5, 2);
    MPI_Accumulate(doubles, WORDS, MPI_DOUBLE, target, at(offsetof(memory_t, doubles)), WORDS, MPI_DOUBLE,
        MPI_SUM, win);
    MPI_Accumulate(doubles, 1, MPI_DOUBLE, target, at(offsetof(memory_t, doubles)), 1, MPI_DOUBLE, MPI_SUM,
        win);
    MPI_Accumulate(ints, WORDS, MPI_INT32_T, target, at(offsetof(memory_t, ints)), WORDS, MPI_INT32_T,
        MPI_SUM, win);
    MPI_Accumulate(odd, ODD, MPI_INT64_T, target, at(offsetof(memory_t, odd) + 4), ODD, MPI_INT64_T,
        MPI_SUM, win);
    swap_word(target);
    uint64_t most = 1000 * (uint64_t)round + (uint64_t)rank, bit = 1ull << rank, mark = 77, before;
    MPI_Fetch_and_op(&most, &before, MPI_UINT64_T, target, at(offsetof(memory_t, most)), MPI_MAX, win);
    MPI_Fetch_and_op(&bit, &before, MPI_UINT64_T, target, at(offsetof(memory_t, ored)), MPI_BOR, win);
    MPI_Fetch_and_op(&mark, &before, MPI_UINT64_T, target, at(offsetof(memory_t, replaced)), MPI_REPLACE,
        win);
    expect(before == 0 || before == 77, "replaced", (long)before, round);
}

static void check_all(const memory_t *memory)
{
    long all = (long)size * rounds;
    for (int i = 0; i < WORDS; i++) {
        long more = 0;
        for (int round = 0; round < rounds; round++)
            more += i >= 7 * (round % 3) && i < 7 * (round % 3) + 5;
        expect(memory->words[i] == all + size * more, "words", (long)memory->words[i], i);
        double sum = 0.5 * (double)(i == 0 ? 2 * all : all);
        expect(memory->doubles[i] == sum, "doubles", (long)memory->doubles[i], i);
        expect(memory->ints[i] == 3 * all, "ints", memory->ints[i], i);
    }
    for (int i = 0; i < ODD; i++) {
        int64_t word;
        memcpy(&word, memory->odd + 4 + 8 * i, 8);
        expect(word == 5 * all, "words off by four", (long)word, i);
    }
    expect(memory->swapped == (uint64_t)all, "swapped", (long)memory->swapped, all);
    expect(memory->most == 1000 * (uint64_t)(rounds - 1) + (uint64_t)size - 1, "most", (long)memory->most, 0);
    expect(memory->ored == (1ull << size) - 1, "ored", (long)memory->ored, 0);
    expect(memory->replaced == 77, "replaced at last", (long)memory->replaced, 0);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rounds = argc > 1 ? atoi(argv[1]) : 30;
    MPI_Info info;
    MPI_Info_create(&info);
    if (argc > 2)
        MPI_Info_set(info, "mpi_accumulate_granularity", argv[2]);
    memory_t *memory;
    MPI_Win_allocate(sizeof *memory, 1, info, MPI_COMM_WORLD, &memory, &win);
    MPI_Info_free(&info);
    memset(memory, 0, sizeof *memory);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    for (int round = 0; round < rounds; round++) {
        snprintf(context, sizeof context, "round %d", round);
        if (round % 3) {
            MPI_Win_lock_all(0, win);
            for (int i = 0; i < size; i++)
                one_round((rank + i) % size, round);
            MPI_Win_unlock_all(win);
        } else {
            for (int i = 0; i < size; i++) {
                int kind = (round + i) % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED;
                MPI_Win_lock(kind, (rank + i) % size, 0, win);
                one_round((rank + i) % size, round);
                MPI_Win_unlock((rank + i) % size, win);
            }
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    check_all(memory);
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
    return finish("win_elements");
}
