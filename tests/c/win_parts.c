/* Windows that the parts of a split make, use and free all at once: Open MPI 4.1 numbers the
 * communicators of parts alike, and alone often fails here. What is put and gotten is long enough to go straight from and to the
 * program's buffers, where these can be registered.
 *
 *     mpirun -n P win_parts [ROUNDS (20)] [own]
 *
 * `own` leaves out windows of memory that the program brings.
 */
#include "check.h"

enum { WORDS = 20000, GAP = 7 };

/* A word that only this origin in this round can have put. */
static long word(int origin, int round, int index)
{
    return 1000000L * (100 * origin + round) + index;
}

static void use(MPI_Comm comm, MPI_Win win, long *memory, int round)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    long *out = must(malloc(WORDS * sizeof *out)), *in = must(malloc(WORDS * sizeof *in));
    for (int i = 0; i < WORDS; i++) {
        out[i] = word(rank, round, i);
        in[i] = -1;
    }
    MPI_Win_fence(0, win);
    MPI_Put(out, WORDS - GAP, MPI_LONG, right, GAP, WORDS - GAP, MPI_LONG, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < WORDS; i++)
        expect(memory[i] == (i < GAP ? -2 : word(left, round, i - GAP)), "put", memory[i], i);
    MPI_Get(in + 1, WORDS - 1, MPI_LONG, right, 0, WORDS - 1, MPI_LONG, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    expect(in[0] == -1, "before what was gotten", in[0], 0);
    for (int i = 0; i + 1 < WORDS; i++)
        expect(in[i + 1] == (i < GAP ? -2 : word(rank, round, i - GAP)), "gotten", in[i + 1], i);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win);
    MPI_Accumulate(out, WORDS, MPI_LONG, right, 0, WORDS, MPI_LONG, MPI_SUM, win);
    MPI_Win_unlock(right, win);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    for (int i = 0; i < WORDS; i++) {
        long before = i < GAP ? -2 : word(left, round, i - GAP);
        expect(memory[i] == before + word(left, round, i), "accumulated", memory[i], i);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 20, kinds = argc > 2 ? 2 : 3;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < rounds; round++) {
        MPI_Comm part;
        MPI_Win win;
        long *memory;
        MPI_Aint bytes = WORDS * sizeof(long);
        snprintf(context, sizeof context, "round %d", round);
        MPI_Comm_split(MPI_COMM_WORLD, round % 2 ? rank % 2 : 2 * rank / size, rank, &part);
        if (round % kinds == 2) {
            memory = must(malloc(bytes));
            MPI_Win_create(memory, bytes, sizeof(long), MPI_INFO_NULL, part, &win);
        } else if (round % kinds == 1) {
            MPI_Win_allocate_shared(bytes, sizeof(long), MPI_INFO_NULL, part, &memory, &win);
        } else {
            MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, part, &memory, &win);
        }
        for (int i = 0; i < WORDS; i++)
            memory[i] = -2;
        use(part, win, memory, round);
        MPI_Win_free(&win);
        if (round % kinds == 2)
            free(memory);
        MPI_Comm_free(&part);
    }
    return finish("win_parts");
}
