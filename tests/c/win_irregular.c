/*
 * Elements of an unstructured mesh at the target: single numbers, irregularly apart, put, added and got at once.
 *
 *     win_irregular ELEMENTS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, count = atoi(argv[1]), wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double *memory;
    MPI_Win window;
    MPI_Win_allocate((MPI_Aint)count * 6 * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    int *places = malloc(sizeof *places * (size_t)count);
    double *mine = malloc(sizeof *mine * (size_t)count), *got = calloc((size_t)count, sizeof *got);
    unsigned random = 7;
    for (int i = 0, at = -1; i < count; i++) {
        random = random * 1103515245 + 12345;
        at += 2 + (random >> 16) % 5;
        places[i] = at;
        mine[i] = i + 1;
    }
    for (int i = 0; i < count * 6; i++)
        memory[i] = -1;
    MPI_Datatype type;
    MPI_Type_create_indexed_block(count, 1, places, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    int target = (rank + 1) % size;
    MPI_Win_fence(0, window);
    MPI_Put(mine, count, MPI_DOUBLE, target, 0, 1, type, window);
    MPI_Win_fence(0, window);
    MPI_Accumulate(mine, count, MPI_DOUBLE, target, 0, 1, type, MPI_SUM, window);
    MPI_Win_fence(0, window);
    MPI_Get(got, count, MPI_DOUBLE, target, 0, 1, type, window);
    MPI_Win_fence(0, window);
    for (int i = 0, next = 0; i < count * 6; i++) {
        int is_element = next < count && places[next] == i;
        wrong += memory[i] != (is_element ? 2.0 * ++next : -1);
    }
    for (int i = 0; i < count; i++)
        wrong += got[i] != 2.0 * (i + 1);
    MPI_Type_free(&type);
    MPI_Win_free(&window);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ok=%s wrong=%d\n", wrong ? "no" : "yes", wrong);
    MPI_Finalize();
    return 0;
}
