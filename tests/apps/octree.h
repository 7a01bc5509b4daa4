/* The octree of Barnes and Hut over items in Morton order, as an array in preorder.
 *
 * An item is a body, or a cell of which only the sums are known ("sealed"): its bodies are on another
 * rank, too far away to matter one by one. The sums of a cell are those of its children, taken in octant
 * order, so that they are the same to the bit whether the children are bodies or sealed cells. That is why
 * a run on any number of ranks gives what one rank alone gives.
 */
#ifndef OCTREE_H
#define OCTREE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIMENSIONS = 3, LEVELS = 21 }; /* 3 x 21 bits of a key */

static const double SOFTENING = 0.05;
/* A cell is opened unless its edge is less than this part of its distance. Below 1/sqrt(3), so that no
 * cell is taken as a whole by a body inside it. */
static const double OPENING = 0.5;

typedef struct {
    uint64_t key; /* the lowest in the cell */
    int32_t level, count;
    double mass, moments[DIMENSIONS]; /* sums over its bodies; moments are mass times position */
} item_t;

typedef struct {
    item_t cell;
    size_t next; /* the first node that is not below this one */
    int sealed;
} node_t;

typedef struct {
    double low[DIMENSIONS], high[DIMENSIONS];
} box_t;

typedef struct {
    double low[DIMENSIONS], edge;
} cube_t;

/* Reused from step to step. */
typedef struct {
    node_t *nodes;
    size_t used, room;
    double edge;
} tree_t;

static void *resize(void *memory, size_t count, size_t size)
{
    void *larger = realloc(memory, (count ? count : 1) * size);
    if (larger == NULL) {
        fprintf(stderr, "nbody: out of memory\n");
        abort();
    }
    return larger;
}

static box_t empty_box(void)
{
    box_t box;
    for (int k = 0; k < DIMENSIONS; k++) {
        box.low[k] = INFINITY;
        box.high[k] = -INFINITY;
    }
    return box;
}

static void widen(box_t *box, const double *low, const double *high)
{
    for (int k = 0; k < DIMENSIONS; k++) {
        box->low[k] = fmin(box->low[k], low[k]);
        box->high[k] = fmax(box->high[k], high[k]);
    }
}

static cube_t cube_around(const box_t *box)
{
    cube_t cube = {{0, 0, 0}, 0};
    for (int k = 0; k < DIMENSIONS; k++) {
        cube.low[k] = box->low[k];
        cube.edge = fmax(cube.edge, box->high[k] - box->low[k]);
    }
    cube.edge = cube.edge > 0 ? cube.edge : 1;
    return cube;
}

/* Bits of the three coordinates in turn, the highest first. */
static uint64_t morton_key(const cube_t *cube, const double *position)
{
    uint64_t key = 0, cell[DIMENSIONS];
    const uint64_t most = ((uint64_t)1 << LEVELS) - 1;
    for (int k = 0; k < DIMENSIONS; k++) {
        double part = (position[k] - cube->low[k]) / cube->edge;
        cell[k] = (uint64_t)(part * (double)(most + 1));
        cell[k] = cell[k] < most ? cell[k] : most;
    }
    for (int bit = LEVELS - 1; bit >= 0; bit--)
        for (int k = 0; k < DIMENSIONS; k++)
            key = key << 1 | (cell[k] >> bit & 1);
    return key;
}

/* The last key of a cell. */
static uint64_t last_key(const item_t *cell)
{
    return cell->key + (((uint64_t)1 << 3 * (LEVELS - cell->level)) - 1);
}

static void add(item_t *sum, const item_t *part)
{
    sum->count += part->count;
    sum->mass += part->mass;
    for (int k = 0; k < DIMENSIONS; k++)
        sum->moments[k] += part->moments[k];
}

/* The cell of `level` that holds items[low .. high), which is not empty, and all below it. Bodies with
 * the same key become one leaf. */
