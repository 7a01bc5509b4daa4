/* Random derived datatypes, nested, against the host's MPI_Pack: broadcast from a type to packed
 * bytes, from packed bytes to the type, and from type to type. Data must arrive in the order of the
 * signature, and gaps keep their bytes. Then a type too irregular for any short description, a
 * distributed array, a type that only the host can take apart, and a column of a large matrix. With TEST_SETTINGS for each of the
 * settings, see settings.h.
 *
 *     mpirun -n P types_check [number of types, default 300] [seed, default 1]
 */
#include "layout.h"
#include "settings.h"

enum { BYTES_MAX = 20000, REACH_MAX = 1 << 20 };

static uint64_t seed = 1;

static int below(int limit)
{
    seed += 0x9e3779b97f4a7c15u;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int)((z ^ (z >> 31)) % (uint64_t)limit);
}

static MPI_Datatype named(void)
{
    MPI_Datatype all[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR, MPI_SHORT, MPI_DOUBLE_INT, MPI_2INT,
                          MPI_SHORT_INT, MPI_BYTE, MPI_FLOAT};
    return all[below(sizeof all / sizeof *all)];
}

static MPI_Datatype derive(int depth);

/* `n` block lengths and displacements that rise or fall. */
static void draw_blocks(int n, int *lengths, int *places)
{
    int at = below(3) - 1, falls = below(4) == 0;
    for (int i = 0; i < n; i++) {
        lengths[i] = below(4);
        places[i] = at;
        at += lengths[i] + (below(2) ? below(3) : 0);
    }
    for (int i = 0; falls && i < n / 2; i++) {
        int length = lengths[i], place = places[i];
        lengths[i] = lengths[n - 1 - i], places[i] = places[n - 1 - i];
        lengths[n - 1 - i] = length, places[n - 1 - i] = place;
    }
}

static void derive_blocks(int kind, MPI_Datatype inner, MPI_Datatype *type)
{
    int n = 1 + below(6), lengths[6], places[6], fixed = 1 + below(3);
    MPI_Aint bytes[6], lower, extent;
    MPI_Datatype parts[6];
    draw_blocks(n, lengths, places);
    MPI_Type_get_extent(inner, &lower, &extent);
    for (int i = 0; i < n; i++) {
        bytes[i] = places[i] * (extent + 8) + 4 * below(2);
        parts[i] = below(2) ? inner : MPI_INT;
    }
    parts[0] = inner;
    if (kind == 0)
        MPI_Type_indexed(n, lengths, places, inner, type);
    else if (kind == 1)
        MPI_Type_create_hindexed(n, lengths, bytes, inner, type);
    else if (kind == 2)
        MPI_Type_create_indexed_block(n, fixed, places, inner, type);
    else if (kind == 3)
        MPI_Type_create_hindexed_block(n, fixed, bytes, inner, type);
    else
        MPI_Type_create_struct(n, lengths, bytes, parts, type);
}

static void derive_array(MPI_Datatype inner, MPI_Datatype *type)
{
    int n = 1 + below(3), sizes[3], lengths[3], starts[3];
    for (int d = 0; d < n; d++) {
        sizes[d] = 1 + below(5);
        lengths[d] = 1 + below(sizes[d]);
        starts[d] = below(sizes[d] - lengths[d] + 1);
    }
    int order = below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    int bytes;
    MPI_Type_size(inner, &bytes);
    if (below(4) != 0 || bytes == 0) { /* Open MPI 4.1 refuses distributed arrays of nothing */
        MPI_Type_create_subarray(n, sizes, lengths, starts, order, inner, type);
        return;
    }
    int kinds[3], arguments[3], grid[3] = {2, 1, 1};
    sizes[0] += 2;
    for (int d = 0; d < n; d++) {
        kinds[d] = d == 0 ? MPI_DISTRIBUTE_CYCLIC : MPI_DISTRIBUTE_BLOCK;
        arguments[d] = MPI_DISTRIBUTE_DFLT_DARG;
    }
    MPI_Type_create_darray(2, 0, n, sizes, kinds, arguments, grid, order, inner, type);
}

