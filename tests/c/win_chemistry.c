/* The one-sided calls of a program of quantum chemistry (NWChem over ARMCI-MPI): several windows locked for
 * all, blocks fetched, added to and flushed for one target, all targets and locally, and a shared counter
 * under a lock of its own. Prints the time per step, and the processor's,
 * in microseconds.
 *
 *     win_chemistry [steps (20000), windows (4), steps between two uses of the counter (4)]
 */
#include "check.h"

#include <time.h>

enum { BLOCK = 64, BLOCKS = 16, WINDOWS = 16 };

int main(int argc, char **argv)
{
    MPI_Win windows[WINDOWS], counter;
    double *memory[WINDOWS], block[BLOCK], fetched[BLOCK];
    long *count, one = 1, before, sum = 0, steps_done = 0;
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long steps = argc > 1 ? atol(argv[1]) : 20000;
    int used = argc > 2 ? atoi(argv[2]) : 4, pause = argc > 3 ? atoi(argv[3]) : 4;
    for (int w = 0; w < used; w++) {
        MPI_Win_allocate(sizeof(double) * BLOCK * BLOCKS, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory[w], &windows[w]);
        for (int i = 0; i < BLOCK * BLOCKS; i++)
            memory[w][i] = 0;
        MPI_Win_lock_all(0, windows[w]);
    }
    MPI_Win_allocate(sizeof(long), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &count, &counter);
    *count = 0;
    for (int i = 0; i < BLOCK; i++)
        block[i] = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    clock_t busy = clock();
    for (long step = 0; step < steps; step++, steps_done++) {
        int target = (int)((rank + step) % ranks), w = (int)(step % used);
        MPI_Aint at = (MPI_Aint)sizeof(double) * BLOCK * (step / used % BLOCKS);
        MPI_Get(fetched, BLOCK, MPI_DOUBLE, target, at, BLOCK, MPI_DOUBLE, windows[w]);
        MPI_Win_flush(target, windows[w]);
        MPI_Accumulate(block, BLOCK, MPI_DOUBLE, target, at, BLOCK, MPI_DOUBLE, MPI_SUM, windows[w]);
        MPI_Win_flush_local_all(windows[w]);
        for (int other = 0; other < used; other++)
            MPI_Win_flush_all(windows[other]);
        if (step % pause == 0) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, counter);
            MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, counter);
            MPI_Win_unlock(0, counter);
        }
    }
    double took = MPI_Wtime() - start, used_cpu = (double)(clock() - busy) / CLOCKS_PER_SEC;
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(context, sizeof context, "chemistry");
    for (int w = 0; w < used; w++) {
        MPI_Win_unlock_all(windows[w]);
        PMPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < BLOCK * BLOCKS; i += BLOCK)
            sum += (long)memory[w][i];
        MPI_Win_free(&windows[w]);
    }
    long all = 0, mine = 0;
    PMPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    expect(all == steps * ranks, "sums", all, steps * ranks);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, counter);
    MPI_Get(&mine, 1, MPI_LONG, 0, 0, 1, MPI_LONG, counter);
    MPI_Win_unlock(0, counter);
    expect(mine == (steps + pause - 1) / pause * ranks, "counter", mine, steps);
    PMPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&counter);
    if (rank == 0)
        fprintf(stderr, "%.3f us per step, %.3f us of the processor's\n", 1e6 * took / (double)steps,
                1e6 * used_cpu / (double)steps);
    return finish("win_chemistry");
}
