/* The host's result of a case. Data is moved as plain bytes by MPI_Alltoallv, packed and unpacked
 * here: hosts make mistakes of their own with large blocks that have gaps (Open MPI 4.1.4 splits
 * elements at 64 KB, MPICH calls them truncated), and would be no reference. */
#ifndef RANDOM_HOST_H
#define RANDOM_HOST_H

#include "random_case.h"

/* A block of an area. */
typedef struct {
    const area_t *area;
    int block;
} place_t;

static int is_scatter(const case_t *c) { return c->kind == SCATTER || c->kind == SCATTERV; }
static int is_gather(const case_t *c) { return c->kind == GATHER || c->kind == GATHERV; }
static int is_allgather(const case_t *c) { return c->kind == ALLGATHER || c->kind == ALLGATHERV; }

/* What this rank sends to `peer`; no area if nothing. */
static place_t source(const case_t *c, int peer)
{
    const place_t nothing = {NULL, 0};
    int to_itself = peer == c->rank;
    if (c->kind == BCAST)
        return c->rank == c->root && !to_itself ? (place_t){&c->recv, 0} : nothing;
    if (is_scatter(c))
        return c->rank == c->root && !(to_itself && c->in_place) ? (place_t){&c->send, peer} : nothing;
    if (is_gather(c) && peer != c->root)
        return nothing;
    if (is_gather(c) || is_allgather(c)) {
        int from_recv = c->in_place && (is_allgather(c) || c->rank == c->root);
        return from_recv ? (place_t){&c->recv, c->rank} : (place_t){&c->send, 0};
    }
    return (place_t){c->in_place ? &c->recv : &c->send, peer};
}

/* Where what `peer` sends belongs. */
static place_t target(const case_t *c, int peer)
{
    const place_t nothing = {NULL, 0};
    int from_itself = peer == c->rank;
    if (c->kind == BCAST)
        return peer == c->root && !from_itself ? (place_t){&c->recv, 0} : nothing;
    if (is_scatter(c))
        return peer == c->root && !(from_itself && c->in_place) ? (place_t){&c->recv, 0} : nothing;
    if (is_gather(c) && c->rank != c->root)
        return nothing;
    return (place_t){&c->recv, peer};
}

static int bytes_of(place_t place)
{
    int size = 0;
    if (place.area == NULL)
        return 0;
    MPI_Type_size(place.area->types[place.block], &size);
    return size * place.area->counts[place.block];
}

static void *address(place_t place)
{
    return place.area->first[1] + place.area->at[place.block];
}

static int move_by_host(const case_t *c)
{
    size_t n = (size_t)c->size;
    int *table = must(calloc(4 * n, sizeof *table));
    int *out = table, *out_at = table + n, *in = table + 2 * n, *in_at = table + 3 * n;
    long out_bytes = 0, in_bytes = 0;
    for (int peer = 0; peer < c->size; peer++) {
        out[peer] = bytes_of(source(c, peer));
        in[peer] = bytes_of(target(c, peer));
        out_at[peer] = (int)out_bytes;
        in_at[peer] = (int)in_bytes;
        out_bytes += out[peer];
        in_bytes += in[peer];
    }
    unsigned char *packed = must(malloc((size_t)out_bytes + 1)), *got = must(malloc((size_t)in_bytes + 1));
    for (int peer = 0; peer < c->size; peer++) {
        place_t from = source(c, peer);
        int position = 0;
        if (out[peer] > 0)
            PMPI_Pack(address(from), from.area->counts[from.block], from.area->types[from.block],
                      packed + out_at[peer], out[peer], &position, c->comm);
    }
    int code = HOST(Alltoallv)(packed, out, out_at, MPI_BYTE, got, in, in_at, MPI_BYTE, c->comm);
    for (int peer = 0; peer < c->size; peer++) {
        place_t to = target(c, peer);
        int position = 0;
        if (in[peer] > 0)
            PMPI_Unpack(got + in_at[peer], in[peer], &position, address(to), to.area->counts[to.block],
                        to.area->types[to.block], c->comm);
    }
    free(packed);
    free(got);
    free(table);
    return code;
}

/* Leaves the host's result in the second copies of the buffers. */
static int invoke_host(const case_t *c)
{
    return c->kind > BARRIER && c->kind < REDUCE ? move_by_host(c) : invoke(c, 1);
}

#endif
