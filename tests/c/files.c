/* A file that all ranks write, with barriers in between: what the MPI library calls to do it is no call
   of the program. Prints `files ranks=N ok=yes|no`. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NUMBERS 1000

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks, wrong = 0, numbers[NUMBERS];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char name[100];
    snprintf(name, sizeof name, "/tmp/ferrorail-files-%d", (int)getppid());
    for (int round = 0; round < 3; round++) {
        MPI_File file;
        int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
        if (MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file) != MPI_SUCCESS)
            MPI_Abort(MPI_COMM_WORLD, 1);
        for (int i = 0; i < NUMBERS; i++)
            numbers[i] = rank * NUMBERS + i;
        MPI_Datatype apart;
        MPI_Type_vector(NUMBERS, 1, ranks, MPI_INT, &apart);
        MPI_Type_commit(&apart);
        MPI_File_set_view(file, (MPI_Offset)(rank * sizeof(int)), MPI_INT, apart, "native", MPI_INFO_NULL);
        MPI_File_write_all(file, numbers, NUMBERS, MPI_INT, MPI_STATUS_IGNORE);
        MPI_File_sync(file);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
        MPI_File_read_at_all(file, (MPI_Offset)rank * NUMBERS, numbers, NUMBERS, MPI_INT, MPI_STATUS_IGNORE);
        for (int i = 0; i < NUMBERS; i++) {
            int at = rank * NUMBERS + i;
            wrong += numbers[i] != at % ranks * NUMBERS + at / ranks;
        }
        MPI_Type_free(&apart);
        MPI_File_close(&file);
    }
    printf("files rank=%d of %d ok=%s\n", rank, ranks, wrong ? "no" : "yes");
    MPI_Finalize();
    return wrong != 0;
}
