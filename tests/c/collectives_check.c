/* MPI_Barrier, MPI_Bcast, MPI_Gather, MPI_Scatter and MPI_Alltoall, checked byte by byte: every
 * root, predefined and derived types, another layout on each rank, MPI_IN_PLACE, arguments that are
 * significant at the root alone, zero counts, sizes up to some MB, sub-communicators in odd orders,
 * MPI_COMM_SELF, an inter-communicator, many broadcasts with a slow receiver, and all of them (and
 * MPI_Allgather) in random order, for each of TEST_SETTINGS (settings.h).
 *
 *     mpirun -n P collectives_check [largest block in bytes, default 1000000] [seed, default 1]
 *         [short broadcasts, default 20000] [types: every so many-th, default 1]
 */
#include "clock.h"
#include "layout.h"
#include "settings.h"

#include <unistd.h>

static long rounds;
static layout_t types[16]; /* of 24 bytes each */
static int type_count;
static unsigned stride; /* from one tried type to the next */

/* Passed where an argument is not significant: whoever looks at it fails. */
#define NOWHERE ((void *)64), -5, MPI_DATATYPE_NULL

/* What one rank passes for one side. */
typedef struct {
    const layout_t *layout;
    long count;
} side_t;

/* Memory of a number of blocks, and what has to be there after the call. */
typedef struct {
    side_t side;
    unsigned char *all, *first, *wanted;
    size_t bytes;
} memory_t;

static memory_t memory_of(side_t side, int blocks)
{
    memory_t memory = {.side = side};
    memory.all = elements(side.layout, side.count * blocks, &memory.first, &memory.bytes);
    memory.wanted = must(malloc(memory.bytes));
    memcpy(memory.wanted, memory.all, memory.bytes);
    return memory;
}

/* Block `block` contains contribution `from`, before the call and after it. */
static void has(memory_t *memory, int block, int from)
{
    const side_t *side = &memory->side;
    put(side->layout, memory->first, block * side->count, side->count, rounds, from);
    put(side->layout, memory->wanted + (memory->first - memory->all), block * side->count,
        side->count, rounds, from);
}

/* Block `block` gets contribution `from`. */
static void gets(memory_t *memory, int block, int from)
{
    const side_t *side = &memory->side;
    put(side->layout, memory->wanted + (memory->first - memory->all), block * side->count,
        side->count, rounds, from);
}

static void verify(memory_t *memory, const char *which)
{
    expect(memcmp(memory->all, memory->wanted, memory->bytes) == 0, which, (long)memory->bytes, 0);
    free(memory->all);
    free(memory->wanted);
}

static void begin(const char *name, MPI_Comm comm, int root, side_t send, side_t recv, int in_place)
{
    int size;
    MPI_Comm_size(comm, &size);
    snprintf(context, sizeof context, "round %ld: %s, %ld %s to %ld %s%s, root %d of %d", ++rounds,
             name, send.count, send.layout->name, recv.count, recv.layout->name,
             in_place ? " in place" : "", root, size);
}

static void bcast(MPI_Comm comm, int root, side_t side)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    begin("bcast", comm, root, side, side, 0);
    memory_t buffer = memory_of(side, 1);
    if (rank == root)
        has(&buffer, 0, root);
    else
        gets(&buffer, 0, root);
    int code = MPI_Bcast(buffer.first, (int)side.count, side.layout->type, root, comm);
    expect(code == MPI_SUCCESS, "code", code, 0);
    verify(&buffer, "buffer or its gaps");
}

static void gather(MPI_Comm comm, int root, side_t send, side_t recv, int in_place)
{
    int rank, size, code;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    begin("gather", comm, root, send, recv, in_place);
    memory_t from = memory_of(send, 1), to = memory_of(recv, size);
    has(&from, 0, rank);
    for (int peer = 0; peer < size && rank == root; peer++)
        gets(&to, peer, peer);
    if (rank == root && in_place)
        has(&to, rank, rank);
    int send_count = (int)send.count, recv_count = (int)recv.count;
    if (rank != root)
        code = MPI_Gather(from.first, send_count, send.layout->type, NOWHERE, root, comm);
    else if (in_place)
        code = MPI_Gather(MPI_IN_PLACE, -7, MPI_DATATYPE_NULL, to.first, recv_count,
                          recv.layout->type, root, comm);
    else
        code = MPI_Gather(from.first, send_count, send.layout->type, to.first, recv_count,
                          recv.layout->type, root, comm);
    expect(code == MPI_SUCCESS, "code", code, 0);
    verify(&from, "send buffer changed");
    verify(&to, "receive buffer or its gaps");
}

