/* MPI_Allreduce, MPI_Reduce, MPI_Reduce_scatter_block, MPI_Reduce_scatter, MPI_Scan and MPI_Exscan
 * against local reductions in rank order, byte by byte: every predefined operation on the types it
 * is for, operations that do not commute, derived types whose gaps must stay, MPI_IN_PLACE, every
 * root, arguments that are significant at the root alone, zero counts, sizes up to some MB,
 * sub-communicators in odd orders; and all of them in random order. Floating-point numbers are such
 * that every order of operations gives the same, but where rounding is what is looked at: then all
 * ranks must have the same bits. With TEST_SETTINGS for each of the settings, see settings.h.
 *
 *     mpirun -n P reductions_check [largest vector in bytes, default 1000000] [seed, default 1]
 *                                  [N: only the sizes, and N calls in random order]
 */
#include "host.h"
#include "reduction.h"
#include "settings.h"

#include <math.h>

/* A few kinds that change from call to call, all-reduce always. */
static void some(MPI_Comm comm, const element_t *element, long count, operation_t op)
{
    int size;
    static int turn;
    MPI_Comm_size(comm, &size);
    int other = 1 + turn % (KINDS - 1), in_place = turn / 3 % 2, root = turn % size;
    turn++;
    one(ALLREDUCE, comm, element, count, op, 0, !in_place);
    one(other, comm, element, count, op, root, in_place);
}

static void all_kinds(MPI_Comm comm, const element_t *element, long count, operation_t op)
{
    int size;
    MPI_Comm_size(comm, &size);
    for (int in_place = 0; in_place < 2; in_place++) {
        for (int kind = 0; kind < KINDS; kind++)
            if (kind != REDUCE)
                one(kind, comm, element, count, op, 0, in_place);
        for (int root = 0; root < size; root++)
            one(REDUCE, comm, element, count, op, root, in_place);
    }
}

#define OP(name) {#name, name}
#define ELEMENT(type, content) {describe(#type, type), content}

/* Every operation of `ops` on every one of `all`. */
static void group(MPI_Comm comm, element_t *all, int count, const operation_t *ops, int op_count)
{
    for (int i = 0; i < count; i++) {
        for (int o = 0; o < op_count && all[i].layout.bytes > 0; o++) {
            some(comm, &all[i], 1, ops[o]);
            some(comm, &all[i], 7, ops[o]);
            some(comm, &all[i], o % 2 ? 0 : 200, ops[o]);
        }
        free(all[i].layout.place);
    }
}

#define GROUP(comm, all, ops) \
    group(comm, all, (int)(sizeof all / sizeof *all), ops, (int)(sizeof ops / sizeof *ops))

