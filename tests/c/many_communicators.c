/* Many communicators are alive at once, each with a collective; then the program opens files and starts
 * a process. With a limit of descriptors, that is set before MPI_Init.
 *
 * many_communicators NUMBER [DESCRIPTORS (as they are)] */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FILES = 8 };

int main(int argc, char **argv)
{
    int number = atoi(argv[1]), rank, ranks;
    if (argc > 2) {
        struct rlimit limit;
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = atoi(argv[2]);
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm *all = must(malloc(number * sizeof *all));
    for (int i = 0; i < number; i++) {
        int value = i + rank, sum = -1;
        if (i % 3)
            MPI_Comm_dup(MPI_COMM_WORLD, &all[i]);
        else
            MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? rank : -rank, &all[i]);
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, all[i]);
        expect(sum == ranks * i + ranks * (ranks - 1) / 2, "the sum on communicator", i, sum);
    }
    int files[FILES];
    for (int i = 0; i < FILES; i++) {
        files[i] = open("/dev/null", O_RDONLY);
        expect(files[i] >= 0, "a file of the program", i, files[i]);
    }
    FILE *process = popen("true", "r");
    if (expect(process != NULL, "a process of the program", 0, 0))
        pclose(process);
    for (int i = 0; i < FILES; i++)
        if (files[i] >= 0)
            close(files[i]);
    for (int i = 0; i < number; i++)
        MPI_Comm_free(&all[i]);
    free(all);
    return finish("many_communicators");
}
