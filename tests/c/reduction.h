/* Reductions of elements whose results are known: data of every predefined type, and one call held
 * against local reductions in rank order. */
#ifndef REDUCTION_H
#define REDUCTION_H

#include "layout.h"

#include <float.h>

enum { ALLREDUCE, REDUCE, BLOCK, SCATTER, SCAN, EXSCAN, KINDS };

static const char *const kinds[] = {"allreduce", "reduce", "reduce_scatter_block",
                                    "reduce_scatter", "scan", "exscan"};
static long rounds;

/* What an element holds.
 *
 * WORD: any bits; INTEGER: a number that neither overflows (Open MPI 4.1 saturates short integers)
 * nor, if NATURAL, has the highest bit (which Open MPI 4.1 takes for a sign in maxima). */
typedef enum { WORD, INTEGER, NATURAL, TRUTH, FLOAT, DOUBLE, LONG_DOUBLE, LOGICAL,
               FLOAT_INT, DOUBLE_INT, LONG_INT, SHORT_INT, INT_INT, LONG_DOUBLE_INT } content_t;

typedef struct {
    layout_t layout;
    content_t content;
} element_t;

typedef struct {
    const char *name;
    MPI_Op op;
} operation_t;

static unsigned draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33);
}

/* A whole number near 0; of products, a power of 2 or its negative. */
static int small(uint64_t *state, int product)
{
    unsigned value = draw(state);
    if (product)
        return value % 2 ? 1 + (int)(value / 2 % 2) : -1;
    return (int)(value % 9) - 4;
}

/* Writes one element of a rank's data, in packed order, to `to`. */
static void compose_element(const element_t *element, int product, uint64_t *state,
                            unsigned char *to)
{
    int bytes = element->layout.bytes, value = small(state, product), at = 0;
    int32_t index = (int32_t)(draw(state) % 5);
    float single = (float)value;
    double twice = value;
    long double longer = value;
    long whole = value;
    short little = (short)value;
    int32_t integer = value;
#define PAIR(first) (memcpy(to, &(first), sizeof(first)), memcpy(to + sizeof(first), &index, 4))
    switch (element->content) {
    case WORD:
        for (; at < bytes; at++)
            to[at] = (unsigned char)(draw(state) >> 5);
        return;
    case INTEGER:
    case NATURAL:
        whole = bytes < 4 || product ? value : (long)draw(state) << 24 ^ (long)draw(state) << 8;
        whole = element->content == NATURAL ? labs(whole) : whole;
        memcpy(to, &whole, (size_t)bytes);
        if (element->content == NATURAL)
            to[bytes - 1] &= 0x7f;
        return;
    case TRUTH:
    case LOGICAL:
        memset(to, 0, (size_t)bytes);
        to[0] = value > 0;
        return;
    case FLOAT: /* of complex numbers, several; and so on */
        for (; at < bytes; at += 4, single = (float)small(state, product))
            memcpy(to + at, &single, 4);
        return;
    case DOUBLE:
        for (; at < bytes; at += 8, twice = small(state, product))
            memcpy(to + at, &twice, 8);
        return;
    case LONG_DOUBLE:
        for (; at < bytes; at += (int)sizeof longer, longer = small(state, product))
            memcpy(to + at, &longer, sizeof longer);
        return;
    case FLOAT_INT: PAIR(single); return;
    case DOUBLE_INT: PAIR(twice); return;
    case LONG_INT: PAIR(whole); return;
    case SHORT_INT: PAIR(little); return;
    case INT_INT: PAIR(integer); return;
    case LONG_DOUBLE_INT: PAIR(longer); return;
    }
}

/* Whether byte `i` of an element tells: those of an x87 number behind the tenth do not. */
static int tells(const element_t *element, int i)
{
    return LDBL_MANT_DIG != 64 || element->content != LONG_DOUBLE_INT || i < 10
        || i >= (int)sizeof(long double);
}

/* Whether two elements, packed, are the same numbers: the signs of zeros depend on the order. */
static int same(const element_t *element, const unsigned char *a, const unsigned char *b)
{
#define EQUAL(type)                                             \
    for (int at = 0; at < element->layout.bytes; at += (int)sizeof(type)) { \
        type p, q;                                              \
        memcpy(&p, a + at, sizeof p);                           \
        memcpy(&q, b + at, sizeof q);                           \
        if (p != q)                                             \
            return 0;                                           \
    }                                                           \
    return 1
    switch (element->content) {
    case FLOAT: EQUAL(float);
    case DOUBLE: EQUAL(double);
    case LONG_DOUBLE: EQUAL(long double);
    default:
        for (int i = 0; i < element->layout.bytes; i++)
            if (tells(element, i) && a[i] != b[i])
                return 0;
        return 1;
    }
#undef EQUAL
}

/* Memory of elements, with guards. */
typedef struct {
    const element_t *element;
    long count;
    unsigned char *all, *first;
    size_t bytes;
} memory_t;

static memory_t memory_of(const element_t *element, long count)
{
    memory_t memory = {.element = element, .count = count};
    memory.all = elements(&element->layout, count, &memory.first, &memory.bytes);
    return memory;
}

