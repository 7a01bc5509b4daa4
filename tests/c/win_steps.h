/* Doing a step of win_random: opening epochs, the operations of this rank, closing, comparing. */
#ifndef WIN_STEPS_H
#define WIN_STEPS_H

#include "win_draw.h"

#include <unistd.h>

static const char *mode_names[] = {"fence", "post", "lock_all", "locks", "each", "counters", "races"};
static int step_number, tracing;

/* Ends the program: what follows would differ too. */
static void give_up(const window_t *w, const char *what, long offset, unsigned found, unsigned wanted)
{
    fprintf(stderr, "win_random: wrong: epoch %d (%s), window %d (%s, %d ranks), rank %d: %s at offset "
            "%ld: 0x%02x instead of 0x%02x\n", step_number, context, w->number, w->kind, w->size, w->rank,
            what, offset, found, wanted);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void compare(const window_t *w, const char *what, const unsigned char *found,
                    const unsigned char *wanted, size_t bytes)
{
    checks++;
    if (bytes == 0 || memcmp(found, wanted, bytes) == 0)
        return;
    size_t at = 0;
    while (found[at] == wanted[at])
        at++;
    give_up(w, what, (long)at, found[at], wanted[at]);
}

static void compare_memory(const window_t *w)
{
    compare(w, "window memory", w->memory, w->model[w->rank], (size_t)w->bytes[w->rank]);
}

static void trace(const opening_t *p, const operation_t *o)
{
    if (tracing)
        fprintf(stderr, "rank %d: epoch %d window %d %s: %s to %d, %ld x %s at %ld (%s%s), operator %d%s\n",
                o->origin, step_number, p->w->number, mode_names[p->mode], code_names[o->code], o->target,
                o->code < FLUSH ? total(&o->there) : 0, elements[o->element].name, (long)o->at,
                o->there.derived ? "derived" : "plain", o->there.backwards ? ", backwards" : "", o->op,
                o->unchecked ? ", unchecked" : "");
}

/* The operation is over at the origin: its buffers are as they should be, and may be used again. */
static void conclude(const opening_t *p, operation_t *o)
{
    char what[128];
    const element_t *e = &elements[o->element];
    if (!o->issued || o->over)
        return;
    o->over = 1;
    snprintf(what, sizeof what, "buffer of %s of %ld %s to rank %d at %ld", code_names[o->code],
             total(&o->there), e->name, o->target, (long)o->at);
    for (long i = 0; o->unchecked && i < total(&o->there); i++)
        memcpy(at_element(o->in.wanted, &o->in.layout, i, e), at_element(o->in.memory, &o->in.layout, i, e),
               (size_t)e->bytes);
    if (o->in.memory != NULL)
        compare(p->w, what, o->in.memory, o->in.wanted, o->in.bytes);
    if (o->out.memory != NULL) {
        compare(p->w, what, o->out.memory, o->out.wanted, o->out.bytes);
        memset(o->out.memory, 0xee, o->out.bytes);
    }
    free_buffer(&o->in);
    free_buffer(&o->out);
}

static void conclude_all(opening_t *openings, int opening, int target, int before)
{
    for (int i = 0; i < before; i++)
        if (operations[i].opening == opening && operations[i].code < FLUSH
            && (target < 0 || operations[i].target == target))
            conclude(&openings[opening], &operations[i]);
}

static void do_flush(opening_t *openings, const operation_t *o, int before)
{
    MPI_Win win = openings[o->opening].w->win;
    if (o->code == FLUSH)
        MPI_Win_flush(o->target, win);
    else if (o->code == FLUSH_LOCAL)
        MPI_Win_flush_local(o->target, win);
    else if (o->code == FLUSH_ALL)
        MPI_Win_flush_all(win);
    else if (o->code == FLUSH_LOCAL_ALL)
        MPI_Win_flush_local_all(win);
    else
        MPI_Win_sync(win);
    if (o->code != SYNC)
        conclude_all(openings, o->opening, o->code == FLUSH || o->code == FLUSH_LOCAL ? o->target : -1, before);
}

static void do_operation(const window_t *w, operation_t *o)
{
    const element_t *e = &elements[o->element];
    MPI_Datatype there = datatype_of(&o->there, e);
    MPI_Datatype out = o->out.memory ? datatype_of(&o->out.layout, e) : MPI_DATATYPE_NULL;
    MPI_Datatype in = o->in.memory ? datatype_of(&o->in.layout, e) : MPI_DATATYPE_NULL;
    MPI_Aint at = o->at / w->unit[o->target];
    MPI_Op op = operator_of(o->op);
    int n = items_of(&o->there), n_out = items_of(&o->out.layout), n_in = items_of(&o->in.layout);
    unsigned char *from = o->out.memory + GUARD, *to = o->in.memory + GUARD;
    if (o->code == PUT)
        MPI_Put(from, n_out, out, o->target, at, n, there, w->win);
    else if (o->code == GET)
        MPI_Get(to, n_in, in, o->target, at, n, there, w->win);
    else if (o->code == ACCUMULATE)
        MPI_Accumulate(from, n_out, out, o->target, at, n, there, op, w->win);
    else if (o->code == GET_ACCUMULATE)
        MPI_Get_accumulate(from, n_out, out, to, n_in, in, o->target, at, n, there, op, w->win);
    else if (o->code == FETCH)
        MPI_Fetch_and_op(from, to, e->type, o->target, at, op, w->win);
    else
        MPI_Compare_and_swap(o->candidate, o->comparand, to, e->type, o->target, at, w->win);
    MPI_Datatype *all[] = {&there, &out, &in};
    for (int i = 0; i < 3; i++)
        if (*all[i] != e->type && *all[i] != MPI_DATATYPE_NULL)
            MPI_Type_free(all[i]);
    o->issued = 1;
}

/* The ranks that `rank` accesses, or that access it. */
static MPI_Group group_of(const opening_t *p, int targets)
{
    MPI_Group all, some;
    int ranks[RANKS], count = 0, rank = p->w->rank;
    for (int r = 0; r < p->w->size; r++)
        if (targets ? p->edge[rank][r] : p->edge[r][rank])
            ranks[count++] = r;
    MPI_Win_get_group(p->w->win, &all);
    MPI_Group_incl(all, count, ranks, &some);
    MPI_Group_free(&all);
    return some;
}

static void open_epoch(opening_t *p, draw_t *own, MPI_Comm comm)
{
    window_t *w = p->w;
    int stored = w->stored;
    int assertion = (!stored && chance(own, 50) ? MPI_MODE_NOSTORE : 0)
        | (!p->written[w->rank] && chance(own, 50) ? MPI_MODE_NOPUT : 0);
    if (p->mode == FENCE) {
        if (p->phases > 1)
            assertion &= ~MPI_MODE_NOPUT;
        MPI_Win_fence(assertion | (p->precedes ? 0 : MPI_MODE_NOPRECEDE), w->win);
    } else if (p->mode == POST) {
        MPI_Group origins = group_of(p, 0), targets = group_of(p, 1);
        MPI_Win_post(origins, assertion | (p->nocheck ? MPI_MODE_NOCHECK : 0), w->win);
        if (p->nocheck)
            MPI_Barrier(comm);
        MPI_Win_start(targets, p->nocheck ? MPI_MODE_NOCHECK : 0, w->win);
        MPI_Group_free(&origins);
        MPI_Group_free(&targets);
    } else if (p->mode == LOCK_ALL) {
        MPI_Win_lock_all(p->nocheck ? MPI_MODE_NOCHECK : 0, w->win);
    } else if (p->mode == LOCKS) {
        int order[RANKS];
        permute(own, order, w->size);
        for (int i = 0; i < w->size; i++)
            if (p->edge[w->rank][order[i]])
                MPI_Win_lock(MPI_LOCK_SHARED, order[i], p->nocheck ? MPI_MODE_NOCHECK : 0, w->win);
    }
    w->stored = 0;
}

static void close_epoch(opening_t *p, draw_t *own, int held)
{
    window_t *w = p->w;
    if (p->mode == FENCE) {
        MPI_Win_fence(MPI_MODE_NOSTORE | (p->succeeds ? 0 : MPI_MODE_NOSUCCEED), w->win);
    } else if (p->mode == POST) {
        MPI_Win_complete(w->win);
        if (chance(own, 50))
            MPI_Win_wait(w->win);
        else
            for (int over = 0; !over;)
                MPI_Win_test(w->win, &over);
    } else if (p->mode == LOCK_ALL) {
        MPI_Win_unlock_all(w->win);
    } else if (p->mode == LOCKS) {
        int order[RANKS];
        permute(own, order, w->size);
        for (int i = 0; i < w->size; i++)
            if (p->edge[w->rank][order[i]])
                MPI_Win_unlock(order[i], w->win);
    } else if (held >= 0) {
        MPI_Win_unlock(held, w->win);
    }
}

/* Changes the lock that is held in EACH. */
static void hold(opening_t *openings, const operation_t *o, int *held, int before, draw_t *own)
{
    window_t *w = openings[o->opening].w;
    if (*held == o->target)
        return;
    if (*held >= 0) {
        MPI_Win_unlock(*held, w->win);
        conclude_all(openings, o->opening, *held, before);
    }
    MPI_Win_lock(chance(own, 50) ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, o->target, 0, w->win);
    *held = o->target;
}

/* The operations of this rank, in their order, with the fences between phases. */
static int do_operations(opening_t *openings, int count, draw_t *own)
{
    int phase = 0, held = -1, rank = openings[0].w->rank;
    for (int i = 0; i <= operation_count; i++) {
        operation_t *o = &operations[i];
        int until = i < operation_count ? o->phase : 0;
        for (int p = 0; i == operation_count && p < count; p++)
            until = openings[p].phases - 1 > until ? openings[p].phases - 1 : until;
        for (; phase < until; phase++)
            for (int p = 0; p < count; p++)
                if (openings[p].mode == FENCE && phase + 1 < openings[p].phases) {
                    MPI_Win_fence(0, openings[p].w->win);
                    conclude_all(openings, p, -1, i);
                }
        if (i == operation_count || o->origin != rank)
            continue;
        trace(&openings[o->opening], o);
        if (openings[o->opening].mode == EACH && o->code < FLUSH)
            hold(openings, o, &held, i, own);
        if (o->code < FLUSH)
            do_operation(openings[o->opening].w, o);
        else
            do_flush(openings, o, i);
    }
    return held;
}

#include "win_special.h"

/* Every rank changes some of its own memory between epochs. */
static void store(window_t *w, draw_t *draw, int passive)
{
    for (int r = 0; r < w->size; r++) {
        long n = below(draw, w->bytes[r] < 300 ? (long)w->bytes[r] + 1 : 300);
        long at = below(draw, (long)w->bytes[r] - n + 1);
        if (!chance(draw, 40) || n == 0)
            continue;
        scramble(draw, w->model[r] + at, (size_t)n);
        if (r != w->rank)
            continue;
        if (passive)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, r, 0, w->win);
        memcpy(w->memory + at, w->model[r] + at, (size_t)n);
        if (passive)
            MPI_Win_unlock(r, w->win);
        w->stored = !passive;
    }
}

