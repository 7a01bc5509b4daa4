/* One rank loads a driver for devices: from then on new communicators with that rank are the host's, as
 * any rank may pass device memory to them; unless the setting says that none does.
 *
 *     mpirun -n P device_memory DRIVER RANK
 */
#include "presence_check.h"

int main(int argc, char **argv)
{
    int rank, size, color;
    MPI_Comm copy, part;
    if (argc != 3)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *setting = getenv("FERRORAIL_DEVICE_MEMORY");
    int none = setting != NULL && strcmp(setting, "none") == 0, with = atoi(argv[2]);
    use_there(MPI_COMM_WORLD, "the world, before", 1);
    if (rank == with)
        expect(dlopen(argv[1], RTLD_NOW) != NULL, "cannot load the driver", rank, 0);
    use_there(MPI_COMM_WORLD, "the world", 1);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    use_there(copy, "a duplicate", none);
    color = rank % 2;
    MPI_Comm_split(copy, color, rank, &part);
    if (!(size <= 3 && color == with % 2)) /* Debian's Open MPI makes no window of one rank */
        use_there(part, "a part", none || color != with % 2);
    MPI_Comm_free(&part);
    MPI_Comm_free(&copy);
    return finish("device_memory");
}
