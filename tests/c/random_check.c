/* Collectives drawn at random, held against the host's: each is called through MPI_X and then, on a
 * copy of the same buffers, done by the host itself; every byte of the result, of the gaps and around them has
 * to be the same. Drawn are the collective, root, count, signature, each rank's own layouts of it,
 * displacements, MPI_IN_PLACE, operation and communicator; communicators come and go. Calls come in
 * batches, so that they follow each other as closely as in a program, while the program's own
 * messages are under way and some ranks are late.
 *
 *     mpirun -n P random_check SEED [batches, default 100] [first batch, 0] [most bytes, 300000]
 *
 * The first difference ends the job; its line says how to see it again.
 */
#include "random_host.h"

#include <unistd.h>

enum { COMMS = 7, CASES = 12, TAG = 77, LOOP_BYTES = 18000000, LOOP_CALLS = 350 };

static MPI_Comm comms[COMMS];
static int world_rank, world_size;

/* Makes communicator `which` anew. Ranks in one that is left out get MPI_COMM_NULL. */
static void renew(int which, draw_t *shared)
{
    MPI_Comm old = comms[which], parent = MPI_COMM_WORLD;
    if (which < 2)
        return;
    if (old != MPI_COMM_NULL)
        MPI_Comm_free(&comms[which]);
    int color = 0, key = world_rank;
    if (which == 3)
        key = -world_rank;
    if (which == 4)
        color = world_rank % 2;
    for (int rank = 0; rank < world_size && which >= 5; rank++) {
        long parts = below(shared, 4), order = below(shared, 1000);
        if (rank == world_rank) {
            color = parts == 3 ? MPI_UNDEFINED : (int)parts;
            key = (int)order;
        }
    }
    if (which == 6) /* nested: a part of a part */
        parent = comms[4];
    if (which == 2)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[which]);
    else
        MPI_Comm_split(parent, color, key, &comms[which]);
}

/* The program's own messages during a batch: a ring of them, up to well beyond the eager limit. */
typedef struct {
    unsigned char *out, *in;
    int bytes, from, to;
    long round;
    MPI_Request requests[3];
} traffic_t;

static traffic_t begin_traffic(draw_t *shared, long batch)
{
    traffic_t traffic = {.bytes = (int)below(shared, chance(shared, 50) ? 200000 : 200), .round = batch};
    int step = 1 + (int)below(shared, world_size);
    traffic.to = (world_rank + step) % world_size;
    traffic.from = (world_rank + world_size * 2 - step) % world_size;
    traffic.out = must(malloc((size_t)traffic.bytes + 1));
    traffic.in = must(malloc((size_t)traffic.bytes + 1));
    fill(traffic.out, (size_t)traffic.bytes, batch, world_rank);
    MPI_Irecv(traffic.in, traffic.bytes, MPI_BYTE, traffic.from, TAG, MPI_COMM_WORLD, &traffic.requests[0]);
    MPI_Isend(traffic.out, traffic.bytes, MPI_BYTE, traffic.to, TAG, MPI_COMM_WORLD, &traffic.requests[1]);
    traffic.requests[2] = MPI_REQUEST_NULL;
    if (chance(shared, 30))
        MPI_Ibarrier(MPI_COMM_WORLD, &traffic.requests[2]);
    return traffic;
}

static void end_traffic(traffic_t *traffic)
{
    for (int i = 0; i < 3; i++)
        MPI_Wait(&traffic->requests[i], MPI_STATUS_IGNORE);
    snprintf(context, sizeof context, "message in batch %ld", traffic->round);
    expect_pattern(traffic->in, (size_t)traffic->bytes, traffic->round, traffic->from);
    free(traffic->in);
    free(traffic->out);
}

/* Blocks of one length again and again, as a program's loop has them: a communicator finds out in it which way long
 * messages go, and what follows goes by that. */
