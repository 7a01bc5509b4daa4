/* Ranks that name their rails in different orders: ranks of even number take the first argument for
 * FERRORAIL_RAILS, the others the second. Whatever becomes of the rails, results are right.
 *
 *     mpirun -n P rails_apart rxe0,rxe1 rxe1,rxe0
 */
#include "check.h"

int main(int argc, char **argv)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK");
    if (!number)
        number = getenv("PMI_RANK");
    if (argc < 3 || !number || setenv("FERRORAIL_RAILS", argv[1 + atoi(number) % 2], 1) != 0)
        return 2;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(context, sizeof context, "rails apart");
    enum { COUNT = 5000 };
    int *mine = must(calloc(COUNT, sizeof(int)));
    int *all = must(calloc((size_t)size * COUNT, sizeof(int)));
    for (int count = 1; count <= COUNT; count += COUNT - 1) {
        for (int i = 0; i < count; i++)
            mine[i] = 1000 * rank + i;
        MPI_Allgather(mine, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < size * count; i++)
            expect(all[i] == 1000 * (i / count) + i % count, "allgather", i, all[i]);
    }
    free(mine), free(all);
    return finish("rails_apart");
}