static void predefined(MPI_Comm comm)
{
    const operation_t any[] = {OP(MPI_MAX), OP(MPI_MIN), OP(MPI_SUM), OP(MPI_PROD)};
    const operation_t logical[] = {OP(MPI_LAND), OP(MPI_LOR), OP(MPI_LXOR)};
    const operation_t bits[] = {OP(MPI_BAND), OP(MPI_BOR), OP(MPI_BXOR)};
    const operation_t located[] = {OP(MPI_MAXLOC), OP(MPI_MINLOC)};
    element_t integers[] = {
        ELEMENT(MPI_SIGNED_CHAR, INTEGER), ELEMENT(MPI_UNSIGNED_CHAR, NATURAL), ELEMENT(MPI_SHORT, INTEGER),
        ELEMENT(MPI_UNSIGNED_SHORT, NATURAL), ELEMENT(MPI_INT, INTEGER), ELEMENT(MPI_UNSIGNED, NATURAL),
        ELEMENT(MPI_LONG, INTEGER), ELEMENT(MPI_UNSIGNED_LONG, NATURAL), ELEMENT(MPI_LONG_LONG, INTEGER),
        ELEMENT(MPI_UNSIGNED_LONG_LONG, NATURAL), ELEMENT(MPI_INT8_T, INTEGER),
        ELEMENT(MPI_UINT8_T, NATURAL), ELEMENT(MPI_INT16_T, INTEGER), ELEMENT(MPI_UINT16_T, NATURAL),
        ELEMENT(MPI_INT32_T, INTEGER), ELEMENT(MPI_UINT32_T, NATURAL), ELEMENT(MPI_INT64_T, INTEGER),
        ELEMENT(MPI_UINT64_T, NATURAL), ELEMENT(MPI_AINT, INTEGER), ELEMENT(MPI_OFFSET, INTEGER),
        ELEMENT(MPI_COUNT, INTEGER),
    };
    GROUP(comm, integers, any);
    element_t words[] = {
        ELEMENT(MPI_SIGNED_CHAR, WORD), ELEMENT(MPI_UNSIGNED_SHORT, WORD), ELEMENT(MPI_INT, WORD),
        ELEMENT(MPI_UNSIGNED_LONG, WORD), ELEMENT(MPI_C_BOOL, TRUTH),
    };
    GROUP(comm, words, logical);
    element_t patterns[] = {
        ELEMENT(MPI_UNSIGNED_CHAR, WORD), ELEMENT(MPI_SHORT, WORD), ELEMENT(MPI_UNSIGNED, WORD),
        ELEMENT(MPI_LONG_LONG, WORD), ELEMENT(MPI_BYTE, WORD), ELEMENT(MPI_AINT, WORD),
    };
    GROUP(comm, patterns, bits);
    element_t floats[] = {
        ELEMENT(MPI_FLOAT, FLOAT), ELEMENT(MPI_DOUBLE, DOUBLE),
        ELEMENT(MPI_LONG_DOUBLE, LONG_DOUBLE),
    };
    GROUP(comm, floats, any);
    element_t complexes[] = {
        ELEMENT(MPI_C_FLOAT_COMPLEX, FLOAT), ELEMENT(MPI_C_DOUBLE_COMPLEX, DOUBLE),
        ELEMENT(MPI_C_LONG_DOUBLE_COMPLEX, LONG_DOUBLE),
    };
    group(comm, complexes, 3, any + 2, 2);
    element_t pairs[] = {
        ELEMENT(MPI_FLOAT_INT, FLOAT_INT), ELEMENT(MPI_DOUBLE_INT, DOUBLE_INT),
        ELEMENT(MPI_LONG_INT, LONG_INT), ELEMENT(MPI_SHORT_INT, SHORT_INT),
        ELEMENT(MPI_2INT, INT_INT), ELEMENT(MPI_LONG_DOUBLE_INT, LONG_DOUBLE_INT),
    };
    GROUP(comm, pairs, located);
}

/* Where the host has Fortran: its types, with Fortran's representation of truth. */
static void fortran(MPI_Comm comm)
{
    const operation_t any[] = {OP(MPI_MAX), OP(MPI_SUM), OP(MPI_PROD)};
    const operation_t logical[] = {OP(MPI_LAND), OP(MPI_LOR), OP(MPI_LXOR)};
    const operation_t located[] = {OP(MPI_MAXLOC), OP(MPI_MINLOC)};
    element_t numbers[] = {
        ELEMENT(MPI_INTEGER, INTEGER), ELEMENT(MPI_REAL, FLOAT), ELEMENT(MPI_DOUBLE_PRECISION, DOUBLE),
    };
    GROUP(comm, numbers, any);
    element_t complexes[] = {ELEMENT(MPI_COMPLEX, FLOAT), ELEMENT(MPI_DOUBLE_COMPLEX, DOUBLE)};
    group(comm, complexes, 2, any + 1, 2);
    element_t truths[] = {ELEMENT(MPI_LOGICAL, LOGICAL)};
    GROUP(comm, truths, logical);
    element_t pairs[] = {
        ELEMENT(MPI_2INTEGER, INT_INT), ELEMENT(MPI_2REAL, FLOAT),
        ELEMENT(MPI_2DOUBLE_PRECISION, DOUBLE),
    };
    GROUP(comm, pairs, located);
}

/* The type that operations of this program work on. */
static const layout_t *current;

static uint32_t word_at(const unsigned char *element, int word)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value |= (uint32_t)element[current->place[4 * word + i]] << (8 * i);
    return value;
}

static void handed(const int *count, const MPI_Datatype *type)
{
    MPI_Aint lower, extent;
    MPI_Type_get_extent(*type, &lower, &extent);
    if (extent != current->extent || *count < 0)
        expect(0, "wrong type handed to the operation: extent, count", (long)extent, *count);
}

