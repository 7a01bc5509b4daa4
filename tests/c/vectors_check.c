/* The vector forms: MPI_Allgatherv, MPI_Gatherv, MPI_Scatterv, MPI_Alltoallv with blocks of every
 * size, among them none, in any order with gaps, of types that differ between ranks. With TEST_SETTINGS
 * for each of the settings, see settings.h.
 *
 *     mpirun -n P vectors_check [largest block in bytes, default 400000] [seed, default 1]
 *                               [rounds on the world, default 30]
 */
#include "layout.h"
#include "settings.h"

static long rounds, largest;
static layout_t types[16], ints;
static int type_count;
static uint64_t seed;

static unsigned mix(uint64_t value)
{
    value = (value ^ seed) * 0x9e3779b97f4a7c15u;
    value ^= value >> 29;
    value *= 0xbf58476d1ce4e5b9u;
    return (unsigned)(value >> 33);
}

/* Units of 24 bytes that `from` has for `to` in this round. */
static long units(int from, int to)
{
    const long most = largest / 24 + 1;
    const long all[] = {0, 1, 0, 2, 3, 40, 1, 300, 0, 1500, 5000, most};
    unsigned reach = 4 + mix((uint64_t)rounds) % 9;
    long amount = all[mix(((uint64_t)rounds << 32) + (uint64_t)from * 1000 + (uint64_t)to) % reach];
    return amount < most ? amount : most;
}

/* Derived or plain, by `choice`; `per_unit` elements have the data of a unit. */
static const layout_t *layout_of(unsigned choice, int *per_unit)
{
    unsigned which = choice % (unsigned)(2 * type_count);
    *per_unit = which < (unsigned)type_count ? 1 : 6;
    return which < (unsigned)type_count ? &types[which] : &ints;
}

/* A buffer of blocks, their tables, and what has to be there after the call. */
typedef struct {
    const layout_t *layout;
    int blocks, counts[64], displacements[64];
    unsigned char *all, *first, *wanted;
    size_t bytes;
} memory_t;

/* Blocks lie in falling or rising order, with gaps of whole elements. */
static memory_t memory_of(unsigned choice, int blocks, const long *amounts)
{
    memory_t memory = {.blocks = blocks};
    int per_unit, next = 1, falling = choice / 64 % 2, gap = (int)(choice / 128 % 3);
    memory.layout = layout_of(choice, &per_unit);
    for (int i = 0; i < blocks; i++) {
        int block = falling ? blocks - 1 - i : i;
        memory.counts[block] = (int)amounts[block] * per_unit;
        memory.displacements[block] = next;
        next += memory.counts[block] + gap;
    }
    memory.all = elements(memory.layout, next, &memory.first, &memory.bytes);
    memory.wanted = must(malloc(memory.bytes));
    memcpy(memory.wanted, memory.all, memory.bytes);
    return memory;
}

static void write_block(memory_t *memory, unsigned char *first, int block, int contribution)
{
    unsigned char *start = first + memory->displacements[block] * memory->layout->extent;
    put(memory->layout, start, 0, memory->counts[block], rounds, contribution);
}

/* Block `block` contains `contribution` before the call and after it. */
static void has(memory_t *memory, int block, int contribution)
{
    write_block(memory, memory->first, block, contribution);
    write_block(memory, memory->wanted + (memory->first - memory->all), block, contribution);
}

static void gets(memory_t *memory, int block, int contribution)
{
    write_block(memory, memory->wanted + (memory->first - memory->all), block, contribution);
}

static void *at(const memory_t *memory, int block)
{
    return memory->first + memory->displacements[block] * memory->layout->extent;
}

static void verify(memory_t *memory, const char *which)
{
    expect(memcmp(memory->all, memory->wanted, memory->bytes) == 0, which, (long)memory->bytes, 0);
    free(memory->all);
    free(memory->wanted);
}

static void one_to_all(int gather, MPI_Comm comm, int root, int in_place)
{
    int rank, size, code;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    snprintf(context, sizeof context, "round %ld: %s%s, root %d of %d", ++rounds,
             gather ? "gatherv" : "scatterv", in_place ? " in place" : "", root, size);
    long amounts[64], own[1] = {units(rank, root)};
    for (int peer = 0; peer < size; peer++)
        amounts[peer] = units(peer, root);
    unsigned choice = mix((uint64_t)(rounds * 100 + rank));
    memory_t mine = memory_of(choice, 1, own), all = memory_of(choice / 7, size, amounts);
    int moves = rank != root || !in_place;
    for (int peer = 0; peer < size && rank == root; peer++)
        gather ? gets(&all, peer, peer) : has(&all, peer, peer);
    if (gather)
        has(&mine, 0, rank);
    else if (moves)
        gets(&mine, 0, rank);
    if (gather && !moves)
        has(&all, rank, rank);
    int *counts = rank == root ? all.counts : NULL, *where = rank == root ? all.displacements : NULL;
    void *many = rank == root ? all.first : NULL, *one = moves ? at(&mine, 0) : MPI_IN_PLACE;
    MPI_Datatype type = rank == root ? all.layout->type : MPI_DATATYPE_NULL;
    MPI_Datatype own_type = moves ? mine.layout->type : MPI_DATATYPE_NULL;
    if (gather)
        code = MPI_Gatherv(one, mine.counts[0], own_type, many, counts, where, type, root, comm);
    else
        code = MPI_Scatterv(many, counts, where, type, one, mine.counts[0], own_type, root, comm);
    expect(code == MPI_SUCCESS, "code", code, 0);
    verify(&mine, "own buffer or its gaps");
    verify(&all, "the root's buffer or its gaps");
}

