/* The neighbourhood collectives on random topologies: grids with sides of any length, closed or not, graphs with several edges
 * between two ranks, edges of a rank to itself, and ranks without any. Blocks of any lengths, with gaps, of a type for each
 * neighbour. Between them, others on the same communicators.
 *
 *     mpirun -n P neighborhoods SEED ROUNDS
 *
 * MPICH 4.0 by itself fails, and so does Open MPI 4.1 with non-blocking ones: where two ranks are neighbours twice they mix up
 * blocks. */
#include "check.h"

enum { RANKS = 16, EDGES = 64, LEVEL = 40000 };

static uint64_t state;

static int draw(int below)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int)((z ^ (z >> 31)) % (uint64_t)below);
}

/* What each rank of a communicator knows of it. Of a grid it does not need the edges. */
struct topology {
    MPI_Comm comm;
    int rank, size, is_grid, edges, from[EDGES], to[EDGES];
    int in, out, source[EDGES], destination[EDGES];
};

/* This round's lengths: those of blocks differ in some forms. */
static long round_number;
static int longest;

static int length(int from, int edge)
{
    int kind = pattern(round_number, from, (size_t)edge) % 5;
    return kind == 0 ? 0 : kind == 1 ? 1 : kind == 2 ? longest : longest / kind;
}

static int value(int from, int edge, int at)
{
    return (int)((round_number * 131 + from) * 8191 + edge * 127 + at);
}

/* The sender's number of the block that is this rank's `edge` from `from`. */
static int number_there(const struct topology *t, int edge)
{
    int nth = 0, there = 0, from = t->source[edge];
    if (t->is_grid)
        return edge ^ 1;
    for (int i = 0; i < edge; i++)
        nth += t->source[i] == from;
    for (int i = 0; i < t->edges; i++)
        if (t->from[i] == from) {
            if (t->to[i] == t->rank && nth-- == 0)
                return there;
            there++;
        }
    return -1;
}

static void grid(struct topology *t, MPI_Comm all)
{
    int size, dims[3] = {0, 0, 0}, closed[3], dimensions = 1 + draw(3), fewer = draw(2);
    MPI_Comm_size(all, &size);
    size = size > 1 && fewer ? size - 1 : size;
    dims[draw(dimensions)] = draw(2) && dimensions > 1 && size % 2 == 0 ? 2 : 0;
    MPI_Dims_create(size, dimensions, dims);
    for (int i = 0; i < dimensions; i++)
        closed[i] = draw(2);
    MPI_Cart_create(all, dimensions, dims, closed, draw(2), &t->comm);
    t->is_grid = 1;
    if (t->comm == MPI_COMM_NULL)
        return;
    t->in = t->out = 2 * dimensions;
    for (int i = 0; i < dimensions; i++) {
        MPI_Cart_shift(t->comm, i, 1, &t->source[2 * i], &t->source[2 * i + 1]);
        memcpy(t->destination, t->source, sizeof t->source);
    }
}

static void find_neighbours(struct topology *t, int rank)
{
    for (int i = 0; i < t->edges; i++) {
        if (t->from[i] == rank)
            t->destination[t->out++] = t->to[i];
        if (t->to[i] == rank)
            t->source[t->in++] = t->from[i];
    }
}

static void dist_graph(struct topology *t, MPI_Comm all)
{
    int rank, size, weights[EDGES] = {0};
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    t->edges = draw(4 * size < EDGES ? 4 * size : EDGES);
    for (int i = 0; i < t->edges; i++) {
        t->from[i] = draw(size);
        t->to[i] = draw(size);
    }
    find_neighbours(t, rank);
    int *weight = draw(2) ? weights : MPI_UNWEIGHTED;
    MPI_Dist_graph_create_adjacent(all, t->in, t->source, weight, t->out, t->destination, weight,
                                   MPI_INFO_NULL, 0, &t->comm);
}

