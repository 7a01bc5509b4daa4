/* Threads that use a new derived datatype for the first time at once, each on its own communicator.
 *
 *     mpirun -n P types_threads [ROUNDS]
 */
#include "threads.h"

enum { THREADS = 4, BLOCKS = 5, ROOM = 512, ELEMENTS = 3 };
static int rounds = 1000;
static MPI_Comm comms[THREADS];
static MPI_Datatype type;
static pthread_barrier_t meeting;
static long wrong[THREADS];

static void *use(void *argument)
{
    int thread = *(int *)argument, rank, memory[ROOM];
    MPI_Comm_rank(comms[thread], &rank);
    for (int round = 0; round < rounds; round++) {
        int stride = 3 + round % 7;
        if (thread == 0) {
            MPI_Type_vector(BLOCKS, 2, stride, MPI_INT, &type);
            MPI_Type_commit(&type);
        }
        pthread_barrier_wait(&meeting);
        for (int call = 0; call < 4; call++) {
            for (int i = 0; i < ROOM; i++)
                memory[i] = rank == 0 ? i : -1;
            MPI_Bcast(memory, ELEMENTS, type, 0, comms[thread]);
            wrong[thread] += memory[0] != 0 || memory[stride] != stride;
        }
        pthread_barrier_wait(&meeting);
        if (thread == 0)
            MPI_Type_free(&type);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    init_threads(&argc, &argv, "threads with one datatype");
    if (argc > 1)
        rounds = atoi(argv[1]);
    pthread_barrier_init(&meeting, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Barrier(comms[i]);
    }
    in_threads(THREADS, use);
    for (int i = 0; i < THREADS; i++) {
        expect(wrong[i] == 0, "wrong broadcasts", i, wrong[i]);
        MPI_Comm_free(&comms[i]);
    }
    pthread_barrier_destroy(&meeting);
    return finish("types_threads");
}
