/* Some ranks run without ferrorail: they start themselves again without what was preloaded. All results
 * are right, and what has no such member runs in ferrorail.
 *
 *     mpirun -n P part_of_ranks RANK[,RANK…]
 */
#include "presence_check.h"
#include <unistd.h>

/* Whether `rank` is in the list. */
static int listed(const char *list, int rank)
{
    for (const char *at = list; at != NULL && *at != 0; at = strchr(at, ',')) {
        at += *at == ',';
        if (atoi(at) == rank)
            return 1;
    }
    return 0;
}

static void start_without(char **argv)
{
    const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (int i = 0; i < 2; i++) {
        const char *rank = getenv(names[i]);
        if (rank != NULL && listed(argv[1], atoi(rank)) && getenv("LD_PRELOAD") != NULL) {
            unsetenv("LD_PRELOAD");
            execv(argv[0], argv);
        }
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    if (argc != 2)
        return 2;
    start_without(argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int without = listed(argv[1], rank), any = 0;
    for (int peer = 0; peer < size; peer++)
        any |= listed(argv[1], peer);
    use_there(MPI_COMM_WORLD, "the world", !any);
    use_there(MPI_COMM_SELF, "myself", 1);
    for (int round = 0; round < 3; round++) {
        MPI_Comm copy, part, turned;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        use_there(copy, "a duplicate", !any);
        /* The parts with and without it, in either order of ranks. */
        MPI_Comm_split(copy, without, round & 1 ? -rank : rank, &part);
        use_there(part, "a part", !without);
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
        use_there(turned, "the world turned round", !any);
        MPI_Comm_free(&copy);
        MPI_Comm_free(&part);
        MPI_Comm_free(&turned);
    }
    return finish("part_of_ranks");
}