/* Each word is a map x -> a x + b of integers modulo 2^16; composition does not commute. */
static void compose_maps(void *in, void *inout, int *count, MPI_Datatype *type)
{
    handed(count, type);
    for (long e = 0; e < *count; e++) {
        const unsigned char *left = (unsigned char *)in + e * current->extent;
        unsigned char *right = (unsigned char *)inout + e * current->extent;
        for (int word = 0; word < current->bytes / 4; word++) {
            uint32_t f = word_at(left, word), g = word_at(right, word);
            uint32_t a = (f >> 16) * (g >> 16), b = (f >> 16) * (g & 0xffff) + (f & 0xffff);
            uint32_t both = a << 16 | (b & 0xffff);
            for (int i = 0; i < 4; i++)
                right[current->place[4 * word + i]] = (unsigned char)(both >> (8 * i));
        }
    }
}

/* Commutes, though its arguments are not treated alike: bytes of the sum. */
static void add_bytes(void *in, void *inout, int *count, MPI_Datatype *type)
{
    handed(count, type);
    for (long e = 0; e < *count; e++)
        for (int i = 0; i < current->bytes; i++) {
            long at = e * current->extent + current->place[i];
            ((unsigned char *)inout)[at] =
                (unsigned char)(((unsigned char *)inout)[at] + ((unsigned char *)in)[at]);
        }
}

static void defined_here(MPI_Comm comm, const element_t *derived, int derived_count)
{
    operation_t maps = {"composition", MPI_OP_NULL}, sums = {"sum of bytes", MPI_OP_NULL};
    MPI_Op_create(compose_maps, 0, &maps.op);
    MPI_Op_create(add_bytes, 1, &sums.op);
    element_t ints = ELEMENT(MPI_INT, WORD), pairs = ELEMENT(MPI_2INT, WORD);
    current = &ints.layout;
    for (long count = 0; count <= 3000; count = count * 14 + 1)
        all_kinds(comm, &ints, count, maps);
    all_kinds(comm, &ints, 50, sums);
    current = &pairs.layout;
    all_kinds(comm, &pairs, 20, maps);
    for (int i = 0; i < derived_count; i++) {
        current = &derived[i].layout;
        some(comm, &derived[i], 1, maps);
        some(comm, &derived[i], 2, sums);
        /* One element for some ranks, none for others: one alone may be plain bytes. */
        for (int turn = 0; turn < 4; turn++)
            one(SCATTER, comm, &derived[i], 0, sums, 0, turn < 2);
        all_kinds(comm, &derived[i], 30, maps);
        some(comm, &derived[i], 1500, maps);
    }
    free(ints.layout.place);
    free(pairs.layout.place);
    MPI_Op_free(&maps.op);
    MPI_Op_free(&sums.op);
}

static void sizes(MPI_Comm comm, long largest)
{
    const operation_t sum = OP(MPI_SUM), max = OP(MPI_MAX);
    element_t doubles = ELEMENT(MPI_DOUBLE, DOUBLE), shorts = ELEMENT(MPI_SHORT, INTEGER);
    int size, step = 0;
    MPI_Comm_size(comm, &size);
    for (long bytes = 8; bytes <= largest; bytes = bytes * 3 + 8, step++)
        for (int kind = 0; kind < KINDS; kind++) {
            long count = kind == BLOCK || kind == SCATTER ? bytes / size : bytes;
            one(kind, comm, &doubles, count / 8, sum, step % size, step % 2);
            one(kind, comm, &shorts, count / 2, max, (step + 1) % size, step % 3 == 0);
        }
    for (int kind = 0; kind < KINDS; kind++)
        one(kind, comm, &doubles, largest / 8 / (kind == BLOCK ? size : 1), sum, size - 1, 0);
    free(doubles.layout.place);
    free(shorts.layout.place);
}

/* Sums that round: near the host's, and the same bits everywhere. */
static void rounded(MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (long count = 1; count <= 20000; count = count * 5 + 2) {
        snprintf(context, sizeof context, "%ld sums that round, of %d", count, size);
        double *mine = must(malloc((size_t)count * 8)), *got = must(malloc((size_t)count * 8));
        double *wanted = must(malloc((size_t)count * 8));
        double *all = must(malloc((size_t)(count * size) * 8));
        for (long i = 0; i < count; i++)
            mine[i] = 1.0 / (3.0 + (double)i + 1000.0 * rank);
        MPI_Allreduce(mine, got, (int)count, MPI_DOUBLE, MPI_SUM, comm);
        HOST(Allreduce)(mine, wanted, (int)count, MPI_DOUBLE, MPI_SUM, comm);
        HOST(Allgather)(got, (int)count, MPI_DOUBLE, all, (int)count, MPI_DOUBLE, comm);
        long far = 0, other = 0;
        for (long i = 0; i < count; i++)
            far += fabs(got[i] - wanted[i]) > 1e-12 * fabs(wanted[i]);
        for (int peer = 0; peer < size; peer++)
            other += memcmp(all + peer * count, got, (size_t)count * 8) != 0;
        expect(far == 0 && other == 0, "sums far from the host's, ranks that differ", far, other);
        free(mine);
        free(got);
        free(wanted);
        free(all);
    }
}

