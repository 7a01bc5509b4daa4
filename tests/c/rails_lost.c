/* Ranks that no rail reaches any more: what the others do among each other is right, and so is whatever is made
 * afterwards.
 *
 *     mpirun -n P rails_lost FAULTS [RANK]
 *
 * FAULTS becomes FERRORAIL_LOOPBACK_FAULTS of all ranks, or of RANK alone.
 */
#include "check.h"
#include <time.h>

enum { CALLS = 3000, MADE = 3 };

static int rank, size;

static void rest(long milliseconds)
{
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

/* Collectives and a window, all of which are right. */
static void use(MPI_Comm comm, const char *what)
{
    int mine, ranks, one = 1, *memory;
    MPI_Win window;
    MPI_Comm_rank(comm, &mine);
    MPI_Comm_size(comm, &ranks);
    snprintf(context, sizeof context, "%s", what);
    for (int i = 0; i < 3; i++) {
        int sum = 0, code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        expect(code == MPI_SUCCESS && sum == ranks, "all-reduce", code, sum);
    }
    int code = MPI_Win_allocate(4096, sizeof(int), MPI_INFO_NULL, comm, &memory, &window);
    if (!expect(code == MPI_SUCCESS, "window", code, 0))
        return;
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    code = MPI_Win_fence(0, window);
    expect(code == MPI_SUCCESS, "first fence", code, 0);
    MPI_Put(&mine, 1, MPI_INT, (mine + 1) % ranks, 0, 1, MPI_INT, window);
    code = MPI_Win_fence(0, window);
    expect(code == MPI_SUCCESS && memory[0] == (mine + ranks - 1) % ranks, "second fence", code, memory[0]);
    MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK");
    if (!number)
        number = getenv("PMI_RANK");
    if (argc < 2 || !number)
        return 2;
    int lost = argc > 2 ? atoi(argv[2]) : -1;
    if ((lost < 0 || lost == atoi(number)) && setenv("FERRORAIL_LOOPBACK_FAULTS", argv[1], 1) != 0)
        return 2;
    MPI_Comm all, reached, duplicate;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    MPI_Comm_split(MPI_COMM_WORLD, rank == lost, rank, &reached);
    MPI_Comm_set_errhandler(reached, MPI_ERRORS_RETURN);
    snprintf(context, sizeof context, "until no rail is left");
    int code = MPI_SUCCESS, calls = 0;
    for (; code == MPI_SUCCESS && calls < CALLS; calls++) {
        int sum = 0, one = 1;
        code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
        expect(code != MPI_SUCCESS || sum == size, "all-reduce", sum, calls);
    }
    expect(code != MPI_SUCCESS, "there was no error in so many calls", calls, 0);
    rest(500);
    if (lost >= 0 && rank != lost)
        use(reached, "those that rails reach");
    for (int i = 0; lost < 0 && i < MADE; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
        MPI_Comm_set_errhandler(duplicate, MPI_ERRORS_RETURN);
        use(duplicate, "made afterwards");
        MPI_Comm_free(&duplicate);
    }
    MPI_Comm_free(&reached);
    MPI_Comm_free(&all);
    return finish("rails_lost");
}
