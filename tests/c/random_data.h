/* What random_check draws: numbers, signatures, the datatypes that lay them out, and memory of
 * blocks of them. Draws from `shared_t` are the same on all ranks of a communicator. */
#ifndef RANDOM_DATA_H
#define RANDOM_DATA_H

#include "check.h"

enum { GUARD = 64, PARTS = 6 };

/* splitmix64. */
typedef struct { uint64_t state; } draw_t;

static uint64_t next(draw_t *draw)
{
    uint64_t z = draw->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static draw_t stream(uint64_t seed, uint64_t batch, uint64_t number, uint64_t rank)
{
    draw_t draw = {seed};
    draw.state = next(&draw) + batch;
    draw.state = next(&draw) + number;
    draw.state = next(&draw) + rank;
    next(&draw);
    return draw;
}

static long below(draw_t *draw, long limit)
{
    return limit > 0 ? (long)(next(draw) % (uint64_t)limit) : 0;
}

static int chance(draw_t *draw, int percent) { return below(draw, 100) < percent; }

static inline void scramble(draw_t *draw, unsigned char *to, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word = next(draw);
        memcpy(to + at, &word, bytes - at < 8 ? bytes - at : 8);
    }
}

static inline void permute(draw_t *draw, int *order, int count)
{
    for (int i = 0; i < count; i++)
        order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int other = (int)below(draw, i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

/* What one unit of data consists of: all ranks agree on it, and lay it out as they like. */
typedef struct {
    int parts, alike;
    int plain; /* no gaps */
    MPI_Datatype base[PARTS];
    MPI_Aint extent[PARTS];
    int bytes;
} signature_t;

/* No MPI_LONG_DOUBLE: hosts may or may not copy its padding. */
static inline signature_t draw_signature(draw_t *shared)
{
    const MPI_Datatype bases[] = {
        MPI_BYTE, MPI_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_FLOAT, MPI_DOUBLE, MPI_UNSIGNED_CHAR,
        MPI_C_DOUBLE_COMPLEX, MPI_INT64_T, MPI_DOUBLE_INT, MPI_SHORT_INT, MPI_2INT};
    signature_t signature = {.parts = 1 + (int)below(shared, PARTS), .alike = chance(shared, 70)};
    if (chance(shared, 40))
        signature.parts = 1;
    for (int i = 0; i < signature.parts; i++) {
        int size;
        MPI_Aint lower;
        signature.base[i] = signature.alike && i > 0 ? signature.base[0]
            : bases[below(shared, sizeof bases / sizeof *bases)];
        MPI_Type_size(signature.base[i], &size);
        MPI_Type_get_extent(signature.base[i], &lower, &signature.extent[i]);
        signature.bytes += size;
    }
    signature.alike |= signature.parts == 1;
    return signature;
}

static inline signature_t plain_signature(void)
{
    return (signature_t){.parts = 1, .alike = 1, .plain = 1, .base = {MPI_DOUBLE}, .extent = {8}, .bytes = 8};
}

/* A datatype for a signature: `per_unit` elements make a unit. */
typedef struct {
    MPI_Datatype type;
    int per_unit, made;
    MPI_Aint extent, low, high; /* where an element's bytes are */
} form_t;

static inline form_t measured(MPI_Datatype type, int per_unit, int made)
{
    form_t form = {type, per_unit, made, 0, 0, 0};
    MPI_Aint lower, span;
    MPI_Type_get_extent(type, &lower, &form.extent);
    MPI_Type_get_true_extent(type, &form.low, &span);
    form.high = form.low + span;
    if (made)
        MPI_Type_commit(&form.type);
    return form;
}

/* The parts in any order of addresses, in that of the signature if `dense`; `*end` is past them. */
static inline MPI_Datatype scattered(const signature_t *signature, draw_t *own, int dense,
                                     MPI_Aint *end)
{
    int order[PARTS], ones[PARTS];
    MPI_Aint at[PARTS], cursor = dense ? 0 : 4 * below(own, 3);
    permute(own, order, signature->parts);
    for (int i = 0; i < signature->parts; i++) {
        int part = dense ? i : order[i];
        at[part] = cursor;
        ones[i] = 1;
        cursor += signature->extent[part] + (dense ? 0 : 4 * below(own, 4));
    }
    MPI_Datatype type;
    MPI_Type_create_struct(signature->parts, ones, at, signature->base, &type);
    *end = cursor;
    return type;
}

static inline form_t draw_form(const signature_t *signature, draw_t *own)
{
    MPI_Datatype type, inner;
    MPI_Aint end, begin = 4 * below(own, 5);
    int parts = signature->parts, one = 1;
    switch (signature->plain ? 5 + 3 * below(own, 2) : below(own, signature->alike ? 9 : 5)) {
    case 0:
        return measured(scattered(signature, own, 1, &end), 1, 1);
    case 1:
        return measured(scattered(signature, own, 0, &end), 1, 1);
    case 2: /* an extent of its own, and perhaps a lower bound below or above the data */
        inner = scattered(signature, own, (int)below(own, 2), &end);
        MPI_Type_create_resized(inner, begin - 8, end + 8 * below(own, 3), &type);
        break;
    case 3:
        inner = scattered(signature, own, 0, &end);
        MPI_Type_dup(inner, &type);
        break;
    case 4: /* begins late */
        inner = scattered(signature, own, (int)below(own, 2), &end);
        MPI_Type_create_hindexed(1, &one, &begin, inner, &type);
        break;
    case 5:
        MPI_Type_contiguous(parts, signature->base[0], &type);
        return measured(type, 1, 1);
    case 6:
        MPI_Type_vector(parts, 1, 1 + (int)below(own, 3), signature->base[0], &type);
        return measured(type, 1, 1);
    default:
        return measured(signature->base[0], parts, 0);
    }
    MPI_Type_free(&inner);
    return measured(type, 1, 1);
}

/* How the blocks of an area are described to MPI. */
enum { UNIFORM, VECTOR, WIDE };

/* Memory of some blocks: ours, the host's, and as it was. */
typedef struct {
    int blocks;
    form_t *forms; /* of each block; only WIDE ones differ */
    int *counts, *displs;
    MPI_Datatype *types;
    MPI_Aint *at; /* first element of each block, in bytes from `first` */
    unsigned char *memory[3], *first[2];
    size_t bytes;
} area_t;

static inline void place_blocks(area_t *area, int style, draw_t *own)
{
    int *order = must(malloc(sizeof(int) * (size_t)area->blocks + 1));
    permute(own, order, area->blocks);
    long gaps = chance(own, 50) ? 4 : 1, cursor = chance(own, 25) ? -below(own, 50) : 0;
    MPI_Aint end = 8 * cursor;
    for (int i = 0; i < area->blocks; i++) {
        int block = style == UNIFORM ? i : order[i];
        const form_t *form = &area->forms[block];
        long count = area->counts[block];
        if (style == UNIFORM) {
            area->at[block] = i * count * form->extent;
        } else if (style == VECTOR) {
            cursor += below(own, gaps);
            area->displs[block] = (int)cursor;
            area->at[block] = cursor * form->extent;
            /* Elements may reach past their extent (resized types): leave room. */
            cursor += count + (form->high - form->low > form->extent ? 8 : 0);
        } else {
            area->at[block] = end - (count > 0 ? form->low : 0) + 8 * below(own, gaps);
            area->displs[block] = (int)area->at[block];
            end = area->at[block] + (count > 0 ? (count - 1) * form->extent + form->high : 0);
        }
    }
    free(order);
}

/* Room to describe blocks; one more, so that an area without blocks has a type, too. */
static inline area_t new_area(int blocks)
{
    size_t n = (size_t)blocks + 1;
    area_t area = {.blocks = blocks};
    area.forms = must(calloc(n, sizeof *area.forms));
    area.counts = must(calloc(n, sizeof *area.counts));
    area.displs = must(calloc(n, sizeof *area.displs));
    area.types = must(calloc(n, sizeof *area.types));
    area.at = must(calloc(n, sizeof *area.at));
    return area;
}

/* Places the blocks that were described, and gets them memory with random contents. */
static inline void settle(area_t *area, int style, draw_t *own)
{
    MPI_Aint low = 0, high = 0;
    place_blocks(area, style, own);
    for (int i = 0; i < area->blocks; i++) {
        const form_t *form = &area->forms[i];
        MPI_Aint begin = area->at[i] + form->low;
        MPI_Aint end = area->at[i] + (area->counts[i] - 1) * form->extent + form->high;
        low = area->counts[i] > 0 && begin < low ? begin : low;
        high = area->counts[i] > 0 && end > high ? end : high;
    }
    area->bytes = (size_t)(high - low) + 2 * GUARD;
    for (int copy = 0; copy < 3; copy++)
        area->memory[copy] = must(malloc(area->bytes));
    scramble(own, area->memory[2], area->bytes);
    for (int copy = 0; copy < 2; copy++) {
        memcpy(area->memory[copy], area->memory[2], area->bytes);
        area->first[copy] = area->memory[copy] + GUARD - low;
    }
}

/* Blocks of `units[i]` units each. */
static inline area_t make_area(const signature_t *signature, int blocks, const long *units,
                               int style, draw_t *own)
{
    area_t area = new_area(blocks);
    for (int i = 0; i <= blocks; i++) {
        area.forms[i] = i == 0 || style == WIDE ? draw_form(signature, own) : area.forms[0];
        area.types[i] = area.forms[i].type;
        area.counts[i] = i < blocks ? (int)units[i] * area.forms[i].per_unit : 0;
    }
    settle(&area, style, own);
    return area;
}

/* One block of a type that all ranks share. */
static inline area_t plain_area(MPI_Datatype type, long count, draw_t *own)
{
    area_t area = new_area(1);
    area.forms[0] = area.forms[1] = measured(type, 1, 0);
    area.types[0] = area.types[1] = type;
    area.counts[0] = (int)count;
    settle(&area, UNIFORM, own);
    return area;
}

static inline void free_area(area_t *area, int style)
{
    for (int i = 0; i <= area->blocks; i++)
        if (area->forms != NULL && area->forms[i].made && (i == 0 || style == WIDE))
            MPI_Type_free(&area->forms[i].type);
    free(area->forms);
    free(area->counts);
    free(area->displs);
    free(area->types);
    free(area->at);
    for (int copy = 0; copy < 3; copy++)
        free(area->memory[copy]);
}

#endif