static void fill_elements(memory_t *memory, int product, int rank)
{
    uint64_t state = (uint64_t)rounds * 0x9e3779b97f4a7c15u + (uint64_t)rank * 77777 + 5;
    unsigned char packed[256];
    const layout_t *layout = &memory->element->layout;
    int whole = layout->bytes > 0 && layout->place[layout->bytes - 1] == layout->bytes - 1;
    for (int i = 0; whole && i < layout->bytes; i++)
        whole = layout->place[i] == i;
    for (long e = 0; e < memory->count; e++) {
        unsigned char *to = memory->first + e * layout->extent;
        compose_element(memory->element, product, &state, whole ? to : packed);
        for (int i = 0; !whole && i < layout->bytes; i++)
            to[layout->place[i]] = packed[i];
    }
}

/* Elements of `got` below `data` equal those of `wanted`; all else is as in `before`. */
static void verify(const memory_t *got, const memory_t *wanted, const memory_t *before, long data)
{
    const layout_t *layout = &got->element->layout;
    unsigned char *rest = must(malloc(got->bytes));
    long wrong = -1;
    memcpy(rest, got->all, got->bytes);
    for (long e = 0; e < data; e++) {
        unsigned char a[256], b[256];
        for (int i = 0; i < layout->bytes; i++) {
            long at = e * layout->extent + layout->place[i];
            a[i] = got->first[at];
            b[i] = wanted->first[at];
            rest[at + (got->first - got->all)] = before->first[at];
        }
        if (wrong < 0 && !same(got->element, a, b))
            wrong = e;
    }
    expect(wrong < 0, "wrong result, element", wrong, data);
    expect(memcmp(rest, before->all, got->bytes) == 0, "memory around the result", 0, 0);
    free(rest);
}

static int call(int kind, const void *send, void *recv, int count, const int *counts,
                MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    switch (kind) {
    case ALLREDUCE: return MPI_Allreduce(send, recv, count, type, op, comm);
    case REDUCE: return MPI_Reduce(send, recv, count, type, op, root, comm);
    case BLOCK: return MPI_Reduce_scatter_block(send, recv, count, type, op, comm);
    case SCATTER: return MPI_Reduce_scatter(send, recv, counts, type, op, comm);
    case SCAN: return MPI_Scan(send, recv, count, type, op, comm);
    default: return MPI_Exscan(send, recv, count, type, op, comm);
    }
}

/* What `count` elements from `skip` on, of vectors of `all`, come to over ranks 0 to `end` - 1, as
 * the host's local reduction says, in rank order. */
static memory_t answer(const element_t *element, long all, long skip, long count, int end,
                       operation_t op)
{
    memory_t result = memory_of(element, all);
    fill_elements(&result, op.op == MPI_PROD, 0);
    for (int rank = 1; rank < end; rank++) {
        memory_t right = memory_of(element, all);
        fill_elements(&right, op.op == MPI_PROD, rank);
        long at = skip * element->layout.extent;
        if (count > 0)
            PMPI_Reduce_local(result.first + at, right.first + at, (int)count,
                              element->layout.type, op.op);
        free(result.all);
        result = right;
    }
    memmove(result.first, result.first + skip * element->layout.extent,
            (size_t)(result.all + result.bytes - result.first)
                - (size_t)(skip * element->layout.extent));
    return result;
}

/* One reduction of `count` elements, or blocks of about as many for each rank. */
static void one(int kind, MPI_Comm comm, const element_t *element, long count, operation_t op,
                int root, int in_place)
{
    int rank, size, counts[64];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    snprintf(context, sizeof context, "round %ld: %s of %ld %s by %s%s, root %d of %d", ++rounds,
             kinds[kind], count, element->layout.name, op.name, in_place ? " in place" : "", root,
             size);
    long all = count, mine = count, skip = 0;
    if (kind == BLOCK) {
        all = count * size;
        skip = count * rank;
    } else if (kind == SCATTER) {
        all = 0;
        for (int peer = 0; peer < size; peer++) {
            skip = peer == rank ? all : skip;
            all += counts[peer] = (int)(count * ((peer + rounds) % 3) / 2 + (peer + rounds) % 2);
        }
        mine = counts[rank];
    }
    int receives = kind != REDUCE || rank == root, end = size;
    if (kind == SCAN || kind == EXSCAN)
        end = rank + (kind == SCAN);
    in_place = in_place && receives;
    memory_t send = memory_of(element, all), kept = memory_of(element, all);
    memory_t got = memory_of(element, in_place ? all : mine), before = got;
    fill_elements(&send, op.op == MPI_PROD, rank);
    memcpy(kept.all, send.all, send.bytes);
    if (in_place)
        memcpy(got.all, send.all, send.bytes);
    before = memory_of(element, got.count);
    memcpy(before.all, got.all, got.bytes);
    /* Where a result is not significant the address may be anything. */
    int significant = receives && (kind != EXSCAN || rank > 0 || in_place);
    int code = call(kind, in_place ? MPI_IN_PLACE : send.first, significant ? got.first : (void *)64, (int)count,
                    counts, element->layout.type, op.op, root, comm);
    expect(code == MPI_SUCCESS, "code", code, 0);
    expect(memcmp(kept.all, send.all, send.bytes) == 0, "send buffer changed", 0, 0);
    long data = receives && end > 0 ? mine : 0;
    /* In place the rest of the vector of a reduce-scatter is the library's to use. */
    if (in_place && (kind == BLOCK || kind == SCATTER))
        for (long e = data; e < all; e++)
            for (int i = 0; i < element->layout.bytes; i++) {
                long at = e * element->layout.extent + element->layout.place[i];
                got.first[at] = before.first[at];
            }
    memory_t wanted = answer(element, all, skip, data, end, op);
    verify(&got, &wanted, &before, data);
    free(send.all);
    free(kept.all);
    free(got.all);
    free(wanted.all);
    free(before.all);
}

#endif
