/* Threads that make and free communicators at the same time, of one rank and of all.
 *
 *     mpirun -n P create_threads [ROUNDS [THREADS]]
 */
#include "check.h"
#include <pthread.h>

enum { MOST = 8 };
static int rounds = 20;
static MPI_Comm comms[MOST];
static long wrong[MOST];

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
    int threads = 4, numbers[MOST], provided;
    pthread_t handles[MOST];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (argc > 2)
        threads = atoi(argv[2]);
    snprintf(context, sizeof context, "threads that make communicators");
    expect(provided == MPI_THREAD_MULTIPLE, "level of threads", provided, 0);
    for (int i = 0; i < threads; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < threads; i++) {
        numbers[i] = i;
        pthread_create(&handles[i], NULL, make, &numbers[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(handles[i], NULL);
        expect(wrong[i] == 0, "wrong sums", i, wrong[i]);
        MPI_Comm_free(&comms[i]);
    }
    return finish("create_threads");
}
