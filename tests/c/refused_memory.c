/* Calls in which the system refuses rank 1 large memory, once for each piece that ferrorail asks for
 * (aids/fail_step.c): derived types in collectives, elements of a program's operation, types with a long
 * description, and operations on a window with such types. Rank 1 gets MPI_ERR_NO_MEM or is served all the same;
 * each other rank has what it should or an error; no call takes for ever.
 *
 * refused_memory */
#include "check.h"

enum { LONG_BLOCKS = 8000, TRIES_MAX = 40 };

/* Ints of an element with gaps: more in each call, as memory that a call had is used again where it suffices. */
static int blocks;

static int (*refuse)(int); /* the n-th large allocation from now on; whether the last one told of has not come */
static int rank, ranks;

/* Ints with a gap after each. */
static MPI_Datatype with_gaps(void)
{
    MPI_Datatype type;
    MPI_Type_vector(blocks, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

/* LONG_BLOCKS ints, each at a place of its own: no two gaps in a row are alike. */
static MPI_Datatype long_description(void)
{
    static int places[LONG_BLOCKS], lengths[LONG_BLOCKS];
    MPI_Datatype type;
    for (int i = 0, at = 0; i < LONG_BLOCKS; at += 2 + (i % 3 == 0), i++) {
        places[i] = at;
        lengths[i] = 1;
    }
    MPI_Type_indexed(LONG_BLOCKS, lengths, places, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

/* A call with `type`, of which one element is sent from `in` or received at `out`. */
typedef struct {
    MPI_Comm comm;
    MPI_Win win;
    MPI_Datatype type;
    MPI_Op op;
    int *in, *out;
} Place;

static int gather_all(const Place *at)
{
    return MPI_Allgather(at->in, 1, at->type, at->out, 1, at->type, at->comm);
}

static int from_0(const Place *at)
{
    return MPI_Bcast(rank == 0 ? at->in : at->out, 1, at->type, 0, at->comm);
}

static int from_1(const Place *at)
{
    return MPI_Bcast(rank == 1 ? at->in : at->out, 1, at->type, 1, at->comm);
}

static int to_0(const Place *at)
{
    return MPI_Gather(at->in, 1, at->type, at->out, 1, at->type, 0, at->comm);
}

static int exchange(const Place *at)
{
    int ones[8] = {1, 1, 1, 1, 1, 1, 1, 1}, none[8] = {0}, places[8];
    for (int r = 0; r < ranks; r++)
        places[r] = r;
    return MPI_Alltoallv(at->in, ones, none, at->type, at->out, ones, places, at->type, at->comm);
}

static int reduce_all(const Place *at)
{
    return MPI_Allreduce(at->in, at->out, 1, at->type, at->op, at->comm);
}

/* In an epoch of its own, on rank 0's part, by rank 1 alone. */
static int on_window(const Place *at, int (*call)(const Place *))
{
    int code = MPI_SUCCESS;
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, at->win);
        code = call(at);
        MPI_Win_unlock(0, at->win);
    }
    return code;
}

static int do_put(const Place *at)
{
    return MPI_Put(at->in, 1, at->type, 0, 0, 1, at->type, at->win);
}

static int do_accumulate(const Place *at)
{
    return MPI_Accumulate(at->in, 1, at->type, 0, 0, 1, at->type, MPI_REPLACE, at->win);
}

static int do_sum(const Place *at)
{
    return MPI_Accumulate(at->in, 1, at->type, 0, 0, 1, at->type, MPI_SUM, at->win);
}

static int put(const Place *at)
{
    return on_window(at, do_put);
}

static int accumulate(const Place *at)
{
    return on_window(at, do_accumulate);
}

static int sum(const Place *at)
{
    return on_window(at, do_sum);
}

/* Who sent element `index` of what this rank receives; -1 if nobody, -2 if all do, added up. */
enum { NOBODY = -1, ALL = -2 };

static int each(int index)
{
    return index;
}

static int first(int index)
{
    return index == 0 && rank != 0 ? 0 : NOBODY;
}

static int second(int index)
{
    return index == 0 && rank != 1 ? 1 : NOBODY;
}

static int each_at_0(int index)
{
    return rank == 0 ? index : NOBODY;
}

static int all_of_them(int index)
{
    return index == 0 ? ALL : NOBODY;
}

static int second_at_0(int index)
{
    return index == 0 && rank == 0 ? 1 : NOBODY;
}

static const struct {
    const char *name;
    int (*call)(const Place *);
    int (*sender)(int);
    MPI_Datatype (*type)(void);
    int blocks, wants_window;
} kinds[] = {
    {"broadcast from 0", from_0, first, with_gaps, 40000, 0},
    {"broadcast from 1", from_1, second, with_gaps, 50000, 0},
    {"gather", to_0, each_at_0, with_gaps, 60000, 0},
    {"all-reduce", reduce_all, all_of_them, with_gaps, 70000, 0},
    {"all-gather", gather_all, each, with_gaps, 90000, 0},
    {"all-to-all", exchange, each, with_gaps, 300000, 0},
    {"all-gather of a long type", gather_all, each, long_description, 0, 0},
    {"put of a long type", put, second_at_0, long_description, 0, 1},
    {"accumulate", accumulate, second_at_0, with_gaps, 40000, 1},
    {"accumulate of a long type", accumulate, second_at_0, long_description, 0, 1},
    {"sum", sum, second_at_0, with_gaps, 40000, 1},
};

static MPI_Datatype type_in_use;

/* Calls `act` with each place of an element's ints. */
static void each_int(int *element, void (*act)(int *, int), int argument)
{
    int number, extent;
    MPI_Aint low, wide;
    MPI_Type_size(type_in_use, &number);
    MPI_Type_get_extent(type_in_use, &low, &wide);
    extent = (int)(wide / (MPI_Aint)sizeof(int));
    number /= (int)sizeof(int);
    for (int i = 0, at = 0; i < number; i++) {
        act(element + at, argument + i);
        at += number == blocks ? 2 : 2 + (i % 3 == 0);
        if (at > extent + 2)
            MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void set(int *at, int value)
{
    *at = value;
}

static int unlike;

static void compare(int *at, int value)
{
    unlike += *at != value;
}

static int factor;

static void compare_sum(int *at, int value)
{
    unlike += *at != factor * value;
}

/* The program's operation, on elements with gaps. */
static void add(void *in, void *into, int *length, MPI_Datatype *type)
{
    (void)type;
    for (int e = 0; e < *length; e++)
        for (int i = 0; i < blocks; i++) {
            size_t at = (size_t)e * (2 * (size_t)blocks - 1) + 2 * (size_t)i;
            ((int *)into)[at] += ((int *)in)[at];
        }
}

/* What rank r sends: 1000 r and up, but the same for all where it is added up. */
static int value_of(int sender)
{
    return sender == ALL ? 7 : 1000 * sender;
}

/* One call, of which rank 1's n-th large allocation fails. Whether there was such a one. */
static int attempt(size_t k, int n)
{
    blocks = kinds[k].blocks + 500 * n;
    Place at = {.type = kinds[k].type()};
    MPI_Aint low, wide;
    type_in_use = at.type;
    MPI_Type_get_extent(at.type, &low, &wide);
    at.in = must(calloc(1, (size_t)wide));
    at.out = must(calloc((size_t)ranks, (size_t)wide));
    each_int(at.in, set, kinds[k].sender == all_of_them ? value_of(ALL) : value_of(rank));
    MPI_Comm_dup(MPI_COMM_WORLD, &at.comm);
    MPI_Comm_set_errhandler(at.comm, MPI_ERRORS_RETURN);
    MPI_Op_create(add, 1, &at.op);
    if (kinds[k].wants_window) {
        MPI_Win_create(at.out, wide * ranks, sizeof(int), MPI_INFO_NULL, at.comm, &at.win);
        MPI_Win_set_errhandler(at.win, MPI_ERRORS_RETURN);
    } else {
        MPI_Barrier(at.comm);
    }
    snprintf(context, sizeof context, "%s, allocation %d", kinds[k].name, n);
    if (rank == 1 && refuse != NULL)
        refuse(n);
    int code = kinds[k].call(&at), class, refused = 0;
    MPI_Error_class(code, &class);
    if (rank == 1 && refuse != NULL)
        refused = !refuse(0);
    if (rank == 1 && class != MPI_SUCCESS)
        expect(refused && class == MPI_ERR_NO_MEM, "the class of an error", class, refused);
    int mine[2] = {refused, class != MPI_SUCCESS}, all[2];
    HOST(Allreduce)(mine, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (!all[0])
        expect(class == MPI_SUCCESS, "an error without a reason", class, 0);
    int there = kinds[k].wants_window ? !all[1] : class == MPI_SUCCESS;
    unlike = 0;
    factor = ranks;
    for (int index = 0; there && index < ranks; index++) {
        int sender = kinds[k].sender(index);
        int *element = at.out + (size_t)index * (size_t)wide / sizeof(int);
        if (sender != NOBODY)
            each_int(element, sender == ALL ? compare_sum : compare, value_of(sender));
    }
    expect(unlike == 0, "wrong numbers", unlike, 0);
    if (kinds[k].wants_window)
        MPI_Win_free(&at.win);
    MPI_Op_free(&at.op);
    MPI_Comm_free(&at.comm);
    MPI_Type_free(&at.type);
    free(at.in);
    free(at.out);
    return all[0];
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    *(void **)&refuse = dlsym(RTLD_DEFAULT, "refuse_allocation");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int n = 1;
        while (attempt(k, n) && n < TRIES_MAX)
            n++;
        if (rank == 0)
            printf("%s: %d refused\n", kinds[k].name, n - 1);
    }
    return finish("refused_memory");
}
