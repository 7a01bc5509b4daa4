/* The blocks of an all-to-all with a type for each rank: vectors of integers with gaps, of other lengths for each pair of ranks,
 * which for some is none, and then the type is none either. */
#ifndef TYPED_BLOCKS_H
#define TYPED_BLOCKS_H

#include "check.h"

enum { OUT_STRIDE = 2, IN_STRIDE = 3 };

struct typed_side {
    int *data, *counts, *bytes;
    MPI_Datatype *types;
};

struct typed_blocks {
    int rank, size, unit;
    struct typed_side out, in;
};

/* Integers from `from` to `to`. */
static int typed_length(const struct typed_blocks *b, int from, int to)
{
    return (3 * from + 5 * to) % 4 * b->unit;
}

static int typed_value(int from, int to, int index, int turn)
{
    return ((from * 31 + to) * 31 + turn) * 8191 + index;
}

/* Room for the block of each rank, in integers. */
static size_t typed_room(const struct typed_blocks *b, int stride)
{
    return (size_t)3 * (size_t)b->unit * (size_t)stride;
}

static void typed_make_side(struct typed_blocks *b, struct typed_side *side, int stride)
{
    size_t ranks = (size_t)b->size;
    side->data = must(malloc(ranks * typed_room(b, stride) * sizeof(int)));
    side->counts = must(malloc(ranks * sizeof(int)));
    side->bytes = must(malloc(ranks * sizeof(int)));
    side->types = must(malloc(ranks * sizeof(MPI_Datatype)));
    for (int peer = 0; peer < b->size; peer++) {
        int is_out = side == &b->out;
        int length = typed_length(b, is_out ? b->rank : peer, is_out ? peer : b->rank);
        side->counts[peer] = length > 0;
        side->bytes[peer] = peer * (int)(typed_room(b, stride) * sizeof(int));
        side->types[peer] = MPI_DATATYPE_NULL;
        if (length == 0)
            continue;
        MPI_Type_vector(length, 1, stride, MPI_INT, &side->types[peer]);
        MPI_Type_commit(&side->types[peer]);
    }
}

/* Blocks of up to three times `unit` integers. */
static void typed_make(struct typed_blocks *b, int rank, int size, int unit)
{
    *b = (struct typed_blocks){rank, size, unit, {0}, {0}};
    typed_make_side(b, &b->out, OUT_STRIDE);
    typed_make_side(b, &b->in, IN_STRIDE);
}

static void typed_drop_side(const struct typed_blocks *b, struct typed_side *side)
{
    for (int peer = 0; peer < b->size; peer++)
        if (side->types[peer] != MPI_DATATYPE_NULL)
            MPI_Type_free(&side->types[peer]);
}

/* Frees the types, and leaves nothing in the arrays that name them. */
static void typed_drop_types(struct typed_blocks *b)
{
    typed_drop_side(b, &b->out);
    typed_drop_side(b, &b->in);
}

/* What is sent in this `turn`; nothing was received yet. */
static void typed_fill(struct typed_blocks *b, int turn)
{
    for (int peer = 0; peer < b->size; peer++) {
        int *out = b->out.data + (size_t)peer * typed_room(b, OUT_STRIDE);
        int *in = b->in.data + (size_t)peer * typed_room(b, IN_STRIDE);
        for (size_t i = 0; i < typed_room(b, OUT_STRIDE); i++)
            out[i] = typed_value(b->rank, peer, (int)i / OUT_STRIDE, turn);
        for (size_t i = 0; i < typed_room(b, IN_STRIDE); i++)
            in[i] = -1;
    }
}

/* Integers that are not what this `turn` has received or left. */
static int typed_wrong(const struct typed_blocks *b, int turn)
{
    int wrong = 0;
    for (int peer = 0; peer < b->size; peer++) {
        const int *in = b->in.data + (size_t)peer * typed_room(b, IN_STRIDE);
        int length = typed_length(b, peer, b->rank);
        for (int i = 0; i < (int)typed_room(b, IN_STRIDE); i++) {
            int index = i / IN_STRIDE, received = i % IN_STRIDE == 0 && index < length;
            wrong += in[i] != (received ? typed_value(peer, b->rank, index, turn) : -1);
        }
    }
    return wrong;
}

static void typed_free_side(struct typed_side *side)
{
    free(side->data);
    free(side->counts);
    free(side->bytes);
    free(side->types);
}

static void typed_free(struct typed_blocks *b)
{
    typed_free_side(&b->out);
    typed_free_side(&b->in);
}

#define TYPED_ARGUMENTS(b) \
    (b).out.data, (b).out.counts, (b).out.bytes, (b).out.types, (b).in.data, (b).in.counts, (b).in.bytes, (b).in.types

#endif
