/* Collectives on large buffers whose memory does not stay what it was: unmapped and mapped again at the
 * same address, as private or as shared memory; grown by realloc; given back to the system and kept;
 * freed right after the call and allocated anew for something else; and all of that while children
 * that fork() made write to their copies. Whatever is known of a buffer from an earlier call is wrong
 * then. Every byte is compared after every call, and what was allocated anew must stay as it is. With
 * TEST_SETTINGS for each of the settings, see settings.h.
 *
 *     mpirun -n P moving_memory [bytes per block, default 200000] [rounds, default 3]
 */
#define _GNU_SOURCE
#include "check.h"
#include "settings.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REMAPPED, GROWN, DISCARDED, REUSED, WAYS };
static const char *const ways[] = {"remapped", "grown", "discarded", "reused"};

enum { ALLGATHER, ALLTOALL, BCAST, GATHER, SCATTER, ALLREDUCE, ALLTOALLV, COLLECTIVES };
static const char *const names[]
    = {"allgather", "alltoall", "bcast", "gather", "scatter", "allreduce", "alltoallv"};

static int rank, ranks;
static size_t block;
static long calls, same_place;

/* A buffer, and what is in the memory that took its place. */
typedef struct {
    unsigned char *bytes; /* NULL while it is nobody's */
    size_t length;
    int shared;
    unsigned char *other;
    long other_round;
} memory_t;

static unsigned char *map_at(void *where, size_t length, int shared)
{
    int flags = MAP_ANONYMOUS | (shared ? MAP_SHARED : MAP_PRIVATE) | (where ? MAP_FIXED : 0);
    void *memory = mmap(where, length, PROT_READ | PROT_WRITE, flags, -1, 0);
    return must(memory == MAP_FAILED ? NULL : memory);
}

/* What was allocated where a buffer had been is still as it was written. */
static void look_at_other(memory_t *memory)
{
    if (memory->other == NULL)
        return;
    expect_pattern(memory->other, memory->length, memory->other_round, rank);
    free(memory->other);
    memory->other = NULL;
}

/* The buffer for the next call, of at least `length` bytes. */
static void renew(memory_t *memory, int way, size_t length)
{
    switch (way) {
    case REMAPPED:
        if (memory->bytes != NULL)
            munmap(memory->bytes, memory->length);
        if (memory->length != length)
            memory->bytes = NULL;
        memory->shared = calls % 5 < 2;
        memory->bytes = map_at(memory->bytes, length, memory->shared);
        break;
    case GROWN:
        /* Ever longer: some of it moves, some of it is extended in place. */
        memory->bytes = must(realloc(memory->bytes, length + (size_t)calls * 8192));
        break;
    case DISCARDED:
        if (memory->bytes == NULL || memory->length != length) {
            if (memory->bytes != NULL)
                munmap(memory->bytes, memory->length);
            memory->bytes = map_at(NULL, length, 0);
        } else
            madvise(memory->bytes, length, MADV_DONTNEED);
        break;
    case REUSED:
        look_at_other(memory);
        memory->bytes = must(malloc(length));
        break;
    }
    memory->length = length;
}

/* Right after the call: frees a buffer that is reused, and has something else in its place. */
static void let_go(memory_t *memory, int way)
{
    if (way != REUSED)
        return;
    unsigned char *old = memory->bytes;
    free(old);
    memory->bytes = NULL;
    memory->other = must(malloc(memory->length));
    same_place += memory->other == old;
    memory->other_round = 1000000 + calls;
    fill(memory->other, memory->length, memory->other_round, rank);
}

static void dispose(memory_t *memory, int way)
{
    look_at_other(memory);
    if (memory->bytes != NULL) {
        if (way == REMAPPED || way == DISCARDED)
            munmap(memory->bytes, memory->length);
        else
            free(memory->bytes);
    }
    memset(memory, 0, sizeof *memory);
}

static pid_t child;

static void reap(void)
{
    int status = 0;
    pid_t ended = waitpid(child, &status, 0);
    expect(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
           "the child ended otherwise, status", status, 0);
    child = 0;
}

/* Before the call. In turn there is no child, one that writes to its copies of the buffers and is
 * gone before the call, and one that goes on doing so during the call. */
static void fork_before(const memory_t *send, const memory_t *recv)
{
    long kind = calls % 3;
    if (kind == 0)
        return;
    child = fork();
    if (child < 0) {
        expect(0, "no child", 0, 0);
        return;
    }
    if (child > 0) {
        if (kind == 1)
            reap();
        return;
    }
    for (int time = 0; time < (kind == 1 ? 1 : 10); time++) {
        /* Shared memory is the parent's too. */
        if (!send->shared)
            memset(send->bytes, 0xee, send->length);
        if (!recv->shared)
            memset(recv->bytes, 0xdd, recv->length);
        if (kind == 2)
            usleep(1000);
    }
    _exit(0);
}

/* Bytes from `from` to `to` in the vector form: some large, some small, some none. */
static size_t length_of(int from, int to)
{
    size_t kind = (size_t)(from + 2 * to + calls) % 4;
    return kind == 3 ? 0 : kind == 2 ? 100 : block - (size_t)(from * 24 + to * 8);
}

