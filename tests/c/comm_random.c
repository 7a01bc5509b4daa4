/* Communicators drawn at random: duplicated, split, made of groups, merged, given attributes whose
 * callbacks communicate, freed in any order, used after errors that were handled and by two threads at
 * a time, while some ranks are late. Every rank knows the members of every communicator, and so what
 * each collective must bring.
 *
 *     mpirun -n P comm_random SEED [steps, default 200] [first step that prints itself, none]
 */
#include "comm_model.h"

#include <pthread.h>
#include <unistd.h>

/* An empty place of the table, or NULL. */
static member_t *place(void)
{
    for (int i = 0; i < COMMS; i++)
        if (!table[i].live)
            return &table[i];
    return NULL;
}

static member_t *draw_live(draw_t *shared)
{
    for (;;) {
        member_t *comm = &table[below(shared, COMMS)];
        if (comm->live)
            return comm;
    }
}

static member_t *added(member_t *comm, MPI_Comm handle)
{
    comm->handle = handle;
    comm->live = 1;
    comm->callback = 0;
    check_members(comm);
    return comm;
}

/* A duplicate, which copies the attribute. */
static void duplicate(draw_t *shared)
{
    member_t *from = draw_live(shared), *to = place();
    int with_info = chance(shared, 20);
    MPI_Comm handle = MPI_COMM_NULL;
    if (to == NULL)
        return;
    memcpy(to->order, from->order, sizeof to->order);
    to->size = from->size;
    if (from->handle != MPI_COMM_NULL) {
        if (with_info)
            MPI_Comm_dup_with_info(from->handle, MPI_INFO_NULL, &handle);
        else
            MPI_Comm_dup(from->handle, &handle);
    }
    added(to, handle);
    to->callback = from->callback;
    if (to->callback && handle != MPI_COMM_NULL)
        MPI_Comm_set_attr(handle, delete_key, to); /* deletes the copy, in which `from` lives on */
}

/* Parts of a communicator, in any order; those that the table has no place for are freed at once. */
static void split(draw_t *shared)
{
    member_t *from = draw_live(shared);
    int colors[RANKS], keys[RANKS], parts = 1 + (int)below(shared, 3), mine = rank_in(from, world_rank);
    for (int i = 0; i < from->size; i++) {
        colors[i] = chance(shared, 10) ? -1 : (int)below(shared, parts);
        keys[i] = (int)below(shared, 100) * RANKS + i;
    }
    MPI_Comm handle = MPI_COMM_NULL;
    if (mine >= 0)
        MPI_Comm_split(from->handle, colors[mine] < 0 ? MPI_UNDEFINED : colors[mine], keys[mine], &handle);
    member_t parent = *from;
    for (int color = 0; color < parts; color++) {
        member_t *to = place(), lost = {.handle = MPI_COMM_NULL};
        member_t *part = to != NULL ? to : &lost;
        part->size = 0;
        for (int key = 0; key < 100 * RANKS; key++)
            for (int i = 0; i < parent.size; i++)
                if (colors[i] == color && keys[i] == key)
                    part->order[part->size++] = parent.order[i];
        int within = rank_in(part, world_rank) >= 0;
        if (part->size == 0)
            continue;
        if (to != NULL)
            added(to, within ? handle : MPI_COMM_NULL);
        else if (within)
            MPI_Comm_free(&handle);
    }
}

/* A communicator of some ranks of another, which the others do not take part in. */
static void of_group(draw_t *shared)
{
    member_t *from = draw_live(shared), *to = place();
    /* MPI_Comm_create_group copies attributes in Open MPI, which it must not. */
    int chosen[RANKS], count = 0, collective = chance(shared, 50) || from->callback;
    for (int i = 0; i < from->size; i++)
        if (chance(shared, 60))
            chosen[count++] = i;
    if (to == NULL || count == 0)
        return;
    to->size = count;
    for (int i = 0; i < count; i++)
        to->order[i] = from->order[chosen[i]];
    MPI_Comm handle = MPI_COMM_NULL;
    if (from->handle != MPI_COMM_NULL) {
        MPI_Group all, some;
        MPI_Comm_group(from->handle, &all);
        MPI_Group_incl(all, count, chosen, &some);
        if (collective)
            MPI_Comm_create(from->handle, some, &handle);
        else if (rank_in(to, world_rank) >= 0)
            MPI_Comm_create_group(from->handle, some, TAG, &handle);
        MPI_Group_free(&all);
        MPI_Group_free(&some);
    }
    added(to, handle);
}

/* `to` becomes what two halves of `from` make, joined and merged again, the upper one first. */
static void join(const member_t *from, member_t *to)
{
    int half = from->size / 2, mine = rank_in(from, world_rank);
    to->size = from->size;
    for (int i = 0; i < from->size; i++)
        to->order[i] = from->order[(i + half) % from->size];
    MPI_Comm handle = MPI_COMM_NULL, part, between;
    if (mine >= 0) {
        int low = mine < half, value = 1, sum = 0;
        MPI_Comm_split(from->handle, low, mine, &part);
        MPI_Intercomm_create(part, 0, from->handle, low ? half : 0, TAG, &between);
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, between);
        expect(sum == (low ? from->size - half : half), "a sum of the other side", sum, half);
        MPI_Intercomm_merge(between, low, &handle);
        MPI_Comm_free(&between);
        MPI_Comm_free(&part);
    }
    added(to, handle);
}

static void merge(draw_t *shared)
{
    member_t *from = draw_live(shared), *to = place();
    if (to != NULL && from->size >= 2)
        join(from, to);
}