/* Edges have two directions here; those of each rank are together. */
static void graph(struct topology *t, MPI_Comm all)
{
    int rank, size, twice[RANKS][RANKS] = {{0}}, index[RANKS];
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    for (int i = draw(2 * size); i > 0; i--) {
        int one = draw(size), other = draw(size);
        twice[one][other]++;
        twice[other][one] += one != other;
    }
    for (int i = 0; i < size; i++) {
        for (int j = 0; j < size; j++)
            for (int k = 0; k < twice[i][j] && t->edges < EDGES; k++) {
                t->from[t->edges] = i;
                t->to[t->edges++] = j;
            }
        index[i] = t->edges;
    }
    find_neighbours(t, rank);
    memcpy(t->source, t->destination, sizeof t->source);
    MPI_Graph_create(all, size, index, t->to, 0, &t->comm);
}

/* Blocks of one side: of `stride` integers for each of theirs, `room` apart, the last first if `turned`. */
struct side {
    int *data, stride, room, turned, blocks;
    int counts[EDGES], at[EDGES];
    MPI_Aint bytes[EDGES];
    MPI_Datatype type, types[EDGES];
};

static void make_side(struct side *side, int blocks, int stride, int turned)
{
    MPI_Datatype piece;
    memset(side, 0, sizeof *side);
    side->stride = stride;
    side->room = stride * (longest + 2);
    side->turned = turned;
    side->blocks = blocks;
    size_t room = (size_t)(blocks + 1) * (size_t)side->room;
    side->data = must(malloc(room * sizeof(int)));
    for (size_t at = 0; at < room; at++)
        side->data[at] = -1;
    MPI_Type_dup(MPI_INT, &piece);
    MPI_Type_create_resized(piece, 0, stride * (MPI_Aint)sizeof(int), &side->type);
    MPI_Type_free(&piece);
    MPI_Type_commit(&side->type);
}

static int *block(const struct side *side, int index)
{
    return side->data + (size_t)(side->turned ? side->blocks - 1 - index : index) * (size_t)side->room;
}

/* Block `index` has so many integers, in arrays as well: of the side's type, or of one of its own. */
static void describe(struct side *side, int index, int integers)
{
    int first = (int)(block(side, index) - side->data);
    side->counts[index] = integers;
    side->at[index] = first / side->stride;
    side->bytes[index] = first * (MPI_Aint)sizeof(int);
    side->types[index] = side->type;
}

static void free_side(struct side *side)
{
    MPI_Type_free(&side->type);
    free(side->data);
}

/* Has exactly `integers` of what `from` sent as its block `edge` arrived at `got`, and gaps stayed? */
static void expect_block(const struct side *side, const int *got, int integers, int from, int edge)
{
    for (int at = 0; at < integers * side->stride; at++) {
        int is_gap = at % side->stride != 0, wanted = is_gap ? -1 : value(from, edge, at / side->stride);
        if (got[at] != wanted) {
            expect(0, "wrong integer of block", from, edge);
            return;
        }
    }
    expect(got[integers * side->stride] == -1, "beyond a block", from, edge);
}

enum { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, FORMS };
static const char *const names[] = {"allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"};

static void call(const struct topology *t, int form, struct side *out, struct side *in, int n)
{
    MPI_Comm c = t->comm;
    const int *s = out->data;
    int *r = in->data;
    switch (form) {
    case ALLGATHER:
        MPI_Neighbor_allgather(s, n, out->type, r, n, in->type, c);
        break;
    case ALLGATHERV:
        MPI_Neighbor_allgatherv(s, n, out->type, r, in->counts, in->at, in->type, c);
        break;
    case ALLTOALL:
        MPI_Neighbor_alltoall(s, n, out->type, r, n, in->type, c);
        break;
    case ALLTOALLV:
        MPI_Neighbor_alltoallv(s, out->counts, out->at, out->type, r, in->counts, in->at, in->type, c);
        break;
    default:
        MPI_Neighbor_alltoallw(s, out->counts, out->bytes, out->types, r, in->counts, in->bytes,
                               in->types, c);
    }
}

