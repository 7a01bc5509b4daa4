/* What comm_random knows of its communicators, and the calls that it makes on them. */
#ifndef COMM_MODEL_H
#define COMM_MODEL_H

#include "random_data.h"

enum { RANKS = 16, COMMS = 24, MOST_BYTES = 20000, TAG = 5 };

/* A communicator and what it must be. `order[i]` is the world rank of its rank i. */
typedef struct {
    MPI_Comm handle; /* MPI_COMM_NULL on ranks that are not in it */
    int size, order[RANKS];
    int live, callback; /* has an attribute whose delete callback communicates */
    long value;         /* of that attribute */
} member_t;

static member_t table[COMMS];
static int world_rank, world_size, threads_allowed, delete_key, deletions;
static long round_number;

static int rank_in(const member_t *comm, int world)
{
    for (int i = 0; i < comm->size; i++)
        if (comm->order[i] == world)
            return i;
    return -1;
}

static int on_copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int on_delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int one = 1, sum = 0, ranks;
    (void)keyval, (void)extra;
    MPI_Comm_size(comm, &ranks);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(sum == ranks, "a sum in a delete callback", sum, ranks);
    expect(((member_t *)value)->live, "the attribute of a communicator", 0, 0);
    deletions++;
    return MPI_SUCCESS;
}

static void check_members(const member_t *comm)
{
    int rank, size, mine = rank_in(comm, world_rank);
    expect((mine >= 0) == (comm->handle != MPI_COMM_NULL), "membership", mine, comm->size);
    if (mine < 0 || comm->handle == MPI_COMM_NULL)
        return;
    MPI_Comm_rank(comm->handle, &rank);
    MPI_Comm_size(comm->handle, &size);
    expect(rank == mine && size == comm->size, "rank and size", rank, size);
}

/* One collective call on a communicator: what it brings is known. */
static void call(const member_t *comm, int kind, int root, long bytes, long round)
{
    MPI_Comm c = comm->handle;
    int mine = rank_in(comm, world_rank), size = comm->size;
    size_t all = (size_t)(bytes * size) + 1;
    unsigned char *out = must(malloc(all)), *in = must(calloc(all, 1));
    fill(out, (size_t)bytes, round, comm->order[mine]);
    int value = comm->order[mine] + 1, sum = 0, wanted = 0;
    for (int i = 0; i < size; i++)
        wanted += comm->order[i] + 1;
    switch (kind) {
    case 0:
        MPI_Bcast(out, (int)bytes, MPI_BYTE, root, c);
        expect_pattern(out, (size_t)bytes, round, comm->order[root]);
        break;
    case 1:
    case 2:
        if (kind == 1)
            MPI_Allgather(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, c);
        else
            MPI_Gather(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, root, c);
        for (int i = 0; i < size && (kind == 1 || mine == root); i++)
            expect_pattern(in + i * bytes, (size_t)bytes, round, comm->order[i]);
        break;
    case 3:
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, c);
        expect(sum == wanted, "a sum over all", sum, wanted);
        break;
    case 4:
        MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, root, c);
        expect(mine != root || sum == wanted, "a sum at the root", sum, wanted);
        break;
    case 5:
        for (int i = 0; i < size; i++)
            fill(out + i * bytes, (size_t)bytes, round, comm->order[mine] * RANKS + comm->order[i]);
        MPI_Alltoall(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, c);
        for (int i = 0; i < size; i++)
            expect_pattern(in + i * bytes, (size_t)bytes, round, comm->order[i] * RANKS + comm->order[mine]);
        break;
    case 6:
        for (int i = 0; i < size && mine == root; i++)
            fill(out + i * bytes, (size_t)bytes, round, comm->order[i]);
        MPI_Scatter(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, root, c);
        expect_pattern(in, (size_t)bytes, round, comm->order[mine]);
        break;
    default:
        MPI_Barrier(c);
    }
    free(out);
    free(in);
}

/* Some calls on a communicator, drawn from its own stream, so that threads do not share one. */
static void use(const member_t *comm, draw_t draw, long round)
{
    int calls = 1 + (int)below(&draw, 6);
    for (int i = 0; i < calls; i++) {
        int kind = (int)below(&draw, 8), root = (int)below(&draw, comm->size);
        long bytes = chance(&draw, 70) ? below(&draw, 200) : below(&draw, MOST_BYTES);
        if (comm->handle != MPI_COMM_NULL)
            call(comm, kind, root, bytes, round * 8 + i);
    }
}

#endif