/* All ranks draw alike. */
static void mixed(MPI_Comm *comms, int comm_count, uint64_t seed, int calls)
{
    const operation_t ops[] = {OP(MPI_SUM), OP(MPI_MAX), OP(MPI_BXOR)};
    element_t types[] = {ELEMENT(MPI_INT, INTEGER), ELEMENT(MPI_UNSIGNED_LONG, NATURAL),
                         ELEMENT(MPI_SHORT, INTEGER)};
    const long counts[] = {1, 1, 1, 2, 5, 7, 40, 300, 3000, 20000};
    for (int i = 0; i < calls; i++) {
        MPI_Comm comm = comms[draw(&seed) % (unsigned)comm_count];
        int kind = (int)(draw(&seed) % KINDS), size;
        long count = counts[draw(&seed) % 10];
        unsigned choice = draw(&seed), root = draw(&seed);
        MPI_Comm_size(comm, &size);
        rounds = 1000000 + i;
        one(kind, comm, &types[choice % 3], count, ops[choice / 3 % 3],
             (int)(root % (unsigned)size), choice / 9 % 3 == 0);
    }
    for (int i = 0; i < 3; i++)
        free(types[i].layout.place);
}

/* Without anything between them: results are sums of what is known of every rank. */
static void in_a_row(void)
{
    int rank, ranks;
    long wrong = 0;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    snprintf(context, sizeof context, "20000 in a row");
    for (long i = 0; i < 20000; i++) {
        long mine[2] = {i + rank, -i}, sum[2] = {0, 0};
        int root = (int)(i / 5 % ranks), rooted = i % 7 < 5;
        if (rooted)
            MPI_Reduce(mine, sum, 2, MPI_LONG, MPI_SUM, root, world);
        else
            MPI_Allreduce(mine, sum, 2, MPI_LONG, MPI_SUM, world);
        long first = i * ranks + (long)ranks * (ranks - 1) / 2;
        if (!rooted || rank == root)
            wrong += sum[0] != first || sum[1] != -i * ranks;
    }
    expect(wrong == 0, "wrong sums", wrong, 0);
}

/* All of it with the present settings, or only the sizes. */
static void check(const element_t *derived, int type_count, long largest, uint64_t seed, int calls,
                  int everything)
{
    int rank, ranks, fortran_bytes = 0;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    /* The same order, the reverse, every second one, and nodes interleaved. */
    MPI_Comm comms[4] = {world};
    MPI_Comm_split(world, 0, ranks - rank, &comms[1]);
    MPI_Comm_split(world, rank % 2, rank, &comms[2]);
    MPI_Comm_split(world, 0, rank % 2 * ranks + rank, &comms[3]);
    for (int i = 1; i < 4; i++)
        within(comms[i]);

    rounds = 0;
    if (everything)
        predefined(world);
    MPI_Type_size(MPI_INTEGER, &fortran_bytes);
    if (everything && fortran_bytes > 0)
        fortran(world);
    for (int i = 0; everything && i < 4; i++) {
        rounds = 100000 * (i + 1); /* smaller communicators have fewer */
        defined_here(comms[i], derived, i % 3 == 0 ? type_count : 2);
        rounded(comms[i]);
    }
    rounds = 500000;
    defined_here(MPI_COMM_SELF, derived, type_count);
    if (everything)
        predefined(MPI_COMM_SELF);
    sizes(world, largest);
    mixed(comms, 4, seed, calls);
    if (everything)
        in_a_row();
    for (int i = 1; i < 4; i++)
        MPI_Comm_free(&comms[i]);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    long largest = argc > 1 ? atol(argv[1]) : 1000000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int everything = argc <= 3, calls = everything ? 500 : atoi(argv[3]);
    layout_t types[16];
    element_t derived[16];
    int type_count = derived_types(types);
    for (int i = 0; i < type_count; i++)
        derived[i] = (element_t){types[i], WORD};
    while (next_settings())
        check(derived, type_count, largest, seed, calls, everything);
    for (int i = 0; i < type_count; i++) {
        free(types[i].place);
        MPI_Type_free(&types[i].type);
    }
    return finish("reductions_check");
}