static void build_cell(tree_t *tree, const item_t *items, size_t low, size_t high, int level)
{
    size_t own = tree->used++;
    if (tree->used > tree->room) {
        tree->room = 2 * tree->used + 64;
        tree->nodes = resize(tree->nodes, tree->room, sizeof *tree->nodes);
    }
    uint64_t below = ((uint64_t)1 << 3 * (LEVELS - level)) - 1;
    node_t node = {{items[low].key & ~below, level, 0, 0, {0, 0, 0}}, 0, 0};
    if (high - low == 1 && (items[low].count == 1 || items[low].level == level)) {
        node.cell = items[low];
        node.sealed = node.cell.count > 1 && level < LEVELS;
    } else if (level == LEVELS) {
        for (size_t i = low; i < high; i++)
            add(&node.cell, &items[i]);
    } else {
        int shift = 3 * (LEVELS - 1 - level);
        while (low < high) {
            size_t end = low + 1, child = tree->used;
            while (end < high && items[end].key >> shift == items[low].key >> shift)
                end++;
            build_cell(tree, items, low, end, level + 1);
            add(&node.cell, &tree->nodes[child].cell);
            low = end;
        }
    }
    node.next = tree->used;
    tree->nodes[own] = node;
}

static void build_tree(tree_t *tree, const item_t *items, size_t count, double edge)
{
    tree->used = 0;
    tree->edge = edge;
    if (count > 0)
        build_cell(tree, items, 0, count, 0);
}

/* One function for both walks: whoever sends a cell as a whole has to round as whoever uses it. */
static double squared_length(const double *d)
{
    return d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
}

static int is_far(const tree_t *tree, const item_t *cell, double squared)
{
    double edge = ldexp(tree->edge, -cell->level);
    return edge * edge < OPENING * OPENING * squared;
}

static int is_leaf(const tree_t *tree, size_t index)
{
    return tree->nodes[index].next == index + 1 && !tree->nodes[index].sealed;
}

typedef struct {
    double acceleration[DIMENSIONS], potential;
    long terms;  /* bodies and cells that it is a sum of */
    int missing; /* sealed cells that had to be opened */
} pull_t;

/* What pulls at the body with this key; bodies in the same cell of the last level do not. */
static pull_t pull_at(const tree_t *tree, const double *here, uint64_t key)
{
    pull_t pull = {{0, 0, 0}, 0, 0, 0};
    for (size_t i = 0; i < tree->used;) {
        const node_t *node = &tree->nodes[i];
        const item_t *cell = &node->cell;
        double d[DIMENSIONS];
        for (int k = 0; k < DIMENSIONS; k++)
            d[k] = cell->moments[k] / cell->mass - here[k];
        double squared = squared_length(d);
        int leaf = is_leaf(tree, i);
        if (!leaf && !is_far(tree, cell, squared)) {
            pull.missing += node->sealed;
            i++;
            continue;
        }
        i = node->next;
        if (leaf && cell->key == key)
            continue;
        double inverse = 1 / sqrt(squared + SOFTENING * SOFTENING);
        double strength = cell->mass * inverse * inverse * inverse;
        for (int k = 0; k < DIMENSIONS; k++)
            pull.acceleration[k] += strength * d[k];
        pull.potential -= cell->mass * inverse;
        pull.terms++;
    }
    return pull;
}

/* Appends to `items` what bodies anywhere in `box` need of the tree of one rank, which has all bodies with
 * keys in [first, end): the cells that are far from all of the box, else bodies. In Morton order. */
static size_t essential(const tree_t *tree, const box_t *box, uint64_t first, uint64_t end,
                        item_t *items)
{
    size_t count = 0;
    for (size_t i = 0; i < tree->used;) {
        const item_t *cell = &tree->nodes[i].cell;
        double d[DIMENSIONS];
        for (int k = 0; k < DIMENSIONS; k++) {
            double centre = cell->moments[k] / cell->mass;
            d[k] = fmax(0, fmax(box->low[k] - centre, centre - box->high[k]));
        }
        int leaf = is_leaf(tree, i);
        int whole = cell->key >= first && last_key(cell) < end;
        if (leaf || (whole && is_far(tree, cell, squared_length(d)))) {
            items[count++] = *cell;
            i = tree->nodes[i].next;
        } else {
            i++;
        }
    }
    return count;
}

#endif
