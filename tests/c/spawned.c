/* Processes that are spawned, with or without ferrorail, and merged with those that spawned them: all
 * results are right, and each world by itself runs in ferrorail if it has it.
 *
 *     mpirun -n P spawned with|without
 */
#include "presence_check.h"

static MPI_Comm spawn(char **argv)
{
    /* Children get what the launcher has, not what ranks were started with. */
    static char preload[4096];
    char *with[] = {preload, "FERRORAIL_STATS=0", argv[0], argv[1], NULL};
    char *without[] = {argv[1], NULL};
    const char *now = getenv("LD_PRELOAD");
    int children = now != NULL && strcmp(argv[1], "with") == 0;
    MPI_Comm others;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", now == NULL ? "" : now);
    MPI_Comm_spawn(children ? "/usr/bin/env" : argv[0], children ? with : without, 2, MPI_INFO_NULL, 0,
                   MPI_COMM_WORLD, &others, MPI_ERRCODES_IGNORE);
    return others;
}

int main(int argc, char **argv)
{
    MPI_Comm others, parent, merged, part;
    int rank;
    if (argc != 2)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    use_there(MPI_COMM_WORLD, "the world", 1);
    others = parent == MPI_COMM_NULL ? spawn(argv) : parent;
    MPI_Intercomm_merge(others, parent != MPI_COMM_NULL, &merged);
    use_there(merged, "all", 0);
    MPI_Comm_rank(merged, &rank);
    /* Each part has ranks of both. */
    MPI_Comm_split(merged, rank % 2, rank, &part);
    use_there(part, "every second one of all", 0);
    MPI_Comm_free(&part);
    /* The worlds again, by another way. */
    MPI_Comm_split(merged, parent != MPI_COMM_NULL, -rank, &part);
    use_there(part, "the world, out of all", 1);
    MPI_Comm_free(&part);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&others);
    use_there(MPI_COMM_WORLD, "the world again", 1);
    return finish(parent == MPI_COMM_NULL ? "spawned" : "spawned child");
}
