/*
 * Elements of an unstructured mesh at the target: single numbers, irregularly apart, put, added, replaced and got at once, in
 * memory of the window's own and of the program's. With `hole`, the program's has an inaccessible page between two of them.
 *
 *     win_irregular ELEMENTS [hole]
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, JUMP = 4 * PAGE / sizeof(double) };

static int rank, size, count, wrong;
static size_t all;      /* numbers in a rank's memory */
static int *places;     /* of the elements, in ascending order */
static double *mine, *got;
static MPI_Datatype type;

/* Numbers of the target become `factor` times those of `mine`, and nothing else changes. */
static void expect(const double *memory, int hole, double factor)
{
    size_t first = hole ? (size_t)places[count / 2 - 1] + 1 : all;
    for (size_t i = 0, next = 0; i < all; i++) {
        int is_element = next < (size_t)count && (size_t)places[next] == i;
        if (i >= first && i < first + JUMP)
            continue;
        wrong += memory[i] != (is_element ? factor * (double)++next : -1);
    }
    for (int i = 0; i < count; i++)
        wrong += got[i] != factor * (i + 1);
}

/* Accumulates `mine` at the target by `op`, which gives `factor` times that, and gets it. */
static void accumulate(MPI_Win window, MPI_Op op, double factor, const double *memory, int hole)
{
    int target = (rank + 1) % size;
    MPI_Win_fence(0, window);
    MPI_Accumulate(mine, count, MPI_DOUBLE, target, 0, 1, type, op, window);
    MPI_Win_fence(0, window);
    MPI_Get(got, count, MPI_DOUBLE, target, 0, 1, type, window);
    MPI_Win_fence(0, window);
    expect(memory, hole, factor);
}

static void exchange(MPI_Win window, const double *memory, int hole)
{
    MPI_Win_fence(0, window);
    MPI_Put(mine, count, MPI_DOUBLE, (rank + 1) % size, 0, 1, type, window);
    accumulate(window, MPI_SUM, 2, memory, hole);
    accumulate(window, MPI_REPLACE, 1, memory, hole);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int hole = argc > 2;
    count = atoi(argv[1]);
    all = (size_t)count * 6 + JUMP;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    places = malloc(sizeof *places * (size_t)count);
    mine = malloc(sizeof *mine * (size_t)count);
    got = calloc((size_t)count, sizeof *got);
    unsigned random = 7;
    for (int i = 0, at = -1; i < count; i++) {
        random = random * 1103515245 + 12345;
        at += 2 + (int)(random >> 16) % 5 + (i == count / 2 ? (int)JUMP : 0);
        places[i] = at;
        mine[i] = i + 1;
    }
    MPI_Type_create_indexed_block(count, 1, places, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    size_t bytes = all * sizeof(double);
    for (int own = 0; own < 2; own++) {
        MPI_Win window;
        double *memory;
        if (own)
            memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        else
            MPI_Win_allocate((MPI_Aint)bytes, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
        for (size_t i = 0; i < all; i++)
            memory[i] = -1;
        if (own) {
            size_t gap = ((size_t)places[count / 2 - 1] + 1) * sizeof(double);
            if (hole)
                mprotect((char *)memory + (gap + PAGE - 1) / PAGE * PAGE, PAGE, PROT_NONE);
            MPI_Win_create(memory, (MPI_Aint)bytes, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        }
        exchange(window, memory, own && hole);
        MPI_Win_free(&window);
    }
    MPI_Type_free(&type);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ok=%s wrong=%d\n", wrong ? "no" : "yes", wrong);
    MPI_Finalize();
    return 0;
}