static void scatter(MPI_Comm comm, int root, side_t send, side_t recv, int in_place)
{
    int rank, size, code;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    begin("scatter", comm, root, send, recv, in_place);
    memory_t from = memory_of(send, size), to = memory_of(recv, 1);
    for (int peer = 0; peer < size && rank == root; peer++)
        has(&from, peer, peer);
    if (rank != root || !in_place)
        gets(&to, 0, rank);
    int send_count = (int)send.count, recv_count = (int)recv.count;
    if (rank != root)
        code = MPI_Scatter(NOWHERE, to.first, recv_count, recv.layout->type, root, comm);
    else if (in_place)
        code = MPI_Scatter(from.first, send_count, send.layout->type, MPI_IN_PLACE, -7,
                           MPI_DATATYPE_NULL, root, comm);
    else
        code = MPI_Scatter(from.first, send_count, send.layout->type, to.first, recv_count,
                           recv.layout->type, root, comm);
    expect(code == MPI_SUCCESS, "code", code, 0);
    verify(&from, "send buffer changed");
    verify(&to, "receive buffer or its gaps");
}

/* All-to-all, or all-gather: there, rank j gets the same of rank i as everybody. */
static void exchange(int alltoall, MPI_Comm comm, side_t send, side_t recv, int in_place)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    begin(alltoall ? "alltoall" : "allgather", comm, 0, send, recv, in_place);
    memory_t from = memory_of(send, alltoall ? size : 1), to = memory_of(recv, size);
    for (int peer = 0; peer < size; peer++)
        gets(&to, peer, alltoall ? peer * size + rank : peer);
    for (int block = 0; block < (alltoall ? size : 1); block++)
        has(&from, block, alltoall ? rank * size + block : rank);
    for (int block = 0; block < size && in_place; block++)
        if (alltoall || block == rank)
            put(recv.layout, to.first, block * recv.count, recv.count, rounds,
                alltoall ? rank * size + block : rank);
    const void *address = in_place ? MPI_IN_PLACE : from.first;
    int count = in_place ? -7 : (int)send.count;
    MPI_Datatype type = in_place ? MPI_DATATYPE_NULL : send.layout->type;
    int code = (alltoall ? MPI_Alltoall : MPI_Allgather)(address, count, type, to.first,
                                                         (int)recv.count, recv.layout->type, comm);
    expect(code == MPI_SUCCESS, "code", code, 0);
    verify(&from, "send buffer changed");
    verify(&to, "receive buffer or its gaps");
}

/* Nobody leaves before the last one, `late`, has entered. */
static void barrier(MPI_Comm comm, int late)
{
    int rank, size;
    double entered, left, last, first;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    snprintf(context, sizeof context, "round %ld: barrier, rank %d of %d late", ++rounds, late,
             size);
    /* Long enough to show, whatever the clocks are worth. */
    if (rank == late)
        usleep(2000 + (useconds_t)(4e6 * clock_error));
    entered = now();
    int code = MPI_Barrier(comm);
    left = now();
    expect(code == MPI_SUCCESS, "code", code, 0);
    MPI_Allreduce(&entered, &last, 1, MPI_DOUBLE, MPI_MAX, comm);
    MPI_Allreduce(&left, &first, 1, MPI_DOUBLE, MPI_MIN, comm);
    expect(first + 2 * clock_error >= last, "somebody left before somebody entered, by ns",
           (long)((last - first) * 1e9), 0);
}