#if MPI_VERSION >= 4 && !defined OPEN_MPI
static int derive_large(MPI_Datatype inner, MPI_Datatype *type)
{
    MPI_Count n = 1 + below(4), lengths[4], places[4], sizes[2] = {4, 5}, parts[2] = {2, 3};
    MPI_Count starts[2] = {1, 2};
    MPI_Datatype types[4];
    for (int i = 0; i < n; i++) {
        lengths[i] = below(3), places[i] = 500 * i, types[i] = inner;
    }
    switch (below(6)) {
    case 0:
        MPI_Type_contiguous_c(n, inner, type);
        return 1;
    case 1:
        MPI_Type_vector_c(n, 2, 3, inner, type);
        return 1;
    case 2:
        MPI_Type_create_hindexed_c(n, lengths, places, inner, type);
        return 1;
    case 3:
        MPI_Type_create_struct_c(n, lengths, places, types, type);
        return 1;
    case 4:
        MPI_Type_create_subarray_c(2, sizes, parts, starts, MPI_ORDER_C, inner, type);
        return 1;
    default:
        MPI_Type_indexed_c(n, lengths, places, inner, type);
        return 1;
    }
}
#else
static int derive_large(MPI_Datatype inner, MPI_Datatype *type)
{
    (void)inner;
    (void)type;
    return 0;
}
#endif

/* A random type of `depth` constructors; the caller frees it. */
static MPI_Datatype derive(int depth)
{
    MPI_Datatype inner, type;
    MPI_Aint lower, extent;
    if (depth == 0) {
        MPI_Type_dup(named(), &type);
        return type;
    }
    int made = below(4) != 0;
    inner = made ? derive(depth - 1) : named();
    int n = below(5), length = below(4), stride = below(8) - (below(4) == 0 ? 7 : 0);
    MPI_Type_get_extent(inner, &lower, &extent);
    switch (below(10)) {
    case 0:
        MPI_Type_contiguous(n, inner, &type);
        break;
    case 1:
        MPI_Type_vector(n, length, stride, inner, &type);
        break;
    case 2:
        MPI_Type_create_hvector(n, length, stride * (extent + 3), inner, &type);
        break;
    case 3:
        MPI_Type_create_resized(inner, lower - 4 * below(3), extent + 4 * below(5), &type);
        break;
    case 4:
        derive_array(inner, &type);
        break;
    case 5:
        if (derive_large(inner, &type))
            break;
        /* fall through */
    default:
        derive_blocks(below(5), inner, &type);
    }
    MPI_Type_commit(&type);
    if (made)
        MPI_Type_free(&inner);
    return type;
}

/* Whether no byte of `count` elements is there twice: only then may they be received. */
static int is_distinct(const layout_t *layout, long count)
{
    unsigned char *first;
    size_t bytes;
    unsigned char *all = elements(layout, count, &first, &bytes);
    memset(all, 0, bytes);
    int distinct = 1;
    for (long e = 0; e < count; e++)
        for (int i = 0; i < layout->bytes; i++)
            distinct &= first[e * layout->extent + layout->place[i]]++ == 0;
    free(all);
    return distinct;
}

static void collect(const layout_t *layout, const unsigned char *first, long count,
                    unsigned char *to)
{
    for (long e = 0; e < count; e++)
        for (int i = 0; i < layout->bytes; i++)
            *to++ = first[e * layout->extent + layout->place[i]];
}

/* One broadcast from root 0, as `from` on the root and as `to` elsewhere, `packed` meaning bytes. */
static void broadcast(const layout_t *layout, long count, int from_packed, int to_packed, int rank)
{
    static long round;
    round++;
    size_t bytes, data = (size_t)(count * layout->bytes);
    unsigned char *first, *all = elements(layout, count, &first, &bytes);
    unsigned char *wanted = must(malloc(bytes)), *packed = must(malloc(data + 1));
    int packs = rank == 0 ? from_packed : to_packed;
    memset(packed, 0, data);
    memcpy(wanted, all, bytes);
    put(layout, wanted + (first - all), 0, count, round, 0);
    if (rank == 0)
        memcpy(all, wanted, bytes);
    /* Of a byte that is there twice the last value counts. */
    unsigned char *expected = must(malloc(data + 1));
    collect(layout, wanted + (first - all), count, expected);
    if (rank == 0)
        memcpy(packed, expected, data);
    int code = packs ? MPI_Bcast(packed, (int)data, MPI_PACKED, 0, world)
                     : MPI_Bcast(first, (int)count, layout->type, 0, world);
    expect(code == MPI_SUCCESS, "code", code, 0);
    if (packs)
        expect(memcmp(packed, expected, data) == 0, "packed bytes", (long)data, 0);
    else
        expect(memcmp(all, wanted, bytes) == 0, "elements or their gaps", (long)bytes, 0);
    free(all);
    free(wanted);
    free(packed);
    free(expected);
}

