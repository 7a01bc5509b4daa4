/* Bodies, their leap-frog steps, and the serial run that others are compared with. No communication. */
#ifndef BODIES_H
#define BODIES_H

#include "octree.h"

static const double MOST_DRIFT = 0.01, MOST_ERROR = 0.02;

typedef struct {
    uint64_t key;
    int64_t id;
    double position[DIMENSIONS], velocity[DIMENSIONS], acceleration[DIMENSIONS], potential, work;
} body_t;

static double next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Bodies first .. first + count - 1, each from a seed of its own. */
static body_t *place_bodies(uint64_t seed, int first, int count)
{
    body_t *bodies = resize(NULL, (size_t)count, sizeof *bodies);
    for (int i = 0; i < count; i++) {
        body_t *body = &bodies[i];
        uint64_t state = seed + (uint64_t)(first + i) * 7919u;
        memset(body, 0, sizeof *body);
        body->id = first + i;
        body->work = 1;
        for (int k = 0; k < DIMENSIONS; k++) {
            body->position[k] = 2 * next_random(&state) - 1;
            body->velocity[k] = 0.2 * (next_random(&state) - 0.5);
        }
    }
    return bodies;
}

static int by_key(const void *a, const void *b)
{
    const body_t *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return (left->id > right->id) - (left->id < right->id);
}

static box_t box_of(const body_t *bodies, size_t count)
{
    box_t box = empty_box();
    for (size_t i = 0; i < count; i++)
        widen(&box, bodies[i].position, bodies[i].position);
    return box;
}

static void sort_bodies(body_t *bodies, size_t count, const cube_t *cube)
{
    for (size_t i = 0; i < count; i++)
        bodies[i].key = morton_key(cube, bodies[i].position);
    qsort(bodies, count, sizeof *bodies, by_key);
}

static item_t item_of(const body_t *body, double mass)
{
    item_t item = {body->key, LEVELS, 1, mass, {0, 0, 0}};
    for (int k = 0; k < DIMENSIONS; k++)
        item.moments[k] = mass * body->position[k];
    return item;
}

/* Accelerations, potentials and work; returns how often the tree was not deep enough. */
static int accelerate(const tree_t *tree, body_t *bodies, size_t count)
{
    int missing = 0;
    for (size_t i = 0; i < count; i++) {
        pull_t pull = pull_at(tree, bodies[i].position, bodies[i].key);
        memcpy(bodies[i].acceleration, pull.acceleration, sizeof pull.acceleration);
        bodies[i].potential = pull.potential;
        bodies[i].work = (double)pull.terms;
        missing += pull.missing;
    }
    return missing;
}

static void kick(body_t *bodies, size_t count, double seconds)
{
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < DIMENSIONS; k++)
            bodies[i].velocity[k] += seconds * bodies[i].acceleration[k];
}

static void drift(body_t *bodies, size_t count, double seconds)
{
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < DIMENSIONS; k++)
            bodies[i].position[k] += seconds * bodies[i].velocity[k];
}

static double greatest_speed(const body_t *bodies, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < DIMENSIONS; k++)
            most = fmax(most, fabs(bodies[i].velocity[k]));
    return most;
}

static double greatest_pull(const body_t *bodies, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < DIMENSIONS; k++)
            most = fmax(most, fabs(bodies[i].acceleration[k]));
    return most;
}

/* A step that moves no body far against the softening length. */
static double choose_step(double speed, double pull)
{
    double step = fmin(0.02, 0.1 * SOFTENING / fmax(speed, 1e-12));
    return fmin(step, 0.1 * sqrt(SOFTENING / fmax(pull, 1e-12)));
}

typedef struct {
    double kinetic, potential, momentum[DIMENSIONS], spin[DIMENSIONS];
} invariants_t;

static invariants_t invariants_of(const body_t *bodies, size_t count, double mass)
{
    invariants_t found = {0, 0, {0, 0, 0}, {0, 0, 0}};
    for (size_t i = 0; i < count; i++) {
        const double *p = bodies[i].position, *v = bodies[i].velocity;
        found.kinetic += 0.5 * mass * squared_length(v);
        found.potential += 0.5 * mass * bodies[i].potential;
        for (int k = 0; k < DIMENSIONS; k++) {
            int a = (k + 1) % DIMENSIONS, b = (k + 2) % DIMENSIONS;
            found.momentum[k] += mass * v[k];
            found.spin[k] += mass * (p[a] * v[b] - p[b] * v[a]);
        }
    }
    return found;
}

static int by_id(const void *a, const void *b)
{
    const body_t *left = a, *right = b;
    return (left->id > right->id) - (left->id < right->id);
}

static void find_forces_alone(body_t *bodies, size_t count, double mass)
{
    tree_t tree = {NULL, 0, 0, 0};
    item_t *items = resize(NULL, count, sizeof *items);
    box_t box = box_of(bodies, count);
    cube_t cube = cube_around(&box);
    sort_bodies(bodies, count, &cube);
    for (size_t i = 0; i < count; i++)
        items[i] = item_of(&bodies[i], mass);
    build_tree(&tree, items, count, cube.edge);
    accelerate(&tree, bodies, count);
    free(tree.nodes);
    free(items);
}

/* All bodies after so many steps of a single process, by number. */
static body_t *run_alone(uint64_t seed, int count, int steps)
{
    size_t all = (size_t)count;
    double mass = 1.0 / count;
    body_t *bodies = place_bodies(seed, 0, count);
    find_forces_alone(bodies, all, mass);
    for (int t = 0; t < steps; t++) {
        double step = choose_step(greatest_speed(bodies, all), greatest_pull(bodies, all));
        kick(bodies, all, step / 2);
        drift(bodies, all, step);
        find_forces_alone(bodies, all, mass);
        kick(bodies, all, step / 2);
    }
    qsort(bodies, all, sizeof *bodies, by_id);
    return bodies;
}

/* Difference of accelerations from those of direct summation, by their length: root mean squares. */
static double error_of_forces(const body_t *bodies, int count)
{
    double wrong = 0, right = 0, mass = 1.0 / count;
    for (int i = 0; i < count; i++) {
        double direct[DIMENSIONS] = {0, 0, 0}, d[DIMENSIONS];
        for (int j = 0; j < count; j++) {
            for (int k = 0; k < DIMENSIONS; k++)
                d[k] = bodies[j].position[k] - bodies[i].position[k];
            double squared = squared_length(d) + SOFTENING * SOFTENING;
            for (int k = 0; k < DIMENSIONS; k++)
                direct[k] += mass * d[k] / (squared * sqrt(squared));
        }
        for (int k = 0; k < DIMENSIONS; k++)
            d[k] = bodies[i].acceleration[k] - direct[k];
        wrong += squared_length(d);
        right += squared_length(direct);
    }
    return right > 0 ? sqrt(wrong / right) : 0;
}

#endif
