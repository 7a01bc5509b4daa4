/* One case of random_check: what is called, drawn; the call itself, by ferrorail or by the host; and
 * the comparison. */
#ifndef RANDOM_CASE_H
#define RANDOM_CASE_H

#include "host.h"
#include "random_numbers.h"

enum {
    BARRIER, BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, GATHERV, SCATTERV, ALLGATHERV, ALLTOALLV,
    ALLTOALLW, REDUCE, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, KINDS
};

static const char *const kind_names[KINDS] = {
    "barrier", "bcast", "gather", "scatter", "allgather", "alltoall", "gatherv", "scatterv",
    "allgatherv", "alltoallv", "alltoallw", "reduce", "allreduce", "reduce_scatter",
    "reduce_scatter_block", "scan", "exscan"};

typedef struct {
    int kind, root, in_place, rank, size;
    MPI_Comm comm;
    int sends, receives, style; /* whether this rank's areas mean anything; how they are described */
    area_t send, recv;
    int *counts, results; /* of reductions: elements for each rank, and for this one */
    const number_t *number; /* of reductions */
    MPI_Op op;
    char text[160];
} case_t;

/* Passed where an argument is not significant: whoever looks at it fails. */
#define NOWHERE ((void *)64)
#define NONSENSE -5

/* Bytes of a block: often none or few, else around sizes at which something changes, up to `most`. */
static long draw_bytes(draw_t *shared, long most)
{
    const long edges[] = {64, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144};
    long bytes;
    switch (below(shared, 10)) {
    case 0:
        return 0;
    case 1: case 2: case 3:
        bytes = 1 + below(shared, 64);
        break;
    case 4: case 5:
        bytes = 1 + below(shared, 4096);
        break;
    case 6: case 7: case 8:
        bytes = edges[below(shared, sizeof edges / sizeof *edges)] + below(shared, 65) - 32;
        break;
    default:
        bytes = below(shared, most) + 1;
    }
    return bytes < most ? bytes : most;
}

/* Units that rank `from` sends to rank `to`, alike everywhere. Symmetrical for MPI_IN_PLACE. */
static long units_between(uint64_t salt, int from, int to, long most, int symmetrical)
{
    int swap = symmetrical && from > to;
    draw_t draw = stream(salt, (uint64_t)(swap ? to : from), (uint64_t)(swap ? from : to), 0);
    return chance(&draw, 25) ? 0 : chance(&draw, 25) ? most : below(&draw, most + 1);
}

static void draw_movement(case_t *c, draw_t *shared, draw_t *own, long most)
{
    int size = c->size, rank = c->rank, rooted = c->kind == GATHER || c->kind == SCATTER ||
        c->kind == GATHERV || c->kind == SCATTERV;
    int gathers = c->kind == GATHER || c->kind == GATHERV, at_root = rank == c->root;
    int scatters = c->kind == SCATTER || c->kind == SCATTERV;
    int all = c->kind == ALLTOALL || c->kind == ALLTOALLV || c->kind == ALLTOALLW;
    int varies = c->kind >= GATHERV;
    signature_t signature = draw_signature(shared);
    long bytes = draw_bytes(shared, c->kind == BCAST ? most : most / size);
    if (c->kind == ALLTOALLW && bytes > 2000)
        signature = plain_signature(); /* left to the host, which fails with gaps: see random_host.h */
    long units = bytes / signature.bytes + (bytes > 0 && below(shared, 2));
    uint64_t salt = next(shared);
    long *out = must(calloc((size_t)size + 1, sizeof *out)), *in = must(calloc((size_t)size + 1, sizeof *in));
    for (int peer = 0; peer < size; peer++) {
        /* What a rank sends or gets alone does not depend on the peer. */
        int from = rank, to = all ? peer : scatters ? peer : 0;
        out[peer] = varies ? units_between(salt, scatters ? 0 : from, to, units, c->in_place) : units;
        from = all || gathers || c->kind == ALLGATHERV ? peer : 0;
        to = all || scatters ? rank : 0;
        in[peer] = varies ? units_between(salt, from, to, units, c->in_place) : units;
    }
    int style = c->kind == ALLTOALLW ? WIDE : varies ? VECTOR : UNIFORM;
    c->style = style;
    c->sends = rooted && scatters ? at_root : c->kind != BCAST;
    c->receives = rooted && gathers ? at_root : 1;
    if (c->sends)
        c->send = make_area(&signature, all || scatters ? size : 1, out, all || scatters ? style : UNIFORM, own);
    if (c->receives)
        c->recv = make_area(&signature, c->kind == BCAST || scatters ? 1 : size, in,
                            c->kind == BCAST || scatters ? UNIFORM : style, own);
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Type_get_name(signature.base[signature.parts - 1], name, &length);
    snprintf(c->text, sizeof c->text, "%s of %ld x (%d parts, %d B, last %.30s), root %d%s",
             kind_names[c->kind], units, signature.parts, signature.bytes, name, c->root,
             c->in_place ? ", in place" : "");
    free(out);
    free(in);
}

