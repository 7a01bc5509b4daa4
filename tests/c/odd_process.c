/* Ranks whose process is not like others: collectives and a window work all the same.
 *
 * odd_process full: nobody takes what is written to standard error
 * odd_process files BYTES: no file may be longer
 * odd_process space MB: so much address space is left after MPI_Init, of which some has to stay
 * odd_process set RANK NAME=VALUE: one rank has another setting
 * odd_process apart: nobody may reach the memory of rank 1 any more, after the first call
 * odd_process closed: standard output and error are closed after MPI_Init, and a thread writes there all the same. Open MPI
 * opens files of its own under these numbers */
#include <fcntl.h>
#include <linux/capability.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static rlim_t space;

/* The rank, from the launcher, as MPI does not run yet. */
static int rank_to_be(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank)
        rank = getenv("PMI_RANK");
    return rank ? atoi(rank) : -1;
}

static void become(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "full")) {
        if (dup2(open("/dev/full", O_WRONLY), STDERR_FILENO) < 0)
            exit(3);
    } else if (argc == 3 && !strcmp(argv[1], "files")) {
        struct rlimit limit = {(rlim_t)atoll(argv[2]), (rlim_t)atoll(argv[2])};
        if (setrlimit(RLIMIT_FSIZE, &limit))
            exit(3);
    } else if (argc == 4 && !strcmp(argv[1], "set")) {
        if (rank_to_be() < 0 || (rank_to_be() == atoi(argv[2]) && putenv(argv[3])))
            exit(3);
    } else if (argc == 3 && !strcmp(argv[1], "space")) {
        space = (rlim_t)atoll(argv[2]) << 20;
    } else if (argc != 2 || (strcmp(argv[1], "apart") && strcmp(argv[1], "closed"))) {
        exit(2);
    }
}

/* Nobody traces rank 1 any more, and who has the right to do so all the same gives that up. */
static void go_apart(int rank)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    if (syscall(SYS_capget, &header, sets))
        exit(3);
    sets[0].effective &= ~(1u << CAP_SYS_PTRACE);
    sets[0].permitted &= ~(1u << CAP_SYS_PTRACE);
    if (syscall(SYS_capset, &header, sets) || (rank == 1 && prctl(PR_SET_DUMPABLE, 0)))
        exit(3);
}

/* Long broadcasts; how many bytes are wrong. */
static int broadcasts(int rank)
{
    enum { BYTES = 200000 };
    static char bytes[BYTES];
    int wrong = 0;
    for (int root = 0; root < 2; root++) {
        memset(bytes, rank == root ? 5 + root : 0, BYTES);
        MPI_Bcast(bytes, BYTES, MPI_BYTE, root, MPI_COMM_WORLD);
        for (int i = 0; i < BYTES; i++)
            wrong += bytes[i] != 5 + root;
    }
    return wrong;
}

static void limit_space(void)
{
    long pages = 0;
    FILE *sizes = fopen("/proc/self/statm", "r");
    struct rlimit limit;
    if (!sizes || fscanf(sizes, "%ld", &pages) != 1)
        exit(3);
    fclose(sizes);
    space += (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
    limit.rlim_cur = limit.rlim_max = space;
    if (setrlimit(RLIMIT_AS, &limit))
        exit(3);
}

static volatile int writes;

static void *write_on(void *unused)
{
    char line[4096];
    (void)unused;
    memset(line, 'x', sizeof line);
    while (writes)
        if (write(STDOUT_FILENO, line, sizeof line) > 0 || write(STDERR_FILENO, line, sizeof line) > 0)
            abort();
    return NULL;
}

/* Closes them; returns a copy of standard output. */
static int close_standard(pthread_t *writer)
{
    int copy = fcntl(STDOUT_FILENO, F_DUPFD, 100);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    writes = 1;
    if (pthread_create(writer, NULL, write_on, NULL))
        exit(3);
    return copy;
}

int main(int argc, char **argv)
{
    enum { COMMS = 40 };
    MPI_Comm comms[COMMS];
    MPI_Win window;
    int rank, size, wrong = 0, *memory, provided, copy = -1;
    pthread_t writer;

    become(argc, argv);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    if (!strcmp(argv[1], "closed"))
        copy = close_standard(&writer);
    if (space)
        limit_space();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 2 && !strcmp(argv[1], "apart")) {
        MPI_Barrier(MPI_COMM_WORLD);
        go_apart(rank);
        wrong += broadcasts(rank);
    }
    for (int i = 0; i < COMMS; i++) {
        int sum = 0, mine = rank + i;
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comms[i]);
        wrong += sum != size * (size - 1) / 2 + size * i;
    }
    if (space) {
        void *volatile own = malloc(space / 8);
        wrong += !own;
        free(own);
    }
    MPI_Win_allocate(400, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_fence(0, window);
    MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    wrong += *memory != (rank + size - 1) % size;
    MPI_Win_free(&window);
    for (int i = 0; i < COMMS; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (copy >= 0) {
        writes = 0;
        pthread_join(writer, NULL);
        dup2(copy, STDOUT_FILENO);
        dup2(copy, STDERR_FILENO);
    }
    MPI_Finalize();
    if (rank == 0)
        printf("odd_process ranks=%d ok=%s\n", size, wrong ? "no" : "yes");
    return wrong != 0;
}
