/* Gravitational N-body simulation in three dimensions by direct summation, leap-frog in time.
 *
 * Every rank owns a block of bodies. A time step all-gathers the positions once (768 bytes per rank
 * for the default 32 bodies) and then ten small quantities of 8 to 48 bytes per rank: step limits,
 * bounding box, centre of mass, momenta, energies. So 91 % of the all-gathers are below 64 bytes and
 * the rest below 1 KB, as in the application this imitates. Sums over ranks are taken in rank order,
 * so that the output is the same bit by bit whoever carries the messages.
 *
 *     mpirun -n P nbody [-n bodies per rank] [-t time steps] [-x seed]
 *
 * Prints one line of name=value pairs on rank 0; exits with 1 if the ranks disagree or if energy or
 * momentum is not conserved.
 */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { X, Y, Z, DIMENSIONS };

static const double SOFTENING = 0.05;

typedef struct {
    int rank, ranks, mine, all, steps;
    uint64_t seed;
    double *positions;     /* of all bodies, three doubles each */
    double *velocities;    /* of the own bodies */
    double *accelerations; /* of the own bodies */
    double mass;           /* of each body */
    double *gathered;      /* room for the small exchanges */
    long allgather_calls, small_calls;
    double allgather_seconds;
} world_t;

typedef struct {
    double kinetic, potential, momentum[DIMENSIONS];
} invariants_t;