static void set_attribute(draw_t *shared)
{
    member_t *comm = draw_live(shared);
    if (comm == &table[0] || comm->callback)
        return;
    comm->callback = 1;
    if (comm->handle != MPI_COMM_NULL)
        MPI_Comm_set_attr(comm->handle, delete_key, comm);
}

static void release(draw_t *shared)
{
    member_t *comm = draw_live(shared);
    int disconnects = chance(shared, 20), before = deletions, within = comm->handle != MPI_COMM_NULL;
    if (comm == &table[0])
        return;
    if (within && disconnects)
        MPI_Comm_disconnect(&comm->handle);
    else if (within)
        MPI_Comm_free(&comm->handle);
    expect(!within || deletions - before == comm->callback, "callbacks", deletions - before, comm->callback);
    comm->live = 0;
}

/* An error that every rank gets and handles. On a duplicate, as the host runs the communicator's later calls. */
static void wrong(const member_t *comm, int kind)
{
    int code, class = MPI_SUCCESS;
    unsigned char byte = 0;
    MPI_Comm duplicate;
    MPI_Comm_dup(comm->handle, &duplicate);
    MPI_Comm_set_errhandler(duplicate, MPI_ERRORS_RETURN);
    if (kind == 0)
        code = MPI_Bcast(&byte, 1, MPI_BYTE, comm->size, duplicate);
    else if (kind == 1)
        code = MPI_Bcast(&byte, -1, MPI_BYTE, 0, duplicate);
    else
        code = MPI_Allreduce(MPI_IN_PLACE, &byte, 1, MPI_BYTE, MPI_OP_NULL, duplicate);
    MPI_Error_class(code, &class);
    int wanted = kind == 0 ? MPI_ERR_ROOT : kind == 1 ? MPI_ERR_COUNT : MPI_ERR_OP;
    expect(class == wanted, "the class of an error", class, wanted);
    MPI_Comm_free(&duplicate);
}

static void fail(draw_t *shared)
{
    const member_t *comm = draw_live(shared);
    int kind = (int)below(shared, 3);
    if (comm->handle != MPI_COMM_NULL)
        wrong(comm, kind);
}

/* What is never drawn in some programs: a merge, an error, a callback that communicates. */
static void always(void)
{
    static member_t merged;
    snprintf(context, sizeof context, "last communicator");
    join(&table[0], &merged);
    MPI_Comm_set_attr(merged.handle, delete_key, &merged);
    call(&merged, 3, 0, 0, round_number++);
    wrong(&merged, 0);
    MPI_Comm_free(&merged.handle);
}

/* What one of two threads does: it uses every second communicator, in the same order on all ranks. */
typedef struct { int odd; draw_t draw; long round; } half_t;

static void *use_half(void *argument)
{
    half_t *half = argument;
    for (int i = 1 + half->odd; i < COMMS; i += 2) {
        draw_t draw = {half->draw.state + (uint64_t)i * 0x9e3779b97f4a7c15u};
        if (table[i].live)
            use(&table[i], draw, half->round + i);
    }
    return NULL;
}

static void use_all(draw_t *shared)
{
    half_t halves[2];
    pthread_t other;
    for (int odd = 0; odd < 2; odd++)
        halves[odd] = (half_t){odd, {(uint64_t)below(shared, 1L << 40)}, round_number};
    round_number += COMMS;
    if (threads_allowed && pthread_create(&other, NULL, use_half, &halves[1]) == 0) {
        use_half(&halves[0]);
        pthread_join(other, NULL);
    } else {
        use_half(&halves[0]);
        use_half(&halves[1]);
    }
}

static void step(uint64_t seed, int number)
{
    static void (*const acts[])(draw_t *) = {duplicate, split, of_group, merge, set_attribute, release,
                                             release, release, fail};
    static const char *const names[] = {"dup", "split", "group", "merge", "attribute", "free", "free", "free",
                                        "error"};
    draw_t shared = stream(seed, (uint64_t)number, 0, 0), own = stream(seed, (uint64_t)number, 1, world_rank);
    size_t act = (size_t)below(&shared, sizeof acts / sizeof *acts);
    int late = chance(&shared, 8);
    snprintf(context, sizeof context, "seed %llu, step %d, %s", (unsigned long long)seed, number, names[act]);
    if (late && chance(&own, 40))
        usleep((useconds_t)below(&own, 30000));
    acts[act](&shared);
    for (int i = (int)below(&shared, 3); i > 0; i--) {
        draw_t draw = {(uint64_t)below(&shared, 1L << 40)};
        use(draw_live(&shared), draw, round_number++);
    }
    if (chance(&shared, 10))
        use_all(&shared);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (argc < 2 || world_size > RANKS) {
        fprintf(stderr, "usage: comm_random SEED [STEPS] [FIRST STEP THAT IS PRINTED], up to %d ranks\n", RANKS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    uint64_t seed = strtoull(argv[1], NULL, 10);
    int steps = argc > 2 ? atoi(argv[2]) : 200, printed = argc > 3 ? atoi(argv[3]) : steps;
    threads_allowed = provided == MPI_THREAD_MULTIPLE;
    MPI_Comm_create_keyval(on_copy, on_delete, &delete_key, NULL);
    table[0].size = world_size;
    for (int i = 0; i < world_size; i++)
        table[0].order[i] = i;
    added(&table[0], MPI_COMM_WORLD);
    for (int number = 0; number < steps; number++) {
        step(seed, number);
        if (number >= printed)
            fprintf(stderr, "rank %d: %s\n", world_rank, context);
    }
    if (world_size > 1)
        always();
    /* Some communicators are never freed. */
    MPI_Comm_free_keyval(&delete_key);
    return finish("comm_random");
}
