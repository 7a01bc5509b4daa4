/* Rank 1 is stopped, or killed, at a chosen moment; who is stopped goes on after a while, or never.
 *
 * stopped collective|lock|finalize stop|kill [SECONDS until it goes on, 0: never] */
#include "check.h"
#include <signal.h>
#include <unistd.h>

enum { LARGE = 200000, TIMES = 20, BREAKS_AT = 10 };

static int breaks_by_kill;
static unsigned seconds;

/* The signal, and whoever continues this rank. */
static void break_here(void)
{
    if (!breaks_by_kill && seconds > 0) {
        pid_t self = getpid(), child = fork();
        if (child == 0) {
            sleep(seconds);
            kill(self, SIGCONT);
            _exit(0);
        }
        expect(child > 0, "a process that continues this one", child, 0);
    }
    fprintf(stderr, "rank 1 breaks\n");
    raise(breaks_by_kill ? SIGKILL : SIGSTOP);
}

static void collectives(int rank, int breaks)
{
    unsigned char *data = must(malloc(LARGE));
    for (int i = 0; i < TIMES; i++) {
        if (breaks && rank == 1 && i == BREAKS_AT)
            break_here();
        int bytes = i % 2 ? LARGE : 16;
        if (rank == 0)
            fill(data, (size_t)bytes, i, 0);
        MPI_Bcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        snprintf(context, sizeof context, "broadcast %d", i);
        expect_pattern(data, (size_t)bytes, i, 0);
    }
    free(data);
}

/* All ranks want an exclusive lock on rank 0; rank 1 breaks while it has it. */
static void locks(int rank, int ranks, int breaks)
{
    long *counter, one = 1, old;
    MPI_Win win;
    MPI_Win_allocate(sizeof *counter, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    *counter = 0;
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < TIMES; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, win);
        if (breaks && rank == 1 && i == BREAKS_AT)
            break_here();
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    expect(rank != 0 || *counter == (long)TIMES * ranks, "a counter", *counter, ranks);
    MPI_Win_unlock(0, win);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 3) {
        fprintf(stderr, "usage: stopped collective|lock|finalize stop|kill [SECONDS]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    breaks_by_kill = strcmp(argv[2], "kill") == 0;
    seconds = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    collectives(rank, strcmp(argv[1], "collective") == 0);
    locks(rank, ranks, strcmp(argv[1], "lock") == 0);
    printf("stopped rank=%d checks=%ld ok=%s\n", rank, checks, failures ? "no" : "yes");
    fflush(stdout);
    if (strcmp(argv[1], "finalize") == 0 && rank == 1)
        break_here();
    MPI_Finalize();
    return failures != 0;
}