/* All five, from and to every root, for these sides. */
static void everything(MPI_Comm comm, side_t send, side_t recv)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int root = 0; root < size; root++) {
        bcast(comm, root, rank == root ? send : recv);
        for (int in_place = 0; in_place < 2; in_place++) {
            gather(comm, root, send, recv, in_place);
            scatter(comm, root, send, recv, in_place);
        }
    }
    exchange(1, comm, send, recv, 0);
    exchange(1, comm, send, recv, 1);
}

static void predefined(MPI_Comm comm)
{
    const struct { const char *name; MPI_Datatype type; } all[] = {
        {"MPI_CHAR", MPI_CHAR}, {"MPI_SHORT", MPI_SHORT}, {"MPI_INT", MPI_INT},
        {"MPI_LONG", MPI_LONG}, {"MPI_DOUBLE", MPI_DOUBLE}, {"MPI_SHORT_INT", MPI_SHORT_INT},
        {"MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX}, {"MPI_DOUBLE_INT", MPI_DOUBLE_INT},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i += stride) {
        layout_t layout = describe(all[i].name, all[i].type);
        for (long count = 0; count <= 100; count = count * 10 + 1)
            everything(comm, (side_t){&layout, count}, (side_t){&layout, count});
        free(layout.place);
    }
}

/* A side of `units` * 24 bytes: derived or plain, by `choice`. */
static side_t side_of(const layout_t *ints, long units, unsigned choice)
{
    unsigned which = choice % (unsigned)(type_count + 1);
    if (which == (unsigned)type_count)
        return (side_t){ints, units * 6};
    return (side_t){&types[which], units};
}

/* The ranks have the same amounts of data, in other places. */
static void derived(MPI_Comm comm)
{
    layout_t ints = describe("MPI_INT", MPI_INT);
    int rank;
    MPI_Comm_rank(comm, &rank);
    for (unsigned a = 0; a <= (unsigned)type_count; a += stride)
        for (long units = 0; units <= 500; units = units * 9 + 1) {
            unsigned mine = a + (unsigned)rank;
            everything(comm, side_of(&ints, units, mine), side_of(&ints, units, a + 3 * mine));
        }
    free(ints.place);
}

static void sizes(MPI_Comm comm, long largest)
{
    layout_t bytes = describe("MPI_BYTE", MPI_BYTE);
    int size, step = 0;
    MPI_Comm_size(comm, &size);
    for (long block = 0; block <= largest; block = block * 4 + 1, step++) {
        side_t side = {&bytes, block}, less = {&bytes, block / 4};
        bcast(comm, step % size, side);
        gather(comm, (step + 1) % size, side, side, step % 2);
        scatter(comm, (step + 2) % size, side, side, step % 2);
        exchange(1, comm, less, less, step % 2);
    }
    bcast(comm, size - 1, (side_t){&bytes, largest});
    gather(comm, size - 1, (side_t){&bytes, largest}, (side_t){&bytes, largest}, 0);
    scatter(comm, size - 1, (side_t){&bytes, largest}, (side_t){&bytes, largest}, 0);
    free(bytes.place);
}

/* A root need not wait for its receivers: a slow one must still see every message. */
static void many_broadcasts(uint64_t count, int rotate)
{
    int rank, ranks, wrong = 0;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    snprintf(context, sizeof context, "%ld broadcasts%s", (long)count,
             rotate ? ", other roots" : "");
    for (uint64_t i = 0; i < count; i++) {
        int root = rotate ? (int)(i / 7 % (uint64_t)ranks) : 0;
        uint64_t wanted = i * 0x9e3779b97f4a7c15u + 1, got = rank == root ? wanted : 0;
        if (rank == ranks - 1 && i % 997 == 500)
            usleep(1000);
        MPI_Bcast(&got, 8, MPI_BYTE, root, world);
        wrong += got != wanted;
    }
    expect(wrong == 0, "wrong broadcasts", wrong, 0);
}

static unsigned draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33);
}

