/* Gravitational N-body simulation in three dimensions after Barnes and Hut, leap-frog in time.
 *
 * Every rank owns the bodies of a range of Morton keys. A time step has these phases:
 *
 *   1. all-gather of bounding boxes (48 bytes per rank), work (8) and sampled keys (256), from which every
 *      rank computes the same ranges of equal work;
 *   2. bodies move to their ranks, point to point, one message for each pair of ranks;
 *   3. all-gather of the new boxes (48) and numbers of bodies (8);
 *   4. each rank sends each other the cells and bodies of its own octree that are essential there, point to
 *      point, and builds the tree of what came and its own;
 *   5. forces, with all-gathers of speed, pull and both energies (8 each), momentum and spin (24 each).
 *
 * So 91 % of the all-gathers are below 64 bytes and the rest below 1 KB. The octree makes results the same
 * to the bit on any number of ranks (octree.h); rank 0 repeats the run alone and all compare.
 *
 *     mpirun -n P nbody [-n bodies per rank] [-t time steps] [-x seed]
 *
 * Prints one line of name=value pairs on rank 0, seconds of the slowest rank; exits with 1 if a body is not
 * where the serial run has it, energy is not conserved, or forces are far from those of direct summation.
 */
#include "bodies.h"
#include <mpi.h>

enum { SAMPLES = 32, TAG = 7 };

typedef struct {
    int rank, ranks, all, steps;
    uint64_t seed;
    double mass; /* of each body */
    body_t *bodies;
    size_t count;
    tree_t tree;
    uint64_t *ranges; /* rank r owns keys from ranges[r] to ranges[r + 1] */
    box_t *boxes;     /* of the bodies of each rank */
    double *gathered; /* room for the small exchanges */
    int missing;
    long allgather_calls, small_calls, messages, message_bytes;
    double allgather_seconds, message_seconds;
} world_t;

static void allgather(world_t *world, const void *mine, void *all, size_t bytes)
{
    double start = MPI_Wtime();
    MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    world->allgather_seconds += MPI_Wtime() - start;
    world->allgather_calls++;
    world->small_calls += bytes < 64;
}

/* Sums up to three doubles over the ranks, in rank order. */
static void sum(world_t *world, const double *mine, double *total, int count)
{
    allgather(world, mine, world->gathered, (size_t)count * sizeof *mine);
    for (int i = 0; i < count; i++) {
        total[i] = 0;
        for (int r = 0; r < world->ranks; r++)
            total[i] += world->gathered[r * count + i];
    }
}

static double largest(world_t *world, double mine)
{
    double most = -INFINITY;
    allgather(world, &mine, world->gathered, sizeof mine);
    for (int r = 0; r < world->ranks; r++)
        most = fmax(most, world->gathered[r]);
    return most;
}