/* Values that reduce exactly in every element of an area. */
static void write_numbers(const case_t *c, area_t *area, draw_t *own)
{
    for (long i = 0; i < area->counts[0]; i++)
        write_number(c->number, c->op, own, area->first[0] + i * area->forms[0].extent);
    memcpy(area->memory[1], area->memory[0], area->bytes);
    memcpy(area->memory[2], area->memory[0], area->bytes);
}

static void draw_reduction(case_t *c, draw_t *shared, draw_t *own, long most)
{
    const char *op;
    int scatters = c->kind == REDUCE_SCATTER || c->kind == REDUCE_SCATTER_BLOCK;
    c->number = &numbers[below(shared, number_count)];
#if !defined(OPEN_MPI)
    if (scatters && c->number->type == gapped_matrix)
        c->number--; /* MPICH writes past its memory */
#endif
    c->op = draw_operation(c->number, shared, &op);
    MPI_Aint lower, extent;
    MPI_Type_get_extent(c->number->type, &lower, &extent);
    long bytes = draw_bytes(shared, scatters ? most / c->size : most), total = 0;
    long units = bytes / extent + (bytes > 0 && below(shared, 2));
    uint64_t salt = next(shared);
    c->counts = must(calloc((size_t)c->size + 1, sizeof *c->counts));
    for (int peer = 0; peer < c->size; peer++) {
        c->counts[peer] = (int)(c->kind == REDUCE_SCATTER ? units_between(salt, peer, 0, units, 0) : units);
        total = scatters ? total + c->counts[peer] : units;
    }
    c->sends = 1;
    c->receives = c->kind != REDUCE || c->rank == c->root;
    c->results = scatters ? c->counts[c->rank] : units;
    c->send = plain_area(c->number->type, total, own);
    write_numbers(c, &c->send, own);
    if (c->receives) {
        c->recv = plain_area(c->number->type, c->in_place ? total : c->results, own);
        write_numbers(c, &c->recv, own);
    }
    snprintf(c->text, sizeof c->text, "%s of %ld %s by %s, root %d%s", kind_names[c->kind], units,
             c->number->name, op, c->root, c->in_place ? ", in place" : "");
}

/* What hosts that are in use get wrong with MPI_IN_PLACE. */
static int host_fails(const case_t *c)
{
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000
    return c->kind == REDUCE; /* from a few KB on, its address is read through */
#else
    return 0 * c->kind;
#endif
}

static void draw_case(case_t *c, MPI_Comm comm, draw_t *shared, draw_t *own, long most)
{
    memset(c, 0, sizeof *c);
    c->comm = comm;
    MPI_Comm_rank(comm, &c->rank);
    MPI_Comm_size(comm, &c->size);
    c->kind = (int)below(shared, KINDS);
#if defined(OPEN_MPI)
    if (c->kind == ALLTOALLW && c->size == 1)
        c->kind = ALLTOALL; /* reported as truncated */
#endif
    c->root = (int)below(shared, c->size);
    c->in_place = chance(shared, 25) && c->kind != BCAST && c->kind != BARRIER && !host_fails(c);
    if (c->kind == BARRIER)
        snprintf(c->text, sizeof c->text, "barrier");
    else if (c->kind < REDUCE)
        draw_movement(c, shared, own, most);
    else
        draw_reduction(c, shared, own, most);
}

static void free_case(case_t *c)
{
    free_area(&c->send, c->style);
    free_area(&c->recv, c->style);
    free(c->counts);
}

/* The call, made to `MPI_X` (ferrorail, if it is there) or to the host itself. */
#define CALL(name, ...) (host ? HOST(name)(__VA_ARGS__) : MPI_##name(__VA_ARGS__))

/* The arguments of one side. What MPI_IN_PLACE makes insignificant is nonsense. */
typedef struct {
    void *address;
    int count;
    MPI_Datatype type;
    int *counts, *displs;
    MPI_Datatype *types;
} side_t;