static void check_passive(const window_t *w, MPI_Comm comm)
{
    MPI_Barrier(comm);
    MPI_Win_lock(MPI_LOCK_SHARED, w->rank, 0, w->win);
    compare_memory(w);
    MPI_Win_unlock(w->rank, w->win);
    MPI_Barrier(comm);
}

static opening_t draw_opening(draw_t *draw, window_t *w, int mode)
{
    opening_t p = {.w = w, .mode = mode, .phases = 1, .precedes = chance(draw, 50),
                   .succeeds = chance(draw, 50), .nocheck = chance(draw, 30) && !for_host};
    if (mode == FENCE && chance(draw, 40))
        p.phases = 2 + (int)below(draw, 2);
    for (int origin = 0; origin < w->size; origin++)
        for (int target = 0; target < w->size; target++) {
            p.edge[origin][target] = (mode != POST && mode != LOCKS) || chance(draw, 60);
            p.held[origin] = -1;
        }
    return p;
}

/* One or two windows are opened, used, closed and compared. */
static void run_step(MPI_Comm comm, window_t *windows, int count, draw_t *draw)
{
    opening_t openings[2];
    int order[3], passive = 0, mode = (int)below(draw, RACES + 1);
    permute(draw, order, count);
    int used = mode <= LOCKS && count > 1 && chance(draw, 40) && !for_host ? 2 : 1;
    for (int p = 0; p < used; p++) {
        openings[p] = draw_opening(draw, &windows[order[p]], p == 0 ? mode : (int)below(draw, LOCKS + 1));
        passive |= is_passive(openings[p].mode);
    }
    snprintf(context, sizeof context, "%s%s%s", mode_names[mode], used > 1 ? " and " : "",
             used > 1 ? mode_names[openings[1].mode] : "");
    draw_t own = stream(next(draw), (uint64_t)openings[0].w->rank, 0, 0);
    for (int p = 0; p < used; p++)
        store(openings[p].w, draw, is_passive(openings[p].mode));
    if (passive || chance(draw, 30))
        MPI_Barrier(comm);
    if (mode >= PLAIN_MODES) {
        run_special(openings[0].w, mode, comm, draw, &own);
        check_passive(openings[0].w, comm);
        return;
    }
    draw_operations(draw, openings, used);
    for (int p = 0; p < used; p++)
        open_epoch(&openings[p], &own, comm);
    if (chance(&own, 5))
        usleep((unsigned)below(&own, 2000));
    int held = do_operations(openings, used, &own);
    for (int p = 0; p < used; p++) {
        close_epoch(&openings[p], &own, held);
        conclude_all(openings, p, -1, operation_count);
        if (!is_passive(openings[p].mode))
            compare_memory(openings[p].w);
    }
    for (int p = 0; p < used; p++)
        if (is_passive(openings[p].mode))
            check_passive(openings[p].w, comm);
    for (int i = 0; i < operation_count; i++) {
        free_buffer(&operations[i].in);
        free_buffer(&operations[i].out);
    }
}

#endif