/* Sends items[starts[r] .. starts[r + 1]) to each rank r. Returns what came, in rank order. */
static void *exchange(world_t *world, const void *items, const size_t *starts, size_t size,
                      size_t *count)
{
    double start = MPI_Wtime();
    MPI_Request *requests = resize(NULL, (size_t)world->ranks, sizeof *requests);
    MPI_Status *statuses = resize(NULL, (size_t)world->ranks, sizeof *statuses);
    char *came = NULL;
    size_t used = 0;
    for (int r = 0; r < world->ranks; r++) {
        size_t bytes = (starts[r + 1] - starts[r]) * size;
        requests[r] = MPI_REQUEST_NULL;
        if (r == world->rank)
            continue;
        MPI_Isend((const char *)items + starts[r] * size, (int)bytes, MPI_BYTE, r, TAG,
                  MPI_COMM_WORLD, &requests[r]);
        world->messages++;
        world->message_bytes += (long)bytes;
    }
    for (int r = 0; r < world->ranks; r++) {
        MPI_Status status;
        int bytes = (int)((starts[r + 1] - starts[r]) * size);
        if (r != world->rank) {
            MPI_Probe(r, TAG, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &bytes);
        }
        came = resize(came, used + (size_t)bytes, 1);
        if (r == world->rank)
            memcpy(came + used, (const char *)items + starts[r] * size, (size_t)bytes);
        else
            MPI_Recv(came + used, bytes, MPI_BYTE, r, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        used += (size_t)bytes;
    }
    MPI_Waitall(world->ranks, requests, statuses);
    free(requests);
    free(statuses);
    *count = used / size;
    world->message_seconds += MPI_Wtime() - start;
    return came;
}

typedef struct {
    uint64_t key;
    double work;
} sample_t;

static int by_sample(const void *a, const void *b)
{
    const sample_t *left = a, *right = b;
    return (left->key > right->key) - (left->key < right->key);
}

/* Ranges of keys with the same work, as far as samples tell. */
static void choose_ranges(world_t *world)
{
    double work = 0, passed = 0;
    uint64_t mine[SAMPLES] = {0};
    int ranks = world->ranks, sampled = 0;
    for (size_t i = 0; i < world->count; i++)
        work += world->bodies[i].work;
    for (size_t i = 0; i < world->count; i++) {
        passed += world->bodies[i].work;
        while (sampled < SAMPLES && passed * SAMPLES >= (sampled + 0.5) * work)
            mine[sampled++] = world->bodies[i].key;
    }
    uint64_t *keys = resize(NULL, (size_t)ranks, sizeof mine);
    sample_t *samples = resize(NULL, (size_t)ranks * SAMPLES, sizeof *samples);
    allgather(world, mine, keys, sizeof mine);
    allgather(world, &work, world->gathered, sizeof work);
    double total = 0;
    for (int i = 0; i < ranks * SAMPLES; i++) {
        samples[i] = (sample_t){keys[i], world->gathered[i / SAMPLES] / SAMPLES};
        total += samples[i].work;
    }
    qsort(samples, (size_t)ranks * SAMPLES, sizeof *samples, by_sample);
    passed = 0;
    int next = 1;
    world->ranges[0] = 0;
    for (int i = 0; i < ranks * SAMPLES; i++) {
        passed += samples[i].work;
        while (next < ranks && passed * ranks >= next * total)
            world->ranges[next++] = samples[i].key;
    }
    for (; next <= ranks; next++)
        world->ranges[next] = (uint64_t)1 << 3 * LEVELS;
    free(keys);
    free(samples);
}

/* Phases 1 to 3: every body goes to the rank that owns its key. Returns the cube that all are in. */
static cube_t migrate(world_t *world)
{
    box_t mine = box_of(world->bodies, world->count), whole = empty_box();
    allgather(world, &mine, world->boxes, sizeof mine);
    for (int r = 0; r < world->ranks; r++)
        widen(&whole, world->boxes[r].low, world->boxes[r].high);
    cube_t cube = cube_around(&whole);
    sort_bodies(world->bodies, world->count, &cube);
    choose_ranges(world);
    size_t *starts = resize(NULL, (size_t)world->ranks + 1, sizeof *starts), next = 0;
    for (int r = 0; r <= world->ranks; r++) {
        while (next < world->count && world->bodies[next].key < world->ranges[r])
            next++;
        starts[r] = next;
    }
    body_t *before = world->bodies;
    world->bodies = exchange(world, before, starts, sizeof *before, &world->count);
    free(before);
    free(starts);
    qsort(world->bodies, world->count, sizeof *world->bodies, by_key);
    mine = box_of(world->bodies, world->count);
    allgather(world, &mine, world->boxes, sizeof mine);
    double count = (double)world->count, all;
    sum(world, &count, &all, 1);
    world->missing += all != world->all;
    return cube;
}

/* Phase 4: the tree of all bodies, as far as the own ones need it. */
static void share_trees(world_t *world, double edge)
{
    size_t used = 0, room = world->count * (size_t)world->ranks, count = world->count;
    item_t *own = resize(NULL, count, sizeof *own), *items = resize(NULL, room, sizeof *items);
    size_t *starts = resize(NULL, (size_t)world->ranks + 1, sizeof *starts);
    for (size_t i = 0; i < count; i++)
        own[i] = item_of(&world->bodies[i], world->mass);
    build_tree(&world->tree, own, count, edge);
    for (int r = 0; r < world->ranks; r++) {
        const box_t *box = &world->boxes[r];
        const uint64_t *range = world->ranges + world->rank;
        starts[r] = used;
        if (r == world->rank) {
            memcpy(items + used, own, count * sizeof *own);
            used += count;
        } else if (box->low[0] <= box->high[0]) {
            used += essential(&world->tree, box, range[0], range[1], items + used);
        }
    }
    starts[world->ranks] = used;
    item_t *came = exchange(world, items, starts, sizeof *items, &count);
    build_tree(&world->tree, came, count, edge);
    free(own);
    free(items);
    free(starts);
    free(came);
}

static void find_forces(world_t *world)
{
    cube_t cube = migrate(world);
    share_trees(world, cube.edge);
    world->missing += accelerate(&world->tree, world->bodies, world->count);
}

/* Phase 5, after the forces: what is conserved, over all ranks. */
static invariants_t measure(world_t *world)
{
    invariants_t mine = invariants_of(world->bodies, world->count, world->mass), all;
    sum(world, &mine.kinetic, &all.kinetic, 1);
    sum(world, &mine.potential, &all.potential, 1);
    sum(world, mine.momentum, all.momentum, DIMENSIONS);
    sum(world, mine.spin, all.spin, DIMENSIONS);
    return all;
}

static void advance(world_t *world)
{
    double speed = largest(world, greatest_speed(world->bodies, world->count));
    double pull = largest(world, greatest_pull(world->bodies, world->count));
    double step = choose_step(speed, pull);
    kick(world->bodies, world->count, step / 2);
    drift(world->bodies, world->count, step);
    find_forces(world);
    kick(world->bodies, world->count, step / 2);
}

static int differs(const body_t *left, const body_t *right)
{
    return memcmp(left->position, right->position, sizeof left->position) != 0 ||
           memcmp(left->velocity, right->velocity, sizeof left->velocity) != 0;
}

/* Of all bodies, whoever has them: the sum of the hashes of each. */
static uint64_t hash_bodies(const world_t *world)
{
    uint64_t mine = 0, all = 0;
    for (size_t i = 0; i < world->count; i++) {
        const body_t *body = &world->bodies[i];
        uint64_t hash = 0xcbf29ce484222325u ^ (uint64_t)body->id, bits[2 * DIMENSIONS];
        memcpy(bits, body->position, sizeof body->position);
        memcpy(bits + DIMENSIONS, body->velocity, sizeof body->velocity);
        for (int k = 0; k < 2 * DIMENSIONS; k++)
            hash = (hash ^ bits[k]) * 0x100000001b3u;
        mine += hash;
    }
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* Whether all bodies are just where the serial run has them; known to all ranks. */
static int is_as_alone(const world_t *world, double *error)
{
    body_t *alone = NULL;
    size_t bytes = (size_t)world->all * sizeof *alone;
    int wrong = world->missing, any;
    if (world->rank == 0) {
        alone = run_alone(world->seed, world->all, world->steps);
        *error = error_of_forces(alone, world->all);
    } else {
        alone = resize(NULL, bytes, 1);
    }
    MPI_Bcast(alone, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Bcast(error, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (size_t i = 0; i < world->count; i++)
        wrong += differs(&world->bodies[i], &alone[world->bodies[i].id]);
    MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    free(alone);
    return any == 0;
}

static void prepare(world_t *world, int argc, char **argv)
{
    int each = 32;
    size_t ranks = (size_t)world->ranks;
    world->steps = 200;
    world->seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        unsigned long value = strtoul(argv[i + 1], NULL, 10);
        switch (argv[i][0] == '-' ? argv[i][1] : 0) {
        case 'n': each = (int)value; break;
        case 't': world->steps = (int)value; break;
        case 'x': world->seed = value; break;
        default: argc = 0; break;
        }
    }
    if (argc % 2 == 0 || each < 1 || each > 1000000 / world->ranks || world->steps < 0) {
        if (world->rank == 0)
            fprintf(stderr, "usage: nbody [-n bodies per rank] [-t time steps] [-x seed]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    world->all = each * world->ranks;
    world->mass = 1.0 / world->all;
    world->bodies = place_bodies(world->seed, world->rank * each, each);
    world->count = (size_t)each;
    world->ranges = resize(NULL, ranks + 1, sizeof *world->ranges);
    world->boxes = resize(NULL, ranks, sizeof *world->boxes);
    world->gathered = resize(NULL, ranks * DIMENSIONS, sizeof *world->gathered);
}

/* Checks and prints; whether all is right. */
static int conclude(world_t *world, invariants_t first, invariants_t last, double total)
{
    double error = 0, before = first.kinetic + first.potential;
    double energy = last.kinetic + last.potential;
    double mine[3] = {world->allgather_seconds, world->allgather_seconds + world->message_seconds,
                      total};
    double slowest[3];
    long sent[2] = {world->messages, world->message_bytes}, all[2];
    MPI_Reduce(mine, slowest, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(sent, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    int same = is_as_alone(world, &error);
    int conserved = fabs(energy - before) <= MOST_DRIFT * fabs(before);
    int exact = error <= MOST_ERROR;
    uint64_t hash = hash_bodies(world);
    if (world->rank == 0)
        printf("bodies=%d ranks=%d steps=%d allgather_calls=%ld below_64_bytes=%.3f messages=%ld "
               "message_bytes=%ld allgather_seconds=%.6f communication_seconds=%.6f "
               "total_seconds=%.6f energy=%.17g drift=%.2g error=%.2g as_alone=%s conserved=%s "
               "exact=%s output_hash=%016llx\n",
               world->all, world->ranks, world->steps, world->allgather_calls,
               (double)world->small_calls / (double)world->allgather_calls, all[0], all[1],
               slowest[0], slowest[1], slowest[2], energy, energy / before - 1, error,
               same ? "yes" : "no", conserved ? "yes" : "no", exact ? "yes" : "no",
               (unsigned long long)hash);
    return same && conserved && exact;
}

int main(int argc, char **argv)
{
    world_t world = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world.ranks);
    prepare(&world, argc, argv);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    find_forces(&world);
    invariants_t first = measure(&world), last = first;
    for (int t = 0; t < world.steps; t++) {
        advance(&world);
        last = measure(&world);
    }
    int right = conclude(&world, first, last, MPI_Wtime() - start);
    free(world.bodies);
    free(world.tree.nodes);
    free(world.ranges);
    free(world.boxes);
    free(world.gathered);
    MPI_Finalize();
    return right ? 0 : 1;
}
