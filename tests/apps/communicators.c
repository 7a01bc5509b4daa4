/* Creates, uses and frees many communicators, and looks whether file descriptors, mappings or
 * memory grow: per-communicator state must go when the communicator goes.
 *
 *     mpirun -n P communicators [rounds]
 */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    long descriptors, mappings, kilobytes;
} usage_t;

static usage_t measure(void)
{
    usage_t now = {0, 0, 0};
    DIR *folder = opendir("/proc/self/fd");
    while (folder != NULL && readdir(folder) != NULL)
        now.descriptors++;
    if (folder != NULL)
        closedir(folder);
    FILE *maps = fopen("/proc/self/maps", "r");
    for (int c; maps != NULL && (c = getc(maps)) != EOF;)
        now.mappings += c == '\n';
    if (maps != NULL)
        fclose(maps);
    long pages = 0;
    FILE *memory = fopen("/proc/self/statm", "r");
    if (memory == NULL || fscanf(memory, "%ld", &pages) != 1)
        pages = 0;
    if (memory != NULL)
        fclose(memory);
    now.kilobytes = pages * 4;
    return now;
}

/* One all-gather on the communicator; aborts if the result is wrong. */
static void use(MPI_Comm comm)
{
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    long mine[3] = {rank, rank + 1, -rank};
    long *all = malloc((size_t)ranks * sizeof mine);
    MPI_Allgather(mine, 3, MPI_LONG, all, 3, MPI_LONG, comm);
    for (int r = 0; r < ranks; r++) {
        if (all[3 * r] != r || all[3 * r + 1] != r + 1 || all[3 * r + 2] != -r) {
            fprintf(stderr, "rank %d: wrong block of %d\n", rank, r);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    free(all);
}

static void round_of_communicators(int rank, int ranks)
{
    MPI_Comm same, half, reversed;
    MPI_Comm_dup(MPI_COMM_WORLD, &same);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_split(same, 0, ranks - rank, &reversed);
    use(same);
    use(half);
    use(reversed);
    MPI_Comm_free(&half);
    MPI_Comm_free(&same);
    MPI_Comm_free(&reversed);
}

int main(int argc, char **argv)
{
    int rank, ranks, rounds = argc > 1 ? atoi(argv[1]) : 100, any;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    /* Caches of the host MPI and of the allocator fill up first. */
    for (int i = 0; i < rounds / 4 + 1; i++)
        round_of_communicators(rank, ranks);
    usage_t before = measure();
    for (int i = 0; i < rounds; i++)
        round_of_communicators(rank, ranks);
    usage_t after = measure();
    /* Three communicators a round: a leak of one object each would show far above this slack. */
    int grew = after.descriptors - before.descriptors > 4 ||
               after.mappings - before.mappings > rounds / 4 + 8 ||
               after.kilobytes - before.kilobytes > 16 * 1024;
    if (grew)
        fprintf(stderr, "rank %d: descriptors %ld -> %ld, mappings %ld -> %ld, %ld -> %ld KB\n",
                rank, before.descriptors, after.descriptors, before.mappings, after.mappings,
                before.kilobytes, after.kilobytes);
    MPI_Allreduce(&grew, &any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    if (rank == 0)
        printf("communicators=%d leaks=%s\n", 3 * rounds, any ? "yes" : "no");
    MPI_Finalize();
    return any;
}
