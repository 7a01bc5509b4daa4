/* Error handlers that do not return: they end their thread, which unwinds the stack through the call that failed, as
 * exceptions of C++ do. What the host refuses, what ferrorail does, and calls on a window; the communicator is of use
 * afterwards.
 *
 *     mpirun -n P handler_exits
 */
#include "check.h"
#include <pthread.h>

enum { CASES = 8, MANY = 1000 };

static MPI_Comm comm;
static MPI_Win window;
static int rank, size, cleaned;

static void leave(void)
{
    pthread_exit((void *)&cleaned);
}

static void comm_handler(MPI_Comm *of, int *code, ...)
{
    (void)of, (void)code;
    leave();
}

static void window_handler(MPI_Win *of, int *code, ...)
{
    (void)of, (void)code;
    leave();
}

static void count(void *unused)
{
    (void)unused;
    cleaned++;
}

static void *fail(void *argument)
{
    static char few[MANY], many[64 * MANY];
    int value = 1;
    MPI_Comm no_comm = MPI_COMM_NULL, other;
    MPI_Win no_window = MPI_WIN_NULL;
    pthread_cleanup_push(count, NULL);
    switch (*(int *)argument) {
    case 0:
        MPI_Bcast(&value, -1, MPI_INT, 0, comm);
        break;
    case 1:
        MPI_Allreduce(&value, few, 1, MPI_DATATYPE_NULL, MPI_SUM, comm);
        break;
    case 2: /* more is sent than received */
        MPI_Allgather(few, MANY, MPI_BYTE, many, MANY / 2, MPI_BYTE, comm);
        break;
    case 3:
        MPI_Put(&value, 1, MPI_INT, size + 5, 0, 1, MPI_INT, window);
        break;
    case 4:
        MPI_Comm_dup_with_info(MPI_COMM_NULL, MPI_INFO_NULL, &other);
        break;
    case 5:
        MPI_Comm_set_info(MPI_COMM_NULL, MPI_INFO_NULL);
        break;
    case 6:
        MPI_Comm_free(&no_comm);
        break;
    case 7:
        MPI_Win_free(&no_window);
        break;
    }
    pthread_cleanup_pop(1);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, *memory;
    MPI_Errhandler of_comm, of_window;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_create_errhandler(comm_handler, &of_comm);
    MPI_Win_create_errhandler(window_handler, &of_window);
    /* Of errors on no communicator and on no window. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, of_comm);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, of_comm);
    for (int round = 0; round < 3 * CASES; round++) {
        int number = round % CASES, sum = 0, one = 1;
        void *ended;
        pthread_t thread;
        snprintf(context, sizeof context, "case %d", number);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Win_allocate(4096, 1, MPI_INFO_NULL, comm, &memory, &window);
        MPI_Comm_set_errhandler(comm, of_comm);
        MPI_Win_set_errhandler(window, of_window);
        MPI_Barrier(comm);
        MPI_Win_fence(0, window);
        cleaned = 0;
        pthread_create(&thread, NULL, fail, &number);
        pthread_join(thread, &ended);
        expect(ended == &cleaned && cleaned == 1, "the handler ran, and the stack was unwound", cleaned, 0);
        MPI_Win_fence(0, window);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        expect(sum == size, "all-reduce after it", sum, size);
        MPI_Win_free(&window);
        MPI_Comm_free(&comm);
    }
    MPI_Errhandler_free(&of_comm);
    MPI_Errhandler_free(&of_window);
    return finish("handler_exits");
}
