/* The operations of one step of win_random: drawn on all ranks alike, applied to the model at once,
 * and done by their origin later. */
#ifndef WIN_DRAW_H
#define WIN_DRAW_H

#include "win_model.h"

enum { FENCE, POST, LOCK_ALL, LOCKS, EACH, PLAIN_MODES, COUNTERS = PLAIN_MODES, RACES };
enum { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH, SWAP, FLUSH, FLUSH_ALL, FLUSH_LOCAL,
       FLUSH_LOCAL_ALL, SYNC, CODES };

static const char *code_names[CODES] = {"put", "get", "accumulate", "get_accumulate", "fetch_and_op",
                                        "compare_and_swap", "flush", "flush_all", "flush_local",
                                        "flush_local_all", "sync"};

/* Memory of an operation at its origin, and what must be in it. */
typedef struct { layout_t layout; unsigned char *memory, *wanted; size_t bytes; } buffer_t;

typedef struct {
    int code, opening, phase, origin, target, element, op, exclusive, unchecked;
    int issued, over;
    MPI_Aint at;
    layout_t there;
    buffer_t out, in;
    unsigned char comparand[8], candidate[8];
} operation_t;

/* A window in an epoch. */
typedef struct {
    window_t *w;
    int mode, phases, precedes, succeeds, nocheck;
    char edge[RANKS][RANKS]; /* origin, target */
    char written[RANKS];
    int held[RANKS]; /* by origin: target of the present lock, in EACH */
} opening_t;

enum { MOST_OPERATIONS = 192 };
static operation_t operations[MOST_OPERATIONS];
static int operation_count;
static int for_host; /* avoid what hosts get wrong */

static int is_passive(int mode) { return mode >= LOCK_ALL; }

static long gcd(long a, long b) { return b == 0 ? a : gcd(b, a % b); }

static buffer_t make_buffer(draw_t *draw, long n, const element_t *e)
{
    buffer_t b = {.layout = draw_layout(draw, n)};
    b.bytes = (size_t)(span(&b.layout) * e->bytes) + 2 * GUARD;
    b.memory = must(malloc(b.bytes));
    b.wanted = must(malloc(b.bytes));
    scramble(draw, b.memory, b.bytes);
    return b;
}

static void free_buffer(buffer_t *b)
{
    free(b->memory);
    free(b->wanted);
    b->memory = b->wanted = NULL;
}

static unsigned char *at_element(unsigned char *memory, const layout_t *l, long i, const element_t *e)
{
    return memory + GUARD + place(l, i) * e->bytes;
}

/* Reals are small, so that results are exact. Factors are positive: a negative zero would be as good a
 * minimum or maximum as a positive one. */
static void write_reals(draw_t *draw, buffer_t *b, const element_t *e, int op)
{
    for (long i = 0; i < total(&b->layout); i++) {
        long value = below(draw, 17) - 8;
        double wide = (double)(op == PROD ? labs(value) + 1 : value);
        float narrow = (float)wide;
        memcpy(at_element(b->memory, &b->layout, i, e), e->kind == SINGLE ? (void *)&narrow : (void *)&wide,
               (size_t)e->bytes);
    }
}

static long draw_count(draw_t *draw, long most)
{
    const long most_of[] = {1, 1, 8, 64, 512, 4000};
    long limit = most_of[below(draw, 6)];
    if (chance(draw, 4))
        return 0;
    limit = limit < most ? limit : most;
    return limit < 1 ? 0 : 1 + below(draw, limit);
}

/* A place in the target's memory. */
static int draw_place(draw_t *draw, const window_t *w, operation_t *o)
{
    const element_t *e = &elements[o->element];
    long fits = (long)w->bytes[o->target] / e->bytes, unit = w->unit[o->target];
    long step = unit / gcd(unit, e->bytes) * e->bytes, n = draw_count(draw, fits);
    if (o->code == FETCH || o->code == SWAP)
        n = 1;
    o->there = draw_layout(draw, n);
    if (n == 1 && (o->code == FETCH || o->code == SWAP))
        o->there = (layout_t){1, 1, 1, 1, 0, 0};
    MPI_Aint room = (MPI_Aint)(w->bytes[o->target] - span(&o->there) * e->bytes);
    if (room < 0)
        return 0;
    o->at = below(draw, room / step + 1) * step;
    return 1;
}

static int draw_operator(draw_t *draw, const element_t *e, int code)
{
    for (;;) {
        int op = (int)below(draw, OPERATORS);
        if (e->kind >= SINGLE && op >= BAND && op < REPLACE)
            continue;
        if (for_host && e->kind == UNSIGNED && (op == MIN || op == MAX))
            continue; /* Open MPI and MPICH compare as signed */
        if (op == NO_OP && code == ACCUMULATE)
            continue;
        return op;
    }
}

static access_t access_of(const operation_t *o)
{
    use_kind kind = o->code == PUT ? WRITTEN : o->code == GET ? READ : ACCUMULATED;
    return (access_t){kind, o->origin, o->target, o->element, o->op, o->exclusive, o->at, o->there};
}

