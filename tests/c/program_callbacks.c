/* What the program does while the host MPI runs a callback of it: error handlers and attribute callbacks may call MPI, use
 * windows, and an error handler may leave by longjmp. So may destructors that run after main. */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>

static int rank, size, wrong, calls;
static MPI_Win window;
static int *memory;
static MPI_Comm other;
static jmp_buf before_error;

static void expect(int right, const char *what)
{
    if (!right) {
        printf("rank %d: %s\n", rank, what);
        wrong++;
    }
}

/* Puts to the next rank, and sums over all. */
static void use_window(const char *what)
{
    int value = ++calls, one = 1, sum = 0;
    MPI_Win_fence(0, window);
    MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    expect(*memory == value, what);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(sum == size, what);
}

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    use_window("in an error handler");
}

static void leave(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    longjmp(before_error, 1);
}

/* A call that lies further down on the stack than one before, with nothing written where that was. */
static void broadcast(MPI_Comm comm, const char *what)
{
    volatile char unused[10000];
    int value = ++calls * (rank == 1), code;
    unused[0] = 1;
    code = MPI_Bcast(&value, 1, MPI_INT, 1, comm);
    expect(unused[0] && (code || value == calls), what);
}

/* Ranks without an error make the same call. */
static void tell_others(MPI_Comm *comm, int *code, ...)
{
    int one = 1, sum = 0;
    (void)comm, (void)code;
    MPI_Bcast(&one, 1, MPI_INT, 0, other);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, other);
    expect(sum == size, "beside an error handler");
}

static int on_copy(MPI_Comm comm, int key, void *extra, void *value, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra, (void)value, (void)out;
    use_window("in a copy callback");
    *flag = 0;
    return MPI_SUCCESS;
}

static int on_delete(MPI_Win freed, int key, void *value, void *extra)
{
    (void)freed, (void)key, (void)value, (void)extra;
    use_window("in the delete callback of a window");
    return MPI_SUCCESS;
}

static void handlers(void)
{
    MPI_Comm comm, others;
    MPI_Errhandler uses, jumps, tells;
    int value = 1;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(on_error, &uses);
    MPI_Comm_create_errhandler(leave, &jumps);
    MPI_Comm_create_errhandler(tell_others, &tells);

    MPI_Comm_set_errhandler(comm, uses);
    MPI_Bcast(&value, -1, MPI_INT, 0, comm);

    MPI_Comm_set_errhandler(comm, jumps);
    if (!setjmp(before_error)) {
        MPI_Bcast(&value, -1, MPI_INT, 0, comm);
        expect(0, "the handler returned");
    }
    use_window("after a jump");
    value = rank == 1 ? 5 : 0;
    MPI_Bcast(&value, 1, MPI_INT, 1, comm);
    expect(value == 5, "a broadcast after a jump");
    broadcast(comm, "further down after a jump");

    /* On one rank alone; the others are in the call that it makes next. */
    MPI_Comm_dup(MPI_COMM_WORLD, &others);
    MPI_Comm_set_errhandler(others, jumps);
    broadcast(others, "before a jump");
    if (rank == 0 && !setjmp(before_error))
        MPI_Bcast(&value, -1, MPI_INT, 0, others);
    MPI_Comm_set_errhandler(others, MPI_ERRORS_RETURN);
    broadcast(others, "after a jump of one rank");
    MPI_Comm_free(&others);

    MPI_Comm_set_errhandler(comm, tells);
    if (rank == 0)
        MPI_Bcast(&value, -1, MPI_INT, 0, comm);
    else
        tell_others(&comm, &value);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);

    MPI_Errhandler_free(&uses);
    MPI_Errhandler_free(&jumps);
    MPI_Errhandler_free(&tells);
    MPI_Comm_free(&comm);
}

static int refuses;

static int refuse(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    return refuses ? MPI_ERR_OTHER : MPI_SUCCESS;
}

/* A communicator that could not be freed is one as before, and its handle may become another's. */
static void refused(void)
{
    MPI_Comm comm, rows[4];
    MPI_Errhandler jumps;
    int key;

    MPI_Comm_create_errhandler(leave, &jumps);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, jumps);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &key, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_attr(comm, key, &rank);
    refuses = 1;
    if (!setjmp(before_error)) {
        MPI_Comm_free(&comm);
        expect(0, "a communicator was freed");
    }
    refuses = 0;
    broadcast(comm, "after a jump out of MPI_Comm_free");
    MPI_Comm_free(&comm);
    for (int i = 0; i < 4; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &rows[i]);
        broadcast(rows[i], "on the next communicators");
    }
    for (int i = 0; i < 4; i++)
        MPI_Comm_free(&rows[i]);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_free_keyval(&key);
    MPI_Errhandler_free(&jumps);
}

static void attributes(void)
{
    MPI_Comm comm, copy;
    MPI_Win freed;
    int key, *of_freed;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_keyval(on_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(comm, key, &rank);
    MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &copy);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&comm);
    MPI_Comm_free_keyval(&key);

    MPI_Win_allocate(400, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &of_freed, &freed);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, NULL);
    MPI_Win_set_attr(freed, key, &rank);
    MPI_Win_free(&freed);
    MPI_Win_free_keyval(&key);
}

/* After main, when the thread's own variables with destructors are gone. */
__attribute__((destructor)) static void after_main(void)
{
    MPI_Comm comm;
    int one = 1, sum = 0;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(sum == size, "after main");
    MPI_Comm_free(&comm);
    use_window("after main");
    MPI_Win_free(&window);
    MPI_Comm_free(&other);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    /* Before the end of the job, with which launchers may lose it. */
    if (rank == 0)
        printf("program_callbacks ranks=%d ok=%s\n", size, wrong ? "no" : "yes");
    fflush(stdout);
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Win_allocate(400, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    handlers();
    attributes();
    refused();
    return 0;
}