static void allgatherv(MPI_Comm comm, int in_place)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    snprintf(context, sizeof context, "round %ld: allgatherv%s of %d", ++rounds,
             in_place ? " in place" : "", size);
    long amounts[64];
    for (int peer = 0; peer < size; peer++)
        amounts[peer] = units(peer, 0);
    unsigned choice = mix((uint64_t)(rounds * 100 + rank));
    memory_t mine = memory_of(choice, 1, &amounts[rank]), all = memory_of(choice / 7, size, amounts);
    has(&mine, 0, rank);
    for (int peer = 0; peer < size; peer++)
        gets(&all, peer, peer);
    if (in_place)
        has(&all, rank, rank);
    int code = MPI_Allgatherv(in_place ? MPI_IN_PLACE : at(&mine, 0), in_place ? -3 : mine.counts[0],
                              in_place ? MPI_DATATYPE_NULL : mine.layout->type, all.first,
                              all.counts, all.displacements, all.layout->type, comm);
    expect(code == MPI_SUCCESS, "code", code, 0);
    verify(&mine, "send buffer changed");
    verify(&all, "receive buffer or its gaps");
}

static void alltoallv(MPI_Comm comm, int in_place)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    snprintf(context, sizeof context, "round %ld: alltoallv%s of %d", ++rounds,
             in_place ? " in place" : "", size);
    long sent[64], received[64];
    for (int peer = 0; peer < size; peer++) {
        /* In place both directions of a pair have one length. */
        int swap = in_place && peer < rank;
        sent[peer] = swap ? units(peer, rank) : units(rank, peer);
        received[peer] = in_place ? sent[peer] : units(peer, rank);
    }
    unsigned choice = mix((uint64_t)(rounds * 100 + rank));
    memory_t from = memory_of(choice, size, sent), to = memory_of(choice / 7, size, received);
    for (int peer = 0; peer < size; peer++) {
        has(&from, peer, rank * size + peer);
        gets(&to, peer, peer * size + rank);
        if (in_place)
            write_block(&to, to.first, peer, rank * size + peer);
    }
    int code = in_place ? MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, to.first,
                                        to.counts, to.displacements, to.layout->type, comm)
                        : MPI_Alltoallv(from.first, from.counts, from.displacements,
                                        from.layout->type, to.first, to.counts, to.displacements,
                                        to.layout->type, comm);
    expect(code == MPI_SUCCESS, "code", code, 0);
    verify(&from, "send buffer changed");
    verify(&to, "receive buffer or its gaps");
}

static void everything(MPI_Comm comm, int repeat)
{
    int size;
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < repeat; i++)
        for (int in_place = 0; in_place < 2; in_place++) {
            one_to_all(1, comm, i % size, in_place);
            one_to_all(0, comm, (i + 1) % size, in_place);
            allgatherv(comm, in_place);
            alltoallv(comm, in_place);
        }
    for (int i = 0; i < 3 * repeat; i++)
        one_to_all(i % 2, comm, 0, 0);
}

/* All of it with the present settings. */
static void check(int repeat)
{
    int rank, ranks;
    MPI_Comm reversed, half;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    MPI_Comm_split(world, 0, ranks - rank, &reversed);
    MPI_Comm_split(world, rank % 2, rank, &half);
    rounds = 0;
    everything(world, repeat);
    rounds = 1000;
    everything(within(reversed), (repeat + 2) / 3);
    rounds = 2000;
    everything(within(half), (repeat + 2) / 3);
    rounds = 3000;
    everything(MPI_COMM_SELF, (repeat + 5) / 6);
    MPI_Comm_free(&reversed);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    largest = argc > 1 ? atol(argv[1]) : 400000;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int repeat = argc > 3 ? atoi(argv[3]) : 30;
    type_count = derived_types(types);
    ints = describe("MPI_INT", MPI_INT);
    while (next_settings())
        check(repeat);
    for (int i = 0; i < type_count; i++) {
        free(types[i].place);
        MPI_Type_free(&types[i].type);
    }
    free(ints.place);
    return finish("vectors_check");
}
