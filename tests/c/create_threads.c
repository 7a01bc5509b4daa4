/* Threads that make and free communicators at the same time, of one rank and of all.
 *
 *     mpirun -n P create_threads [ROUNDS [THREADS]]
 */
#include "threads.h"

static int rounds = 20;
static MPI_Comm comms[THREADS_MOST];
static long wrong[THREADS_MOST];

static void *make(void *argument)
{
    int thread = *(int *)argument, one = 1, sum;
    for (int round = 0; round < rounds; round++) {
        MPI_Comm alone, all;
        MPI_Group group;
        int size;
        MPI_Comm_dup(MPI_COMM_SELF, &alone);
        MPI_Barrier(alone);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, alone);
        wrong[thread] += sum != 1;
        MPI_Comm_free(&alone);
        MPI_Comm_group(comms[thread], &group);
        MPI_Comm_create(comms[thread], group, &all);
        MPI_Comm_size(all, &size);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
        wrong[thread] += sum != size;
        MPI_Comm_free(&all);
        MPI_Group_free(&group);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = 4;
    init_threads(&argc, &argv, "threads that make communicators");
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (argc > 2)
        threads = atoi(argv[2]);
    for (int i = 0; i < threads; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    in_threads(threads, make);
    for (int i = 0; i < threads; i++) {
        expect(wrong[i] == 0, "wrong sums", i, wrong[i]);
        MPI_Comm_free(&comms[i]);
    }
    return finish("create_threads");
}