static side_t side(const area_t *area, int there, int in_place, int host)
{
    side_t absent = {in_place ? MPI_IN_PLACE : NOWHERE, NONSENSE, MPI_DATATYPE_NULL, NULL, NULL, NULL};
    if (!there || in_place)
        return absent;
    return (side_t){area->first[host], area->counts[0], area->types[0], area->counts, area->displs,
                    area->types};
}

static int invoke(const case_t *c, int host)
{
    int in_place = c->in_place, root = c->root;
    int gathers = c->kind == GATHER || c->kind == GATHERV || c->kind == REDUCE;
    int scatters = c->kind == SCATTER || c->kind == SCATTERV;
    side_t s = side(&c->send, c->sends, in_place && !scatters && !(gathers && c->rank != root), host);
    side_t r = side(&c->recv, c->receives, in_place && scatters && c->rank == root, host);
    int count = c->kind >= REDUCE ? c->counts[0] : 0;
    MPI_Datatype type = c->kind >= REDUCE ? c->number->type : MPI_DATATYPE_NULL;
    MPI_Comm comm = c->comm;
    switch (c->kind) {
    case BARRIER: return CALL(Barrier, comm);
    case BCAST: return CALL(Bcast, r.address, r.count, r.type, root, comm);
    case GATHER: return CALL(Gather, s.address, s.count, s.type, r.address, r.count, r.type, root, comm);
    case SCATTER: return CALL(Scatter, s.address, s.count, s.type, r.address, r.count, r.type, root, comm);
    case ALLGATHER: return CALL(Allgather, s.address, s.count, s.type, r.address, r.count, r.type, comm);
    case ALLTOALL: return CALL(Alltoall, s.address, s.count, s.type, r.address, r.count, r.type, comm);
    case GATHERV:
        return CALL(Gatherv, s.address, s.count, s.type, r.address, r.counts, r.displs, r.type, root, comm);
    case SCATTERV:
        return CALL(Scatterv, s.address, s.counts, s.displs, s.type, r.address, r.count, r.type, root, comm);
    case ALLGATHERV:
        return CALL(Allgatherv, s.address, s.count, s.type, r.address, r.counts, r.displs, r.type, comm);
    case ALLTOALLV:
        return CALL(Alltoallv, s.address, s.counts, s.displs, s.type, r.address, r.counts, r.displs, r.type,
                    comm);
    case ALLTOALLW:
        return CALL(Alltoallw, s.address, s.counts, s.displs, s.types, r.address, r.counts, r.displs,
                    r.types, comm);
    case REDUCE: return CALL(Reduce, s.address, r.address, count, type, c->op, root, comm);
    case ALLREDUCE: return CALL(Allreduce, s.address, r.address, count, type, c->op, comm);
    case REDUCE_SCATTER: return CALL(Reduce_scatter, s.address, r.address, c->counts, type, c->op, comm);
    case REDUCE_SCATTER_BLOCK:
        return CALL(Reduce_scatter_block, s.address, r.address, count, type, c->op, comm);
    case SCAN: return CALL(Scan, s.address, r.address, count, type, c->op, comm);
    default: return CALL(Exscan, s.address, r.address, count, type, c->op, comm);
    }
}

/* Offset of the first byte that differs, or -1. */
static long difference(const unsigned char *a, const unsigned char *b, size_t bytes)
{
    if (memcmp(a, b, bytes) == 0)
        return -1;
    for (size_t at = 0;; at++)
        if (a[at] != b[at])
            return (long)at;
}

/* Where the send buffer was changed, or the receive buffer is not as the host's; -1 if nowhere. */
static long wrong_at(const case_t *c, const char **buffer)
{
    *buffer = "send";
    long at = c->sends ? difference(c->send.memory[0], c->send.memory[2], c->send.bytes) : -1;
    if (at >= 0 || !c->receives)
        return at;
    *buffer = "receive";
    if (c->kind >= REDUCE) {
        MPI_Aint extent = c->recv.forms[0].extent;
        int undefined = c->kind == EXSCAN && c->rank == 0;
        for (long i = 0; i < c->recv.counts[0]; i++)
            for (int copy = 0; copy < 2; copy++) {
                unsigned char *element = c->recv.first[copy] + i * extent;
                if (undefined || i >= c->results) /* nobody says what is there */
                    memset(element, 0, (size_t)extent);
                else
                    normalise(c->number, extent, element);
            }
    }
    return difference(c->recv.memory[0], c->recv.memory[1], c->recv.bytes);
}

#endif
