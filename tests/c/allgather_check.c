/* MPI_Allgather with every kind of argument, checked byte by byte:
 * predefined types (pairs with gaps included), derived types (contiguous, vector, indexed in
 * another order, resized, struct), different layouts on both sides, MPI_IN_PLACE, zero counts, sizes
 * up to some MB, sub-communicators in odd shapes and orders, MPI_COMM_SELF, an inter-communicator,
 * and many communicators made and freed. With TEST_SETTINGS for each of the settings, see settings.h.
 *
 *     mpirun -n P allgather_check [largest block in bytes, default 1000000]
 */
#include "layout.h"
#include "settings.h"

#include <dirent.h>

static long rounds;

/* One call; both sides may differ in type and count, not in bytes. */
static void gather(MPI_Comm comm, const layout_t *send, long send_count, const layout_t *recv,
                   long recv_count, int in_place)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    long round = ++rounds;
    snprintf(context, sizeof context, "round %ld: %ld %s to %ld %s%s, %d ranks", round, send_count,
             send->name, recv_count, recv->name, in_place ? " in place" : "", size);
    unsigned char *from, *to;
    size_t from_bytes, to_bytes;
    unsigned char *sent = elements(send, send_count, &from, &from_bytes);
    unsigned char *got = elements(recv, recv_count * size, &to, &to_bytes);
    unsigned char *wanted = must(malloc(to_bytes));
    memcpy(wanted, got, to_bytes);
    for (int peer = 0; peer < size; peer++)
        put(recv, wanted + (to - got), peer * recv_count, recv_count, round, peer);
    put(send, from, 0, send_count, round, rank);
    if (in_place)
        put(recv, to, rank * recv_count, recv_count, round, rank);
    unsigned char *sent_before = must(malloc(from_bytes));
    memcpy(sent_before, sent, from_bytes);
    int code = in_place
        ? MPI_Allgather(MPI_IN_PLACE, -7, MPI_DATATYPE_NULL, to, (int)recv_count, recv->type, comm)
        : MPI_Allgather(from, (int)send_count, send->type, to, (int)recv_count, recv->type, comm);
    expect(code == MPI_SUCCESS, "code", code, 0);
    expect(memcmp(got, wanted, to_bytes) == 0, "receive buffer or its gaps", (long)to_bytes, 0);
    expect(memcmp(sent, sent_before, from_bytes) == 0, "send buffer changed", (long)from_bytes, 0);
    free(sent);
    free(got);
    free(wanted);
    free(sent_before);
}

static void predefined(MPI_Comm comm)
{
    const struct { const char *name; MPI_Datatype type; } all[] = {
#define T(type) {#type, type}
        T(MPI_CHAR), T(MPI_SIGNED_CHAR), T(MPI_UNSIGNED_CHAR), T(MPI_BYTE), T(MPI_WCHAR),
        T(MPI_SHORT), T(MPI_UNSIGNED_SHORT), T(MPI_INT), T(MPI_UNSIGNED), T(MPI_LONG),
        T(MPI_UNSIGNED_LONG), T(MPI_LONG_LONG_INT), T(MPI_UNSIGNED_LONG_LONG), T(MPI_FLOAT),
        T(MPI_DOUBLE), T(MPI_LONG_DOUBLE), T(MPI_PACKED), T(MPI_INT8_T), T(MPI_INT16_T),
        T(MPI_INT32_T), T(MPI_INT64_T), T(MPI_UINT8_T), T(MPI_UINT16_T), T(MPI_UINT32_T),
        T(MPI_UINT64_T), T(MPI_AINT), T(MPI_OFFSET), T(MPI_COUNT), T(MPI_C_BOOL),
        T(MPI_C_FLOAT_COMPLEX), T(MPI_C_DOUBLE_COMPLEX), T(MPI_C_LONG_DOUBLE_COMPLEX),
        T(MPI_FLOAT_INT), T(MPI_DOUBLE_INT), T(MPI_LONG_INT), T(MPI_2INT), T(MPI_SHORT_INT),
        T(MPI_LONG_DOUBLE_INT),
#undef T
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        layout_t layout = describe(all[i].name, all[i].type);
        for (long count = 1; count <= 100; count *= 10)
            gather(comm, &layout, count, &layout, count, 0);
        gather(comm, &layout, 3, &layout, 3, 1);
        gather(comm, &layout, 0, &layout, 0, 0);
        free(layout.place);
    }
}

static void derived(MPI_Comm comm)
{
    layout_t types[16], ints = describe("MPI_INT", MPI_INT);
    int n = derived_types(types);
    for (int a = 0; a < n; a++) {
        snprintf(context, sizeof context, "%s", types[a].name);
        expect(types[a].bytes == 24, "bytes of data", types[a].bytes, 24);
        for (int b = 0; b < n; b++) {
            gather(comm, &types[a], 1, &types[b], 1, 0);
            gather(comm, &types[a], 7, &types[b], 7, 0);
        }
        gather(comm, &types[a], 5, &types[a], 5, 1);
        gather(comm, &types[a], 0, &types[a], 0, 0);
        gather(comm, &types[a], 4, &ints, 24, 0);
        gather(comm, &ints, 24, &types[a], 4, 0);
        gather(comm, &types[a], 2000, &types[a], 2000, 0);
    }
    for (int a = 0; a < n; a++) {
        free(types[a].place);
        MPI_Type_free(&types[a].type);
    }
    free(ints.place);
}

