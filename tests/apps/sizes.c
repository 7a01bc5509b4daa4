/* All-gathers of many sizes around every threshold, from 0 B to the given largest, on the world, in
 * place, and on the odd and even ranks apart; every byte and the guards around them are compared.
 * Short, so that it can run under every forced algorithm, rank count and node shape.
 *
 *     mpirun -n P sizes [largest block in bytes, default 1048576] [least duration in ms, default 0]
 *
 * With a duration all is done again until that has passed: faults that take a while then show. With
 * TEST_SETTINGS all of that for each of the settings, see ../c/settings.h.
 */
#include "../c/settings.h"

#include <stdint.h>

enum { GUARD = 64, OFFSETS = 1 << 16, SHORT = 600 };

typedef struct {
    unsigned char *bytes; /* reference: blocks are windows of it */
    unsigned char *sent, *got;
    long checks, failures;
} data_t;

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fprintf(stderr, "sizes: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return memory;
}

/* What `rank` contributes in a round: no two ranks or neighbouring rounds share a window. */
static const unsigned char *block(const data_t *data, long round, int rank)
{
    return data->bytes + (size_t)(round * 8191 + rank * 257) % OFFSETS;
}

static void expect(data_t *data, int holds, const char *what, long round, size_t size, int rank)
{
    data->checks++;
    if (!holds && data->failures++ < 5)
        fprintf(stderr, "%s: round %ld, %zu bytes, rank or block %d\n", what, round, size, rank);
}

static void gather(data_t *data, MPI_Comm comm, long round, size_t size, int in_place)
{
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    size_t all = size * (size_t)ranks;
    unsigned char *to = data->got + GUARD, guard[GUARD];
    memset(guard, 0xa5, GUARD);
    memset(data->got, 0xa5, all + 2 * GUARD);
    if (in_place)
        memcpy(to + (size_t)rank * size, block(data, round, rank), size);
    memcpy(data->sent, block(data, round, rank), size);
    const void *from = in_place ? MPI_IN_PLACE : data->sent;
    int code = MPI_Allgather(from, (int)size, MPI_BYTE, to, (int)size, MPI_BYTE, comm);
    expect(data, code == MPI_SUCCESS, "error code", round, size, rank);
    for (int r = 0; r < ranks; r++) {
        int equal = memcmp(to + (size_t)r * size, block(data, round, r), size) == 0;
        expect(data, equal, "wrong block", round, size, r);
    }
    int kept = memcmp(data->got, guard, GUARD) == 0 && memcmp(to + all, guard, GUARD) == 0;
    expect(data, kept, "guard overwritten", round, size, rank);
    kept = memcmp(data->sent, block(data, round, rank), size) == 0;
    expect(data, kept, "send buffer changed", round, size, rank);
}

static data_t prepare(size_t largest, int ranks)
{
    data_t data = {0};
    data.bytes = allocate(largest + OFFSETS);
    data.sent = allocate(largest + 1);
    data.got = allocate(largest * (size_t)ranks + 2 * GUARD);
    uint64_t state = 42;
    for (size_t i = 0; i < largest + OFFSETS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data.bytes[i] = (unsigned char)(state >> 56);
    }
    return data;
}

/* Once through all sizes, from round `round` on; the next round. */
static long series(data_t *data, MPI_Comm parity, long round, size_t largest)
{
    static const size_t sizes[] = {0,    1,    2,    7,     8,     9,     56,    57,     64,
                                   100,  511,  512,  1023,  1024,  1025,  2000,  4096,   4097,
                                   8192, 16384, 20000, 32768, 65536, 65537, 131072, 262144, 262145,
                                   524288, 1000000, 1048576};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] <= largest; i++) {
        gather(data, world, round++, sizes[i], 0);
        gather(data, world, round++, sizes[i], 1);
        if (sizes[i] <= 65537)
            gather(data, parity, round++, sizes[i], 0);
    }
    /* Without a pause between them, as fast ranks run ahead of slow ones; slow devices have fewer. */
    for (int i = 0; i < (largest > 65536 ? 300 : 150); i++)
        gather(data, world, round++, (size_t)(i * 7 % SHORT), 0);
    return round;
}

/* All of it with the present settings. */
static void loop(data_t *data, size_t largest, long milliseconds)
{
    int rank, again;
    long round = 0;
    MPI_Comm parity;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_split(world, rank % 2, -rank, &parity);
    within(parity);
    double start = MPI_Wtime();
    do {
        round = series(data, parity, round, largest);
        again = (MPI_Wtime() - start) * 1e3 < milliseconds;
        MPI_Bcast(&again, 1, MPI_INT, 0, world);
    } while (again);
    MPI_Comm_free(&parity);
}

int main(int argc, char **argv)
{
    size_t largest = argc > 1 ? strtoul(argv[1], NULL, 10) : 1048576;
    long milliseconds = argc > 2 ? atol(argv[2]) : 0;
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    data_t data = prepare(largest > SHORT ? largest : SHORT, ranks);
    while (next_settings())
        loop(&data, largest, milliseconds);
    long mine[2] = {data.checks, data.failures}, all[2];
    MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("sizes ranks=%d checks=%ld failures=%ld right=%s\n", ranks, all[0], all[1],
               all[1] == 0 ? "yes" : "no");
    MPI_Finalize();
    return all[1] == 0 ? 0 : 1;
}