static void repeat_long(draw_t *shared, long batch)
{
    enum { EXCHANGE, TO_ROOT, FROM_ROOT, TO_ALL, WITH_LENGTHS, WAYS };
    MPI_Comm comm = comms[chance(shared, 40) ? 0 : below(shared, COMMS)];
    int way = (int)below(shared, WAYS), bytes = 20000 << below(shared, 4), rank, size;
    if (comm == MPI_COMM_NULL)
        return;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    size_t all = (size_t)bytes * (size_t)size;
    unsigned char *out = must(malloc(all)), *in = must(malloc(all));
    int *lengths = must(malloc(sizeof *lengths * 2 * (size_t)size)), *places = lengths + size;
    for (int peer = 0; peer < size; peer++) {
        lengths[peer] = way == WITH_LENGTHS && (rank == 0 || peer == 0) ? 64 : bytes;
        places[peer] = peer * bytes;
    }
    for (int peer = 0; peer < size; peer++)
        fill(out + (size_t)peer * (size_t)bytes, (size_t)bytes, batch * size + peer, rank);
    memset(in, 0, all);
    long calls = 100 + LOOP_BYTES / (way == EXCHANGE ? (long)all : bytes);
    for (calls = way == WITH_LENGTHS ? LOOP_CALLS : calls; calls > 0; calls--) {
        if (way == EXCHANGE)
            MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, comm);
        else if (way == TO_ROOT)
            MPI_Gather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, comm);
        else if (way == FROM_ROOT)
            MPI_Scatter(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, comm);
        else if (way == WITH_LENGTHS)
            MPI_Alltoallv(out, lengths, places, MPI_BYTE, in, lengths, places, MPI_BYTE, comm);
        else
            MPI_Bcast(rank == 0 ? out : in, bytes, MPI_BYTE, 0, comm);
    }
    snprintf(context, sizeof context, "loop %d of %d bytes in batch %ld", way, bytes, batch);
    int exchanges = way == EXCHANGE || way == WITH_LENGTHS;
    int blocks = exchanges ? size : way == TO_ROOT ? (rank == 0) * size : way == FROM_ROOT || rank > 0;
    int place = exchanges || way == FROM_ROOT ? rank : 0;
    for (int from = 0; from < blocks; from++)
        expect_pattern(in + (size_t)from * (size_t)bytes, (size_t)lengths[from], batch * size + place, from);
    free(lengths);
    free(in);
    free(out);
}

static void give_up(const case_t *c, const char *what, long at, uint64_t seed, int batch, int number)
{
    fprintf(stderr, "random_check: wrong: %s at %ld on rank %d of %d (%d of the world's %d): %s; "
            "case %d of batch %d; again with the arguments %llu %d\n", what, at, c->rank, c->size,
            world_rank, world_size, c->text, number, batch, (unsigned long long)seed, batch + 1);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(case_t *c, uint64_t seed, int batch, int number)
{
    const char *buffer;
    int code = invoke_host(c);
    if (code != MPI_SUCCESS)
        give_up(c, "error code of the host", code, seed, batch, number);
    long at = wrong_at(c, &buffer);
    char what[64];
    snprintf(what, sizeof what, "byte of the %s buffer", buffer);
    if (at >= 0)
        give_up(c, what, at, seed, batch, number);
    checks++;
    free_case(c);
}

static void run_batch(uint64_t seed, int batch, long most)
{
    static case_t cases[CASES];
    draw_t shared = stream(seed, (uint64_t)batch, 0, 0);
    if (batch > 0 && chance(&shared, 25))
        renew((int)below(&shared, COMMS), &shared);
    if (most >= 100000 && chance(&shared, 10))
        repeat_long(&shared, batch);
    traffic_t traffic = begin_traffic(&shared, batch);
    int count = 1 + (int)below(&shared, CASES);
    for (int i = 0; i < count; i++) {
        draw_t alike = stream(seed, (uint64_t)batch, (uint64_t)i + 1, 0);
        draw_t own = stream(seed, (uint64_t)batch, (uint64_t)i + 1, (uint64_t)world_rank + 1);
        MPI_Comm comm = comms[chance(&alike, 40) ? 0 : below(&alike, COMMS)];
        cases[i].comm = comm;
        if (comm == MPI_COMM_NULL)
            continue;
        draw_case(&cases[i], comm, &alike, &own, most);
        if (getenv("RANDOM_CHECK_TRACE") != NULL)
            fprintf(stderr, "rank %d: batch %d case %d: %s on %d ranks\n", world_rank, batch, i,
                    cases[i].text, cases[i].size);
        if (chance(&own, 4))
            usleep((unsigned)below(&own, 3000));
        int code = invoke(&cases[i], 0);
        if (code != MPI_SUCCESS)
            give_up(&cases[i], "error code", code, seed, batch, i);
    }
    for (int i = 0; i < count; i++)
        if (cases[i].comm != MPI_COMM_NULL)
            check(&cases[i], seed, batch, i);
    end_traffic(&traffic);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 2) {
        fprintf(stderr, "usage: random_check SEED [BATCHES] [FIRST BATCH] [MOST BYTES]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    uint64_t seed = strtoull(argv[1], NULL, 10);
    int batches = argc > 2 ? atoi(argv[2]) : 100, first = argc > 3 ? atoi(argv[3]) : 0;
    long most = argc > 4 ? atol(argv[4]) : 300000;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    make_numbers();
    comms[0] = MPI_COMM_WORLD;
    comms[1] = MPI_COMM_SELF;
    draw_t shared = stream(seed, (uint64_t)-1, 0, 0);
    for (int which = 2; which < COMMS; which++) {
        comms[which] = MPI_COMM_NULL;
        renew(which, &shared);
    }
    for (int batch = first; batch < batches; batch++)
        run_batch(seed, batch, most);
    for (int which = 2; which < COMMS; which++)
        if (comms[which] != MPI_COMM_NULL)
            MPI_Comm_free(&comms[which]);
    free_numbers();
    return finish("random_check");
}