static void sizes(MPI_Comm comm, long largest)
{
    layout_t bytes = describe("MPI_BYTE", MPI_BYTE), doubles = describe("MPI_DOUBLE", MPI_DOUBLE);
    for (long size = 1; size <= largest; size = size * 3 / 2 + 1)
        gather(comm, &bytes, size, &bytes, size, 0);
    for (long size = 8; size <= largest; size *= 4) {
        gather(comm, &bytes, size, &doubles, size / 8, 0);
        gather(comm, &doubles, size / 8, &doubles, size / 8, 1);
    }
    free(bytes.place);
    free(doubles.place);
}

static void sub_communicators(long largest)
{
    int rank, ranks;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    MPI_Comm parity, reversed, copy, few;
    MPI_Comm_split(world, rank % 2, rank, &parity);
    MPI_Comm_split(world, 0, ranks - rank, &reversed);
    within(reversed);
    MPI_Comm_dup(reversed, &copy); /* has the settings too */
    MPI_Comm_split(world, rank < (ranks + 1) / 2 ? 0 : MPI_UNDEFINED, rank, &few);
    within(parity);
    within(few);
    layout_t ints = describe("MPI_INT", MPI_INT);
    for (long count = 1; count <= largest / 4; count *= 7) {
        gather(parity, &ints, count, &ints, count, 0);
        gather(reversed, &ints, count, &ints, count, 0);
        gather(copy, &ints, count, &ints, count, 1);
        long next = rounds + 1; /* all ranks count alike */
        if (few != MPI_COMM_NULL)
            gather(few, &ints, count, &ints, count, 0);
        rounds = next;
    }
    gather(MPI_COMM_SELF, &ints, 1, &ints, 1, 0);
    gather(MPI_COMM_SELF, &ints, 1000, &ints, 1000, 1);
    derived(MPI_COMM_SELF);
    free(ints.place);
    MPI_Comm_free(&parity);
    MPI_Comm_free(&reversed);
    MPI_Comm_free(&copy);
    if (few != MPI_COMM_NULL)
        MPI_Comm_free(&few);
}

/* Each side gets the other side's blocks. */
static void inter_communicator(void)
{
    int rank, ranks;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    if (ranks < 2)
        return;
    int side = rank < ranks / 2, mine[2] = {rank * 11 + 5, rank * 7}, remote;
    MPI_Comm half, both;
    MPI_Comm_split(world, side, rank, &half);
    MPI_Intercomm_create(half, 0, world, side ? ranks / 2 : 0, 3, &both);
    MPI_Comm_remote_size(both, &remote);
    int *theirs = must(calloc((size_t)remote * 2, sizeof(int)));
    snprintf(context, sizeof context, "inter-communicator");
    /* In the last round the two groups contribute different amounts. */
    for (int round = 0; round < 3; round++) {
        int to_them = round == 2 && side ? 2 : 1, to_us = round == 2 && !side ? 2 : 1;
        MPI_Allgather(mine, to_them, MPI_INT, theirs, to_us, MPI_INT, both);
        for (int i = 0; i < remote; i++) {
            int from = (side ? ranks / 2 : 0) + i;
            expect(theirs[i * to_us] == from * 11 + 5, "block", i, theirs[i * to_us]);
            expect(to_us == 1 || theirs[i * 2 + 1] == from * 7, "second", i, theirs[i * 2 + 1]);
        }
    }
    free(theirs);
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

static long descriptors(void)
{
    long open = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder != NULL && readdir(folder) != NULL)
        open++;
    if (folder != NULL)
        closedir(folder);
    return open;
}

static void many_communicators(void)
{
    int rank;
    MPI_Comm_rank(world, &rank);
    layout_t ints = describe("MPI_INT", MPI_INT);
    long before = 0;
    for (int i = 0; i < 200; i++) {
        MPI_Comm comm;
        if (i % 2)
            MPI_Comm_dup(world, &comm);
        else
            MPI_Comm_split(world, rank % 2, rank, &comm);
        gather(within(comm), &ints, 1 + i, &ints, 1 + i, i % 3 == 0);
        MPI_Comm_free(&comm);
        if (i == 20)
            before = descriptors();
    }
    snprintf(context, sizeof context, "200 communicators");
    expect(descriptors() <= before + 4, "descriptors grow", before, descriptors());
    free(ints.place);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    long largest = argc > 1 ? atol(argv[1]) : 1000000;
    while (next_settings()) {
        rounds = 0;
        predefined(world);
        derived(world);
        sizes(world, largest);
        sub_communicators(largest / 10);
        inter_communicator();
        many_communicators();
    }
    return finish("allgather_check");
}
