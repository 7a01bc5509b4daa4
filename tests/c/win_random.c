/* Random programs of one-sided communication against a sequential model that every rank keeps of
 * all windows: each location is used by one origin per epoch, or by accumulates whose order does
 * not matter. Compared are all window memory, what was fetched, and the bytes around both.
 *
 *     mpirun -n P win_random SEED [EPOCHS (100)] [MOST BYTES (100000)] [host]
 *
 * `host` leaves out what MPICH 4.0 gets wrong without ferrorail. WIN_RANDOM_TRACE=1 in the
 * environment shows what is done.
 */
#include "win_draw.h"
#include "win_steps.h"

static MPI_Comm draw_communicator(draw_t *draw)
{
    MPI_Comm comm;
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (chance(draw, 55)) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        return comm;
    }
    int colours = 1 + (int)below(draw, 2), sign = chance(draw, 50) ? 1 : -1, blocks = chance(draw, 50);
    MPI_Comm_split(MPI_COMM_WORLD, blocks ? rank * colours / size : rank % colours, sign * rank, &comm);
    return comm;
}

/* The lowest rank in the world of a communicator: what distinguishes the parts of a split. */
static int part_of(MPI_Comm comm)
{
    int mine, least;
    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
    MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, comm);
    return least;
}

static MPI_Aint draw_size(draw_t *draw, long most)
{
    const long classes[] = {64, 4096, 4096, 40000, 40000, most};
    long limit = classes[below(draw, 6)];
    return chance(draw, 8) ? 0 : 1 + below(draw, limit < most ? limit : most);
}

static void create(window_t *w, MPI_Comm comm)
{
    snprintf(context, sizeof context, "creation before epoch %d", step_number + 1);
    MPI_Aint bytes = w->bytes[w->rank];
    int unit = w->unit[w->rank];
    if (!strcmp(w->kind, "create")) {
        w->block = must(malloc((size_t)bytes + 2 * GUARD));
        memset(w->block, 0x5a, (size_t)bytes + 2 * GUARD);
        w->memory = w->block + GUARD;
        MPI_Win_create(w->memory, bytes, unit, MPI_INFO_NULL, comm, &w->win);
    } else if (!strcmp(w->kind, "allocate")) {
        MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, comm, &w->memory, &w->win);
    } else {
        MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, comm, &w->memory, &w->win);
        for (int r = 0; r < w->size; r++) {
            MPI_Aint there;
            int its;
            MPI_Win_shared_query(w->win, r, &there, &its, &w->peers[r]);
            /* MPICH has no unit for nothing. */
            int known = its == w->unit[r] || (for_host && there == 0);
            expect(there == w->bytes[r] && known, "shared_query", there, its);
        }
    }
}

static void make_window(window_t *w, MPI_Comm comm, int number, draw_t *draw, long most)
{
    const char *kinds[] = {"create", "allocate", "shared"};
    const int units[] = {1, 1, 2, 4, 8, 8, 16, 3, 24};
    *w = (window_t){.kind = kinds[below(draw, 3)], .number = number};
    MPI_Comm_rank(comm, &w->rank);
    MPI_Comm_size(comm, &w->size);
    w->shared = !strcmp(w->kind, "shared");
    int alike = chance(draw, 30) || (for_host && !strcmp(w->kind, "allocate"));
    for (int r = 0; r < w->size; r++) {
        MPI_Aint bytes = draw_size(draw, most);
        /* Segments of a shared window follow each other: the next one is to be aligned. */
        w->bytes[r] = alike && r > 0 ? w->bytes[0] : w->shared || for_host ? (bytes + 15) / 16 * 16 : bytes;
        w->unit[r] = units[below(draw, sizeof units / sizeof *units)];
        w->model[r] = must(malloc((size_t)w->bytes[r] + 1));
        w->use[r] = must(calloc((size_t)w->bytes[r] + 1, sizeof(use_t)));
        scramble(draw, w->model[r], (size_t)w->bytes[r]);
    }
    create(w, comm);
    if (w->bytes[w->rank] > 0)
        memcpy(w->memory, w->model[w->rank], (size_t)w->bytes[w->rank]);
    MPI_Win_fence(0, w->win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
}

static void free_window(window_t *w)
{
    MPI_Win_free(&w->win);
    for (int r = 0; r < w->size; r++) {
        free(w->model[r]);
        free(w->use[r]);
    }
    for (int i = 0; w->block != NULL && i < GUARD; i++)
        expect(w->block[i] == 0x5a && w->memory[w->bytes[w->rank] + i] == 0x5a, "guard byte", i, 0);
    free(w->block);
}

/* Some windows over one communicator, and steps on them. */
static void run_case(uint64_t seed, int number, int epochs, long most)
{
    window_t windows[3];
    draw_t draw = stream(seed, (uint64_t)number, 0, 0);
    MPI_Comm comm = draw_communicator(&draw);
    int part = part_of(comm), parts = 1;
    draw = stream(seed, (uint64_t)number, 1, (uint64_t)part);
    int count = 1 + (int)below(&draw, 3);
#if defined(OPEN_MPI)
    /* Open MPI 4.1 gives the windows of the parts of a split the same backing file: one by one. */
    if (for_host)
        MPI_Comm_size(MPI_COMM_WORLD, &parts);
#endif
    if (parts == 1)
        part = 0;
    for (int turn = 0; turn < parts; turn++) {
        for (int i = 0; i < count && turn == part; i++)
            make_window(&windows[i], comm, i, &draw, most);
        if (parts > 1)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int epoch = 0; epoch < epochs; epoch++) {
        draw_t of_epoch = stream(next(&draw), (uint64_t)epoch, 0, 0);
        step_number++;
        run_step(comm, windows, count, &of_epoch);
    }
    for (int i = count - 1; i >= 0; i--)
        free_window(&windows[i]);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 2 || ranks > RANKS) {
        fprintf(stderr, "usage: win_random SEED [EPOCHS] [MOST BYTES] [host], with up to %d ranks\n", RANKS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    uint64_t seed = strtoull(argv[1], NULL, 10);
    int epochs = argc > 2 ? atoi(argv[2]) : 100;
    long most = argc > 3 ? atol(argv[3]) : 100000;
    for_host = argc > 4 && !strcmp(argv[4], "host");
    tracing = getenv("WIN_RANDOM_TRACE") != NULL;
    make_elements();
    draw_t draw = stream(seed, (uint64_t)-1, 0, 0);
    for (int number = 0; epochs > 0; number++) {
        int some = 1 + (int)below(&draw, 12);
        some = some < epochs ? some : epochs;
        epochs -= some;
        run_case(seed, number, some, most);
    }
    char name[64];
    snprintf(name, sizeof name, "win_random seed=%llu", (unsigned long long)seed);
    return finish(name);
}