/* Draws what and where; whether that is determinate. */
static int draw_one(draw_t *draw, const opening_t *p, operation_t *o, const operation_t *last)
{
    window_t *w = p->w;
    o->origin = (int)below(draw, w->size);
    o->code = (int)below(draw, FLUSH);
    if (last != NULL && last->code >= ACCUMULATE && o->code >= ACCUMULATE && o->code <= GET_ACCUMULATE
        && chance(draw, 50)) {
        o->target = last->target, o->element = last->element;
        o->at = last->at, o->there = last->there;
        o->origin = chance(draw, 50) ? last->origin : o->origin;
        o->op = last->op;
    } else {
        o->target = (int)below(draw, w->size);
        o->element = (int)below(draw, o->code < ACCUMULATE ? ELEMENTS : o->code == SWAP ? 14 : NUMBERS);
        if (!draw_place(draw, w, o))
            return 0;
        o->op = draw_operator(draw, &elements[o->element], o->code);
    }
    const element_t *e = &elements[o->element];
    if (chance(draw, 40))
        o->op = draw_operator(draw, e, o->code);
    if (o->op == NO_OP && o->code == ACCUMULATE)
        o->op = REPLACE;
    if (!p->edge[o->origin][o->target])
        return 0;
    o->unchecked = (o->code == GET_ACCUMULATE || o->code == FETCH) && chance(draw, 30);
    o->exclusive = (o->code >= GET_ACCUMULATE && !o->unchecked) || o->op >= REPLACE || e->kind >= SINGLE;
    access_t access = access_of(o);
    if (o->code >= ACCUMULATE && e->kind >= SINGLE && !is_fresh(w, &access))
        o->op = REPLACE;
    return claim(w, &access);
}

/* Fills the origin's buffers, and does to the model what is to be done. */
static void apply(draw_t *draw, window_t *w, operation_t *o)
{
    const element_t *e = &elements[o->element];
    long n = total(&o->there);
    unsigned char *memory = w->model[o->target] + o->at;
    if (o->code != GET) {
        o->out = make_buffer(draw, n, e);
        if (o->code >= ACCUMULATE && (e->kind == SINGLE || e->kind == DOUBLE_))
            write_reals(draw, &o->out, e, o->op);
        memcpy(o->out.wanted, o->out.memory, o->out.bytes);
    }
    if (o->code == GET || o->code >= GET_ACCUMULATE) {
        o->in = make_buffer(draw, n, e);
        memcpy(o->in.wanted, o->in.memory, o->in.bytes);
        for (long i = 0; i < n; i++)
            memcpy(at_element(o->in.wanted, &o->in.layout, i, e), memory + place(&o->there, i) * e->bytes,
                   (size_t)e->bytes);
    }
    if (o->code == SWAP) {
        memcpy(o->comparand, memory, (size_t)e->bytes);
        o->comparand[0] ^= (unsigned char)below(draw, 2);
        scramble(draw, o->candidate, 8);
        if (memcmp(o->comparand, memory, (size_t)e->bytes) == 0)
            memcpy(memory, o->candidate, (size_t)e->bytes);
        return;
    }
    for (long i = 0; i < n && o->code != GET; i++) {
        unsigned char *to = memory + place(&o->there, i) * e->bytes;
        const unsigned char *from = at_element(o->out.memory, &o->out.layout, i, e);
        if (o->code == PUT)
            memcpy(to, from, (size_t)e->bytes);
        else
            combine(e, o->op, to, from);
    }
}

/* A flush of some kind, where one is in order. */
static int draw_flush(draw_t *draw, opening_t *p, operation_t *o)
{
    window_t *w = p->w;
    o->origin = (int)below(draw, w->size);
    o->target = (int)below(draw, w->size);
    o->code = FLUSH + (int)below(draw, CODES - FLUSH);
    if (p->mode == EACH)
        o->target = p->held[o->origin];
    if (for_host && (o->code == FLUSH_LOCAL || o->code == FLUSH_LOCAL_ALL))
        return 0; /* with MPICH gets may be under way yet */
    if (!is_passive(p->mode) || o->target < 0 || !p->edge[o->origin][o->target])
        return 0;
    for (int t = 0; t < w->size; t++)
        w->flushes[o->origin][t] +=
            o->code == FLUSH_ALL || (o->code == FLUSH && t == o->target);
    return 1;
}

static void draw_operations(draw_t *draw, opening_t *openings, int count)
{
    int wanted = (int)below(draw, MOST_OPERATIONS / 4 << below(draw, 3)), phases = 1;
    operation_count = 0;
    for (int p = 0; p < count; p++)
        phases = openings[p].phases > phases ? openings[p].phases : phases;
    for (int phase = 0; phase < phases; phase++) {
        for (int p = 0; p < count; p++)
            if (phase == 0 || openings[p].mode == FENCE)
                forget_uses(openings[p].w);
        const operation_t *last[2] = {NULL, NULL};
        for (int tries = 0; tries < wanted / phases; tries++) {
            int which = (int)below(draw, count);
            opening_t *p = &openings[which];
            operation_t *o = &operations[operation_count];
            *o = (operation_t){.opening = which, .phase = phase};
            if (chance(draw, 15) ? !draw_flush(draw, p, o) : !draw_one(draw, p, o, last[which]))
                continue;
            operation_count++;
            if (o->code >= FLUSH)
                continue;
            apply(draw, p->w, o);
            last[which] = o;
            p->written[o->target] |= o->code != GET;
            if (p->mode == EACH && p->held[o->origin] != o->target) {
                int before = p->held[o->origin];
                if (before >= 0)
                    p->w->flushes[o->origin][before]++;
                p->held[o->origin] = o->target;
            }
        }
    }
}

#endif