static void check(const layout_t *layout, long count, int rank)
{
    broadcast(layout, count, 0, 1, rank);
    if (!is_distinct(layout, count))
        return;
    broadcast(layout, count, 1, 0, rank);
    broadcast(layout, count, 0, 0, rank);
}

static void random_types(int wanted, int rank)
{
    for (int found = 0; found < wanted;) {
        uint64_t start = seed;
        MPI_Datatype type = derive(1 + below(4));
        MPI_Aint lower, extent, reach;
        int bytes;
        MPI_Type_get_extent(type, &lower, &extent);
        MPI_Type_size(type, &bytes);
        MPI_Type_get_true_extent(type, &lower, &reach);
        MPI_Type_commit(&type);
        int usable = extent >= 0 && extent <= REACH_MAX && reach >= 0 && reach <= REACH_MAX;
        if (usable && bytes <= BYTES_MAX) {
            snprintf(context, sizeof context, "type %d, seed %llu", found++,
                     (unsigned long long)start);
            layout_t layout = describe("random", type);
            check(&layout, 1 + below(3), rank);
            free(layout.place);
        }
        MPI_Type_free(&type);
    }
}

/* Over more memory than ferrorail packs to find out where data is. */
enum { FAR = 17 << 20 };

static void check_as_host(const char *name, MPI_Datatype type, int rank)
{
    MPI_Type_commit(&type);
    snprintf(context, sizeof context, "%s type", name);
    layout_t layout = describe(name, type);
    check(&layout, 1, rank);
    free(layout.place);
    MPI_Type_free(&type);
}

/* Blocks of arrays, dealt out in turn. */
static void distributed(int rank)
{
    const int far[] = {FAR}, cyclic[] = {MPI_DISTRIBUTE_CYCLIC}, fives[] = {5}, eight[] = {8};
    MPI_Datatype type;
    MPI_Type_create_darray(8, 3, 1, far, cyclic, fives, eight, MPI_ORDER_C, MPI_BYTE, &type);
    check_as_host("far distributed", type, rank);
    const int sizes[] = {11, 8, 3}, grid[] = {3, 2, 1};
    const int ways[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE};
    const int lengths[] = {2, MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
    for (int of = 0; of < 6; of++)
        for (int fortran = 0; fortran < 2; fortran++) {
            int order = fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C;
            MPI_Type_create_darray(6, of, 3, sizes, ways, lengths, grid, order, MPI_SHORT, &type);
            check_as_host("distributed", type, rank);
        }
}

/* A type inside many others. */
static void deep(int rank)
{
    MPI_Datatype type;
    MPI_Type_vector(FAR / 16, 3, 16, MPI_BYTE, &type);
    check_as_host("deep", nested(type), rank);
}

/* A million and more blocks of changing lengths and distances. */
static void irregular(int rank)
{
    enum { N = 1400000 };
    int *lengths = must(calloc(N, sizeof(int))), *places = must(calloc(N, sizeof(int)));
    for (int i = 0, at = 0; i < N; i++) {
        lengths[i] = 1 + below(3);
        places[i] = at;
        at += lengths[i] + 1 + below(5);
    }
    MPI_Datatype type;
    MPI_Type_indexed(N, lengths, places, MPI_BYTE, &type);
    check_as_host("irregular", type, rank);
    free(lengths);
    free(places);
}

/* A column of a matrix far larger than its data; nobody may touch what lies between. */
static void column(int rank)
{
    enum { ROWS = 500, BETWEEN = 65536 };
    MPI_Datatype type;
    MPI_Type_vector(ROWS, 1, BETWEEN, MPI_INT, &type);
    MPI_Type_commit(&type);
    snprintf(context, sizeof context, "column");
    int *matrix = must(calloc((size_t)ROWS * BETWEEN, sizeof(int)));
    for (int i = 0; i < ROWS; i++)
        matrix[(size_t)i * BETWEEN] = rank == 0 ? 3 * i : -1;
    expect(MPI_Bcast(matrix, 1, type, 0, world) == MPI_SUCCESS, "code", 0, 0);
    for (int i = 0; i < ROWS; i++)
        expect(matrix[(size_t)i * BETWEEN] == 3 * i, "row", i, matrix[(size_t)i * BETWEEN]);
    free(matrix);
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int wanted = argc > 1 ? atoi(argv[1]) : 300;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    while (next_settings()) {
        seed = first;
        random_types(wanted, rank);
        irregular(rank);
        distributed(rank);
        deep(rank);
        column(rank);
    }
    return finish("types_check");
}