static void alltoallv(memory_t *send, memory_t *recv, int way, long round)
{
    int *counts = must(calloc((size_t)ranks * 4, sizeof(int)));
    int *sends = counts, *send_at = counts + ranks, *recvs = send_at + ranks, *recv_at = recvs + ranks;
    renew(send, way, block * (size_t)ranks);
    renew(recv, way, block * (size_t)ranks);
    memset(recv->bytes, 0x5a, recv->length);
    for (int peer = 0; peer < ranks; peer++) {
        sends[peer] = (int)length_of(rank, peer);
        recvs[peer] = (int)length_of(peer, rank);
        send_at[peer] = recv_at[peer] = (int)(block * (size_t)peer);
        fill(send->bytes + send_at[peer], (size_t)sends[peer], round + peer, rank);
    }
    fork_before(send, recv);
    MPI_Alltoallv(send->bytes, sends, send_at, MPI_BYTE, recv->bytes, recvs, recv_at, MPI_BYTE,
                  world);
    for (int peer = 0; peer < ranks; peer++)
        expect_pattern(recv->bytes + recv_at[peer], (size_t)recvs[peer], round + rank, peer);
    free(counts);
}

static void allreduce(memory_t *send, memory_t *recv, int way, long round)
{
    size_t count = block / sizeof(uint32_t);
    renew(send, way, count * sizeof(uint32_t));
    renew(recv, way, count * sizeof(uint32_t));
    uint32_t *mine = (uint32_t *)(void *)send->bytes, *sum = (uint32_t *)(void *)recv->bytes;
    for (size_t at = 0; at < count; at++)
        mine[at] = pattern(round, rank, at);
    memset(sum, 0x5a, count * sizeof(uint32_t));
    fork_before(send, recv);
    MPI_Allreduce(mine, sum, (int)count, MPI_UINT32_T, MPI_SUM, world);
    size_t wrong = 0;
    for (size_t at = 0; at < count; at++) {
        uint32_t wanted = 0;
        for (int peer = 0; peer < ranks; peer++)
            wanted += pattern(round, peer, at);
        wrong += sum[at] != wanted;
    }
    expect(wrong == 0, "wrong sums", (long)wrong, 0);
}

/* The collectives that move blocks of one length. */
static void blocks(memory_t *send, memory_t *recv, int way, int collective, long round, int root)
{
    size_t all = block * (size_t)ranks;
    int count = (int)block, is_root = rank == root;
    MPI_Comm comm = world;
    int to_all = collective == ALLTOALL || collective == SCATTER;
    int from_all = collective == ALLGATHER || collective == ALLTOALL || collective == GATHER;
    renew(send, way, to_all ? all : block);
    renew(recv, way, from_all ? all : block);
    memset(recv->bytes, 0x5a, recv->length);
    fill(send->bytes, block, round, rank);
    for (int peer = 0; to_all && peer < ranks; peer++)
        fill(send->bytes + block * (size_t)peer, block, round + peer, rank);
    if (collective == BCAST && is_root)
        memcpy(recv->bytes, send->bytes, block);
    fork_before(send, recv);
    switch (collective) {
    case ALLGATHER:
        MPI_Allgather(send->bytes, count, MPI_BYTE, recv->bytes, count, MPI_BYTE, comm);
        break;
    case ALLTOALL:
        MPI_Alltoall(send->bytes, count, MPI_BYTE, recv->bytes, count, MPI_BYTE, comm);
        break;
    case BCAST:
        MPI_Bcast(recv->bytes, count, MPI_BYTE, root, comm);
        break;
    case GATHER:
        MPI_Gather(send->bytes, count, MPI_BYTE, recv->bytes, count, MPI_BYTE, root, comm);
        break;
    case SCATTER:
        MPI_Scatter(send->bytes, count, MPI_BYTE, recv->bytes, count, MPI_BYTE, root, comm);
        break;
    }
    if (collective == BCAST || collective == SCATTER)
        expect_pattern(recv->bytes, block, collective == SCATTER ? round + rank : round, root);
    else if (collective != GATHER || is_root)
        for (int peer = 0; peer < ranks; peer++)
            expect_pattern(recv->bytes + block * (size_t)peer, block,
                           collective == ALLTOALL ? round + rank : round, peer);
}

static void call(memory_t *send, memory_t *recv, int way, int collective, int root)
{
    long round = ++calls * 64;
    snprintf(context, sizeof context, "call %ld: %s, buffers %s", calls, names[collective], ways[way]);
    if (collective == ALLTOALLV)
        alltoallv(send, recv, way, round);
    else if (collective == ALLREDUCE)
        allreduce(send, recv, way, round);
    else
        blocks(send, recv, way, collective, round, root);
    let_go(send, way);
    let_go(recv, way);
    if (child > 0)
        reap();
}

/* All of it with the present settings. */
static void check(long rounds)
{
    memory_t send[WAYS], recv[WAYS];
    memset(send, 0, sizeof send);
    memset(recv, 0, sizeof recv);
    calls = 0;
    for (long round = 0; round < rounds; round++)
        for (int collective = 0; collective < COLLECTIVES; collective++)
            for (int way = 0; way < WAYS; way++)
                for (int again = 0; again < 2; again++)
                    call(&send[way], &recv[way], way, collective, (int)(calls % ranks));
    for (int way = 0; way < WAYS; way++) {
        dispose(&send[way], way);
        dispose(&recv[way], way);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    block = argc > 1 ? (size_t)atol(argv[1]) : 200000;
    long rounds = argc > 2 ? atol(argv[2]) : 3;
    while (next_settings())
        check(rounds);
    expect(same_place > 0, "no freed buffer's place was taken by another", 0, 0);
    return finish("moving_memory");
}