/* All ranks draw alike; what may differ between ranks depends on the rank as well. */
static void mixed(MPI_Comm *comms, int comm_count, uint64_t seed)
{
    layout_t ints = describe("MPI_INT", MPI_INT);
    const long units[] = {0, 1, 1, 2, 5, 40, 300, 3000};
    rounds = 1000000; /* smaller communicators had fewer */
    for (int i = 0; i < 400; i++) {
        MPI_Comm comm = comms[draw(&seed) % (unsigned)comm_count];
        unsigned kind = draw(&seed) % 6, choice = draw(&seed), in_place = draw(&seed) % 4 == 0;
        long amount = units[draw(&seed) % 8];
        unsigned draw_root = draw(&seed);
        int rank, size;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        int root = (int)(draw_root % (unsigned)size);
        unsigned mine = choice / 16 + (choice % 2 ? 0 : (unsigned)rank);
        side_t send = side_of(&ints, amount, mine), recv = side_of(&ints, amount, mine / 3);
        if (kind == 0)
            MPI_Barrier(comm);
        else if (kind == 1)
            bcast(comm, root, send);
        else if (kind == 2)
            gather(comm, root, send, recv, (int)in_place);
        else if (kind == 3)
            scatter(comm, root, send, recv, (int)in_place);
        else
            exchange(kind == 4, comm, send, recv, (int)in_place);
    }
    free(ints.place);
}

/* What is left to the host: one group's rank 0 is the root, the others of its group say so. */
static void inter_communicator(void)
{
    int rank, ranks, mine[1], got[64];
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    if (ranks < 2)
        return;
    int low = rank < ranks / 2, remote, own;
    MPI_Comm half, both;
    MPI_Comm_split(world, low, rank, &half);
    MPI_Intercomm_create(half, 0, world, low ? ranks / 2 : 0, 3, &both);
    MPI_Comm_rank(half, &own);
    MPI_Comm_remote_size(both, &remote);
    snprintf(context, sizeof context, "inter-communicator");
    int root = low ? (own == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
    MPI_Barrier(both);
    mine[0] = low && own == 0 ? 4711 : 0;
    MPI_Bcast(mine, 1, MPI_INT, root, both);
    expect(low || mine[0] == 4711, "broadcast", mine[0], 4711);
    mine[0] = rank;
    MPI_Gather(mine, 1, MPI_INT, got, 1, MPI_INT, root, both);
    for (int i = 0; i < remote && root == MPI_ROOT; i++)
        expect(got[i] == ranks / 2 + i, "gather", got[i], i);
    for (int i = 0; i < remote; i++)
        got[i] = 100 + i;
    MPI_Scatter(got, 1, MPI_INT, mine, 1, MPI_INT, root, both);
    expect(low || mine[0] == 100 + own, "scatter", mine[0], own);
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

/* All of it with the present settings. */
static void check(long largest, uint64_t seed, uint64_t broadcasts)
{
    int rank, ranks;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    MPI_Comm comms[3] = {world};
    MPI_Comm_split(world, 0, ranks - rank, &comms[1]);
    MPI_Comm_split(world, rank % 2, rank, &comms[2]);
    within(comms[1]);
    within(comms[2]);
    rounds = 0;
    agree_on_clock(); /* clocks of busy emulated machines drift apart by more than its error */
    for (int late = 0; late < ranks; late++)
        barrier(world, late);
    barrier(comms[1], 0);
    predefined(world);
    derived(world);
    sizes(world, largest);
    for (int i = 1; i < 3; i++)
        predefined(comms[i]);
    predefined(MPI_COMM_SELF);
    derived(MPI_COMM_SELF);
    many_broadcasts(broadcasts / 2, 0);
    many_broadcasts(broadcasts / 2, 1);
    mixed(comms, 3, seed);
    inter_communicator();
    MPI_Comm_free(&comms[1]);
    MPI_Comm_free(&comms[2]);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    long largest = argc > 1 ? atol(argv[1]) : 1000000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint64_t broadcasts = argc > 3 ? strtoull(argv[3], NULL, 10) : 20000;
    stride = argc > 4 ? (unsigned)atoi(argv[4]) : 1;
    type_count = derived_types(types);
    while (next_settings())
        check(largest, seed, broadcasts);
    for (int i = 0; i < type_count; i++) {
        free(types[i].place);
        MPI_Type_free(&types[i].type);
    }
    return finish("collectives_check");
}