static void *allocate(size_t count)
{
    void *memory = calloc(count ? count : 1, sizeof(double));
    if (memory == NULL) {
        fprintf(stderr, "nbody: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return memory;
}

static void allgather(world_t *world, const void *mine, double *all, int count)
{
    double start = MPI_Wtime();
    MPI_Allgather(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, MPI_COMM_WORLD);
    world->allgather_seconds += MPI_Wtime() - start;
    world->allgather_calls++;
    world->small_calls += (size_t)count * sizeof(double) < 64;
}

/* Sums `count` doubles over the ranks, in rank order. */
static void sum(world_t *world, const double *mine, double *total, int count)
{
    allgather(world, mine, world->gathered, count);
    for (int i = 0; i < count; i++) {
        total[i] = 0;
        for (int r = 0; r < world->ranks; r++)
            total[i] += world->gathered[r * count + i];
    }
}

static double largest(world_t *world, double mine)
{
    double most = -INFINITY;
    allgather(world, &mine, world->gathered, 1);
    for (int r = 0; r < world->ranks; r++)
        most = fmax(most, world->gathered[r]);
    return most;
}

static double *own_positions(world_t *world)
{
    return world->positions + (size_t)world->rank * (size_t)world->mine * DIMENSIONS;
}

static double next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void place_bodies(world_t *world)
{
    uint64_t state = world->seed + (uint64_t)world->rank * 7919u;
    double *own = own_positions(world);
    for (int i = 0; i < world->mine * DIMENSIONS; i++) {
        own[i] = 2 * next_random(&state) - 1;
        world->velocities[i] = 0.2 * (next_random(&state) - 0.5);
    }
}

static void exchange_positions(world_t *world)
{
    int count = world->mine * DIMENSIONS;
    double *own = allocate((size_t)count);
    memcpy(own, own_positions(world), (size_t)count * sizeof(double));
    allgather(world, own, world->positions, count);
    free(own);
}

/* Accelerations of the own bodies; returns their share of the potential energy. */
static double accelerate(world_t *world)
{
    double potential = 0;
    int first = world->rank * world->mine;
    for (int i = 0; i < world->mine; i++) {
        const double *here = world->positions + (first + i) * DIMENSIONS;
        double pull[DIMENSIONS] = {0, 0, 0};
        for (int j = 0; j < world->all; j++) {
            const double *there = world->positions + j * DIMENSIONS;
            double d[DIMENSIONS] = {there[X] - here[X], there[Y] - here[Y], there[Z] - here[Z]};
            if (j == first + i)
                continue;
            double squared = d[X] * d[X] + d[Y] * d[Y] + d[Z] * d[Z] + SOFTENING * SOFTENING;
            double inverse = 1 / sqrt(squared);
            potential -= 0.5 * world->mass * world->mass * inverse;
            for (int k = 0; k < DIMENSIONS; k++)
                pull[k] += world->mass * d[k] * inverse * inverse * inverse;
        }
        memcpy(world->accelerations + i * DIMENSIONS, pull, sizeof pull);
    }
    return potential;
}

/* A step that moves no body far against the softening length: from the greatest speed and pull. */
static double choose_step(world_t *world)
{
    double speed = 0, pull = 0;
    for (int i = 0; i < world->mine * DIMENSIONS; i++) {
        speed = fmax(speed, fabs(world->velocities[i]));
        pull = fmax(pull, fabs(world->accelerations[i]));
    }
    speed = largest(world, speed);
    pull = largest(world, pull);
    double step = 0.02;
    step = fmin(step, 0.1 * SOFTENING / fmax(speed, 1e-12));
    return fmin(step, 0.1 * sqrt(SOFTENING / fmax(pull, 1e-12)));
}

static void kick(world_t *world, double seconds)
{
    for (int i = 0; i < world->mine * DIMENSIONS; i++)
        world->velocities[i] += seconds * world->accelerations[i];
}

/* Bounding box (48 bytes), centre of mass (24) and work (8): what a tree code would divide by. */
static double measure_shape(world_t *world)
{
    double box[2 * DIMENSIONS], centre[DIMENSIONS] = {0, 0, 0}, total[DIMENSIONS], size = 0, work;
    const double *own = own_positions(world);
    for (int k = 0; k < DIMENSIONS; k++) {
        box[k] = INFINITY;
        box[DIMENSIONS + k] = -INFINITY;
        for (int i = 0; i < world->mine; i++) {
            box[k] = fmin(box[k], own[i * DIMENSIONS + k]);
            box[DIMENSIONS + k] = fmax(box[DIMENSIONS + k], own[i * DIMENSIONS + k]);
            centre[k] += own[i * DIMENSIONS + k] / world->all;
        }
    }
    allgather(world, box, world->gathered, 2 * DIMENSIONS);
    for (int k = 0; k < DIMENSIONS; k++) {
        double low = INFINITY, high = -INFINITY;
        for (int r = 0; r < world->ranks; r++) {
            low = fmin(low, world->gathered[r * 2 * DIMENSIONS + k]);
            high = fmax(high, world->gathered[r * 2 * DIMENSIONS + DIMENSIONS + k]);
        }
        size = fmax(size, high - low);
    }
    sum(world, centre, total, DIMENSIONS);
    double pairs = (double)world->mine * (world->all - 1);
    sum(world, &pairs, &work, 1);
    return size + fabs(total[X]) + work * 0x1p-60;
}

/* Energies (8 bytes each), momentum and angular momentum (24 each). */
static invariants_t measure_invariants(world_t *world, double potential)
{
    double kinetic = 0, momentum[DIMENSIONS] = {0, 0, 0}, spin[DIMENSIONS] = {0, 0, 0};
    double speed = 0, unused[DIMENSIONS];
    const double *own = own_positions(world);
    invariants_t found;
    for (int i = 0; i < world->mine; i++) {
        const double *p = own + i * DIMENSIONS, *v = world->velocities + i * DIMENSIONS;
        double squared = v[X] * v[X] + v[Y] * v[Y] + v[Z] * v[Z];
        kinetic += 0.5 * world->mass * squared;
        speed = fmax(speed, squared);
        for (int k = 0; k < DIMENSIONS; k++) {
            int a = (k + 1) % DIMENSIONS, b = (k + 2) % DIMENSIONS;
            momentum[k] += world->mass * v[k];
            spin[k] += world->mass * (p[a] * v[b] - p[b] * v[a]);
        }
    }
    sum(world, &kinetic, &found.kinetic, 1);
    sum(world, &potential, &found.potential, 1);
    sum(world, momentum, found.momentum, DIMENSIONS);
    sum(world, spin, unused, DIMENSIONS);
    largest(world, speed);
    return found;
}

/* Of all positions and the given number, as this rank has them. */
static uint64_t hash_state(const world_t *world, double more)
{
    uint64_t hash = 0xcbf29ce484222325u, bits;
    for (int i = 0; i <= world->all * DIMENSIONS; i++) {
        const double *value = i < world->all * DIMENSIONS ? world->positions + i : &more;
        memcpy(&bits, value, sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    return hash;
}

static void read_arguments(world_t *world, int argc, char **argv)
{
    world->mine = 32;
    world->steps = 200;
    world->seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        unsigned long value = strtoul(argv[i + 1], NULL, 10);
        switch (argv[i][0] == '-' ? argv[i][1] : 0) {
        case 'n': world->mine = (int)value; break;
        case 't': world->steps = (int)value; break;
        case 'x': world->seed = value; break;
        default: argc = 0; break;
        }
    }
    if (argc % 2 == 0 || world->mine < 1 || world->mine > 1000000 / world->ranks) {
        if (world->rank == 0)
            fprintf(stderr, "usage: nbody [-n bodies per rank] [-t time steps] [-x seed]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    world->all = world->mine * world->ranks;
    world->mass = 1.0 / world->all;
    world->positions = allocate((size_t)world->all * DIMENSIONS);
    world->velocities = allocate((size_t)world->mine * DIMENSIONS);
    world->accelerations = allocate((size_t)world->mine * DIMENSIONS);
    world->gathered = allocate((size_t)world->ranks * 2 * DIMENSIONS);
}

/* Whether every rank has the same state, and energy and momentum stayed. */
static int sound(world_t *world, uint64_t hash, invariants_t first, invariants_t last)
{
    uint64_t least, most;
    MPI_Allreduce(&hash, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&hash, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    double before = first.kinetic + first.potential, after = last.kinetic + last.potential;
    int right = least == most && fabs(after - before) <= 0.01 * fabs(before);
    for (int k = 0; k < DIMENSIONS; k++)
        right = right && fabs(last.momentum[k] - first.momentum[k]) < 1e-9;
    return right && world->allgather_calls > 0;
}

int main(int argc, char **argv)
{
    world_t world = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world.ranks);
    read_arguments(&world, argc, argv);
    place_bodies(&world);
    double start = MPI_Wtime(), shape = 0;
    exchange_positions(&world);
    double potential = accelerate(&world);
    invariants_t first = measure_invariants(&world, potential), last = first;
    for (int t = 0; t < world.steps; t++) {
        double step = choose_step(&world);
        kick(&world, step / 2);
        double *own = own_positions(&world);
        for (int i = 0; i < world.mine * DIMENSIONS; i++)
            own[i] += step * world.velocities[i];
        exchange_positions(&world);
        potential = accelerate(&world);
        kick(&world, step / 2);
        shape = measure_shape(&world);
        last = measure_invariants(&world, potential);
    }
    double total = MPI_Wtime() - start;
    uint64_t hash = hash_state(&world, shape + last.kinetic + last.potential);
    int right = sound(&world, hash, first, last);
    if (world.rank == 0)
        printf("bodies=%d ranks=%d steps=%d allgather_calls=%ld below_64_bytes=%.3f "
               "allgather_seconds=%.6f total_seconds=%.6f energy=%.17g conserved=%s "
               "output_hash=%016llx\n",
               world.all, world.ranks, world.steps, world.allgather_calls,
               (double)world.small_calls / (double)world.allgather_calls,
               world.allgather_seconds, total, last.kinetic + last.potential,
               right ? "yes" : "no", (unsigned long long)hash);
    MPI_Finalize();
    return right ? 0 : 1;
}
