/* Datatypes whose bytes are known one by one, and memory of their elements with guards. */
#ifndef LAYOUT_H
#define LAYOUT_H

#include "check.h"

enum { GUARD = 64 };

/* A datatype, and where its data bytes are: `place[i]` is the offset of the i-th byte of data. */
typedef struct {
    const char *name;
    MPI_Datatype type;
    MPI_Aint lower, extent; /* of memory, gaps included */
    int bytes;
    long *place;
} layout_t;

/* Bytes the type occupies, its data in order; asked of the host by packing numbered memory. */
static inline layout_t describe(const char *name, MPI_Datatype type)
{
    layout_t layout = {.name = name, .type = type};
    MPI_Aint bound, true_extent;
    MPI_Type_size(type, &layout.bytes);
    MPI_Type_get_extent(type, &bound, &layout.extent);
    MPI_Type_get_true_extent(type, &layout.lower, &true_extent);
    layout.place = must(calloc((size_t)layout.bytes + 1, sizeof(long)));
    unsigned char *memory = must(malloc((size_t)true_extent + 1));
    unsigned char *packed = must(malloc((size_t)layout.bytes + 1));
    for (int digit = 0; digit == 0 || true_extent >> (8 * digit) > 0; digit++) {
        int position = 0;
        for (MPI_Aint at = 0; at < true_extent; at++)
            memory[at] = (unsigned char)(at >> (8 * digit));
        MPI_Pack(memory - layout.lower, 1, type, packed, layout.bytes, &position, MPI_COMM_SELF);
        for (int i = 0; i < layout.bytes; i++)
            layout.place[i] |= (long)packed[i] << (8 * digit);
    }
    for (int i = 0; i < layout.bytes; i++)
        layout.place[i] += layout.lower;
    free(memory);
    free(packed);
    return layout;
}

/* Memory of `count` elements with a guard on both sides; `*first` is where element 0 begins. */
static inline unsigned char *elements(const layout_t *layout, long count, unsigned char **first,
                                      size_t *bytes)
{
    long low = 0, high = 1;
    for (int i = 0; i < layout->bytes; i++) {
        low = layout->place[i] < low ? layout->place[i] : low;
        high = layout->place[i] + 1 > high ? layout->place[i] + 1 : high;
    }
    size_t reach = count > 0 ? (size_t)(count - 1) * (size_t)layout->extent : 0;
    *bytes = reach + (size_t)(high - low) + 2 * GUARD;
    unsigned char *memory = must(malloc(*bytes));
    memset(memory, 0xa5, *bytes);
    *first = memory + GUARD - low;
    return memory;
}

static inline void put(const layout_t *layout, unsigned char *first, long from, long count,
                       long round, int rank)
{
    for (long e = 0; e < count; e++)
        for (int i = 0; i < layout->bytes; i++)
            first[(from + e) * layout->extent + layout->place[i]] =
                pattern(round, rank, (size_t)(e * layout->bytes + i));
}

/* Derived types of 24 bytes of data, made of 6 ints, unless the name says otherwise. */
static inline int derived_types(layout_t *out)
{
    MPI_Datatype type, inner;
    int n = 0, one = 1;
#define KEEP(name) (MPI_Type_commit(&type), out[n++] = describe(name, type))
    MPI_Type_contiguous(6, MPI_INT, &type);
    KEEP("contiguous");
    MPI_Type_vector(3, 2, 5, MPI_INT, &type);
    KEEP("vector");
    MPI_Type_vector(3, 2, 2, MPI_INT, &type);
    KEEP("vector without gaps");
    int lengths[3] = {1, 2, 3}, displacements[3] = {9, 0, 4};
    MPI_Type_indexed(3, lengths, displacements, MPI_INT, &type);
    KEEP("indexed");
    int swapped[2] = {3, 0}, three[2] = {3, 3};
    MPI_Type_indexed(2, three, swapped, MPI_INT, &type);
    KEEP("indexed, dense, in another order");
    MPI_Type_contiguous(6, MPI_INT, &inner);
    MPI_Type_create_resized(inner, 0, 40, &type);
    KEEP("resized");
    MPI_Type_free(&inner);
    MPI_Aint offsets[3] = {8, 16, 40};
    int counts[3] = {1, 4, 1};
    MPI_Datatype parts[3] = {MPI_INT, MPI_INT, MPI_INT};
    MPI_Type_create_struct(3, counts, offsets, parts, &type);
    KEEP("struct that begins late");
    MPI_Aint late = 16;
    int six = 6;
    MPI_Type_create_hindexed(one, &six, &late, MPI_INT, &type);
    KEEP("dense that begins late");
    MPI_Type_dup(out[1].type, &type);
    KEEP("duplicate of a vector");
#undef KEEP
    return n;
}

#endif
