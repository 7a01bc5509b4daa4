/* What win_random keeps of its windows: all memory of all ranks as it must be, who has used which
 * byte in the present epoch, the types and operations, and the layouts of elements. */
#ifndef WIN_MODEL_H
#define WIN_MODEL_H

#include "random_data.h"

enum { RANKS = 16, MIXED = 255 };

typedef enum { SIGNED, UNSIGNED, SINGLE, DOUBLE_, OPAQUE } value_kind;

/* The types whose elements operations move. */
typedef struct { MPI_Datatype type; const char *name; int bytes; value_kind kind; } element_t;

enum { ELEMENTS = 18, NUMBERS = 16 }; /* the last ones are only moved */
static element_t elements[ELEMENTS];

static void make_elements(void)
{
    int i = 0;
#define ELEMENT(mpi, bytes, kind) elements[i++] = (element_t){mpi, #mpi, bytes, kind}
    ELEMENT(MPI_INT8_T, 1, SIGNED);
    ELEMENT(MPI_INT16_T, 2, SIGNED);
    ELEMENT(MPI_INT32_T, 4, SIGNED);
    ELEMENT(MPI_INT64_T, 8, SIGNED);
    ELEMENT(MPI_UINT8_T, 1, UNSIGNED);
    ELEMENT(MPI_UINT16_T, 2, UNSIGNED);
    ELEMENT(MPI_UINT32_T, 4, UNSIGNED);
    ELEMENT(MPI_UINT64_T, 8, UNSIGNED);
    ELEMENT(MPI_SHORT, sizeof(short), SIGNED);
    ELEMENT(MPI_INT, sizeof(int), SIGNED);
    ELEMENT(MPI_LONG, sizeof(long), SIGNED);
    ELEMENT(MPI_UNSIGNED, sizeof(unsigned), UNSIGNED);
    ELEMENT(MPI_UNSIGNED_LONG, sizeof(long), UNSIGNED);
    ELEMENT(MPI_LONG_LONG, sizeof(long long), SIGNED);
    ELEMENT(MPI_FLOAT, 4, SINGLE);
    ELEMENT(MPI_DOUBLE, 8, DOUBLE_);
    ELEMENT(MPI_BYTE, 1, OPAQUE);
    ELEMENT(MPI_C_DOUBLE_COMPLEX, 16, OPAQUE);
#undef ELEMENT
}

enum { SUM, PROD, MIN, MAX, BAND, BOR, BXOR, LAND, LOR, LXOR, REPLACE, NO_OP, OPERATORS };

static MPI_Op operator_of(int op)
{
    const MPI_Op all[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR,
                          MPI_LAND, MPI_LOR, MPI_LXOR, MPI_REPLACE, MPI_NO_OP};
    return all[op];
}

static double real_result(int op, double a, double b)
{
    switch (op) {
    case SUM: return a + b;
    case PROD: return a * b;
    case MIN: return a < b ? a : b;
    case MAX: return a > b ? a : b;
    default: return op == REPLACE ? b : a;
    }
}

static uint64_t integer_result(int op, uint64_t a, uint64_t b, int is_signed)
{
    int less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case SUM: return a + b;
    case PROD: return a * b;
    case MIN: return less ? a : b;
    case MAX: return less ? b : a;
    case BAND: return a & b;
    case BOR: return a | b;
    case BXOR: return a ^ b;
    case LAND: return a && b;
    case LOR: return a || b;
    case LXOR: return !a != !b;
    default: return op == REPLACE ? b : a;
    }
}

static uint64_t read_integer(const element_t *e, const unsigned char *from)
{
    uint64_t value = 0;
    int shift = 64 - 8 * e->bytes;
    memcpy(&value, from, (size_t)e->bytes);
    return e->kind == SIGNED ? (uint64_t)((int64_t)(value << shift) >> shift) : value;
}

/* Combines one element. */
static void combine(const element_t *e, int op, unsigned char *to, const unsigned char *from)
{
    if (e->kind == SINGLE) {
        float a, b;
        memcpy(&a, to, 4), memcpy(&b, from, 4);
        a = op == NO_OP ? a : (float)real_result(op, a, b);
        if (op != NO_OP)
            memcpy(to, &a, 4);
    } else if (e->kind == DOUBLE_) {
        double a, b;
        memcpy(&a, to, 8), memcpy(&b, from, 8);
        a = real_result(op, a, b);
        if (op != NO_OP)
            memcpy(to, &a, 8);
    } else {
        uint64_t result = integer_result(op, read_integer(e, to), read_integer(e, from), e->kind == SIGNED);
        memcpy(to, &result, (size_t)e->bytes);
    }
}

/* `count` items of `blocks` blocks of `length` elements, `stride` elements apart. */
typedef struct { long count, blocks, length, stride; int derived, backwards; } layout_t;

static long total(const layout_t *l) { return l->count * l->blocks * l->length; }
static long extent(const layout_t *l) { return (l->blocks - 1) * l->stride + l->length; }
static long span(const layout_t *l) { return l->count * extent(l); }

/* Where element `i` lies, in elements. */
static long place(const layout_t *l, long i)
{
    long item = l->blocks * l->length, block = i % item / l->length;
    return i / item * extent(l) + (l->backwards ? l->blocks - 1 - block : block) * l->stride + i % l->length;
}

