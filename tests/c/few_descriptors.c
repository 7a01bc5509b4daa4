/* The process may open few files more than MPI_Init has: collectives of growing length must bring the right
 * data, whatever could not be set up, and the program must be able to start other programs. ROOM is what
 * fits below the last quarter of the limit, which ferrorail leaves alone.
 *
 * few_descriptors ROOM */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void start_program(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    expect(status == 0, "a program that was started", status, 0);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    int next = open("/dev/null", O_RDONLY);
    close(next);
    limit.rlim_cur = (next + atoi(argv[1])) * 4 / 3 + 1;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int count = 1; count <= 200000; count *= 20) {
        int *mine = must(malloc(count * sizeof *mine)), *all = must(malloc((size_t)count * ranks * sizeof *all));
        snprintf(context, sizeof context, "%d integers", count);
        for (int i = 0; i < count; i++)
            mine[i] = rank * 17 + i;
        MPI_Allgather(mine, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < ranks; r++)
            for (int i = 0; i < count; i++)
                if (all[(size_t)r * count + i] != r * 17 + i) {
                    expect(0, "an all-gather", r, i);
                    break;
                }
        MPI_Allreduce(MPI_IN_PLACE, mine, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++)
            if (!expect(mine[i] == 17 * ranks * (ranks - 1) / 2 + ranks * i, "a sum", i, mine[i]))
                break;
        for (int root = 0; root < ranks; root++) {
            for (int i = 0; i < count; i++)
                mine[i] = rank == root ? root + i : -1;
            MPI_Bcast(mine, count, MPI_INT, root, MPI_COMM_WORLD);
            expect(mine[count - 1] == root + count - 1, "a broadcast", root, mine[count - 1]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        free(mine);
        free(all);
        start_program();
    }
    return finish("few_descriptors");
}