/* One call: every rank draws the same. */
static void exchange(const struct topology *t, int form)
{
    struct side out, in;
    int own = draw(1000), varies = form == ALLTOALLV || form == ALLTOALLW;
    int same = form == ALLGATHER || form == ALLGATHERV;
    /* Blocks of one length follow each other. */
    int even = form == ALLGATHER || form == ALLTOALL;
    make_side(&out, t->out, 1 + draw(2), varies && draw(2));
    make_side(&in, t->in, 1 + draw(2), !even && draw(2));
    int n = even ? longest : length(own, 0);
    /* Of all ranks the same in an all-gather with arrays, as in the others of one length. */
    for (int i = 0; i < (same ? 1 : t->out); i++) {
        int integers = varies ? length(t->rank, i) : n;
        if (!varies && !same)
            out.room = integers * out.stride;
        int *to = block(&out, i);
        for (int at = 0; at < integers; at++)
            to[at * out.stride] = value(t->rank, i, at);
        if (i < t->out)
            describe(&out, i, integers);
    }
    if (even)
        in.room = n * in.stride;
    for (int i = 0; i < t->in; i++) {
        int from = t->source[i];
        describe(&in, i, varies && from >= 0 ? length(from, number_there(t, i)) : n);
    }
    snprintf(context, sizeof context, "round %ld, %s of %d in %s", round_number, names[form], longest,
             t->is_grid ? "a grid" : "a graph");
    call(t, form, &out, &in, n);
    for (int i = 0; i < t->in; i++) {
        int from = t->source[i], edge = same || from < 0 ? 0 : number_there(t, i);
        if (from >= 0 && even && i + 1 < t->in && n > 0)
            expect(block(&in, i)[0] == value(from, edge, 0) &&
                       block(&in, i)[(n - 1) * in.stride] == value(from, edge, n - 1),
                   "wrong ends of block", from, edge);
        else if (from >= 0)
            expect_block(&in, block(&in, i), in.counts[i], from, edge);
        else if (in.counts[i] > 0)
            expect(block(&in, i)[0] == -1, "a block from nobody", i, 0);
    }
    free_side(&out);
    free_side(&in);
}

static void other(const struct topology *t)
{
    int ones[2] = {1, 1}, sums[2] = {0, 0};
    MPI_Allreduce(ones, sums, 2, MPI_INT, MPI_SUM, t->comm);
    expect(sums[1] == t->size, "a sum between", sums[1], t->size);
}

int main(int argc, char **argv)
{
    int size, lengths[] = {0, 1, 3, 100, 1000, 1100, 3000, 20000, LEVEL};
    MPI_Init(&argc, &argv);
    state = argc > 1 ? (uint64_t)atol(argv[1]) : 1;
    long rounds = argc > 2 ? atol(argv[2]) : 20;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > RANKS)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (round_number = 0; round_number < rounds; round_number++) {
        struct topology t = {0};
        int kind = draw(4);
        if (kind < 2)
            grid(&t, MPI_COMM_WORLD);
        else if (kind == 2)
            graph(&t, MPI_COMM_WORLD);
        else
            dist_graph(&t, MPI_COMM_WORLD);
        /* Also those that are not in it draw. */
        uint64_t of_round = state;
        if (t.comm != MPI_COMM_NULL) {
            MPI_Comm_rank(t.comm, &t.rank);
            MPI_Comm_size(t.comm, &t.size);
            for (int calls = 1 + draw(6); calls > 0; calls--) {
                longest = lengths[draw(sizeof lengths / sizeof *lengths)];
                if (draw(3) == 0)
                    other(&t);
                exchange(&t, draw(FORMS));
            }
            MPI_Comm_free(&t.comm);
        }
        state = of_round + 977;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return finish("neighborhoods");
}