static MPI_Datatype datatype_of(const layout_t *l, const element_t *e)
{
    MPI_Datatype made;
    if (!l->derived)
        return e->type;
    if (l->backwards) {
        int *at = must(malloc(sizeof *at * (size_t)l->blocks));
        for (long b = 0; b < l->blocks; b++)
            at[b] = (int)((l->blocks - 1 - b) * l->stride);
        MPI_Type_create_indexed_block((int)l->blocks, (int)l->length, at, e->type, &made);
        free(at);
    } else {
        MPI_Type_vector((int)l->blocks, (int)l->length, (int)l->stride, e->type, &made);
    }
    MPI_Type_commit(&made);
    return made;
}

static int items_of(const layout_t *l) { return (int)(l->derived ? l->count : total(l)); }

/* A layout of n elements. */
static layout_t draw_layout(draw_t *draw, long n)
{
    const long lengths[] = {1, 2, 3, 4, 8, 64};
    layout_t l = {.count = n, .blocks = 1, .length = 1, .stride = 1};
    if (n == 0 || chance(draw, 55))
        return l;
    l.derived = 1;
    l.count = n % 2 == 0 && chance(draw, 30) ? 2 : 1;
    l.length = n / l.count;
    long wanted = lengths[below(draw, sizeof lengths / sizeof *lengths)];
    if (l.length % wanted == 0)
        l.length = wanted;
    l.blocks = n / l.count / l.length;
    l.stride = l.length + below(draw, 4);
    l.backwards = l.blocks <= 32 && chance(draw, 30);
    return l;
}

/* What was done to a byte in this epoch: by whom (-1: by several), and before how many flushes. */
typedef enum { FREE_, READ, WRITTEN, ACCUMULATED } use_kind;
typedef struct { unsigned char kind, element, op; signed char owner; unsigned short flushes; } use_t;

typedef struct {
    const char *kind;
    int number, size, rank, shared;
    MPI_Win win;
    MPI_Aint bytes[RANKS];
    int unit[RANKS];
    unsigned char *model[RANKS], *memory, *block;
    unsigned char *peers[RANKS]; /* of a shared window */
    use_t *use[RANKS];
    unsigned short flushes[RANKS][RANKS]; /* by origin and target */
    int stored;                           /* by this rank since the last synchronisation */
} window_t;

/* An access of `kind` to elements from `at` on. */
typedef struct { use_kind kind; int origin, target, element, op, exclusive; MPI_Aint at; layout_t there; } access_t;

static int byte_is_ours(const use_t *u, const access_t *a, int flushes)
{
    if (u->kind == FREE_ || (u->owner == a->origin && u->flushes < flushes))
        return 1;
    if (u->kind == READ)
        return a->kind == READ;
    if (u->kind != ACCUMULATED || a->kind != ACCUMULATED || u->element != a->element)
        return 0;
    return u->owner == a->origin || (!a->exclusive && u->op == a->op);
}

static void mark_byte(use_t *u, const access_t *a, int flushes)
{
    use_t was = *u;
    u->flushes = (unsigned short)flushes;
    if (was.kind == FREE_) {
        *u = (use_t){(unsigned char)a->kind, (unsigned char)a->element,
                     a->exclusive ? MIXED : (unsigned char)a->op, (signed char)a->origin, u->flushes};
        return;
    }
    if (was.owner != a->origin)
        u->owner = -1;
    if (a->kind == ACCUMULATED && was.kind == ACCUMULATED && was.element == a->element) {
        if (a->exclusive || was.op != a->op)
            u->op = MIXED;
        return;
    }
    if (a->kind == READ && was.kind == READ)
        return;
    /* Others must not touch it any more. */
    u->kind = a->kind == ACCUMULATED ? ACCUMULATED : WRITTEN;
    u->element = (unsigned char)a->element;
    u->op = MIXED;
}

/* Whether the outcome is determined; then the bytes are marked. */
static int claim(window_t *w, const access_t *a)
{
    int flushes = w->flushes[a->origin][a->target], bytes = elements[a->element].bytes;
    for (int marking = 0; marking < 2; marking++)
        for (long i = 0; i < total(&a->there); i++) {
            use_t *u = w->use[a->target] + a->at + place(&a->there, i) * bytes;
            for (int b = 0; b < bytes; b++) {
                if (marking)
                    mark_byte(u + b, a, flushes);
                else if (!byte_is_ours(u + b, a, flushes))
                    return 0;
            }
        }
    return 1;
}

/* Whether all elements have been accumulated to as such in this epoch. */
static int is_fresh(const window_t *w, const access_t *a)
{
    int bytes = elements[a->element].bytes;
    for (long i = 0; i < total(&a->there); i++) {
        const use_t *u = w->use[a->target] + a->at + place(&a->there, i) * bytes;
        if (u->kind != ACCUMULATED || u->element != a->element)
            return 0;
    }
    return 1;
}

static void forget_uses(window_t *w)
{
    for (int r = 0; r < w->size; r++)
        memset(w->use[r], 0, sizeof(use_t) * (size_t)w->bytes[r]);
    memset(w->flushes, 0, sizeof w->flushes);
}

#endif
