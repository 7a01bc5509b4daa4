/* Prints what a program takes from <mpi.h>; the test compares it with the tables. Never calls
 * MPI: it only needs the header, and for Open MPI not even that its objects resolve. */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>

#define INT(name) printf(#name " %lld\n", (long long)(name))
#define ADDRESS(name) printf(#name " %llu\n", (unsigned long long)(size_t)(name))

int main(void)
{
    INT(MPI_SUCCESS); INT(MPI_ANY_SOURCE); INT(MPI_ANY_TAG); INT(MPI_PROC_NULL);
    INT(MPI_UNDEFINED); INT(MPI_KEYVAL_INVALID); INT(MPI_TAG_UB); INT(MPI_COMM_TYPE_SHARED);
    INT(MPI_ORDER_C);
    INT(MPI_COMBINER_NAMED);
    INT(MPI_COMBINER_DUP);
    INT(MPI_COMBINER_CONTIGUOUS);
    INT(MPI_COMBINER_VECTOR);
    INT(MPI_COMBINER_HVECTOR);
    INT(MPI_COMBINER_INDEXED);
    INT(MPI_COMBINER_HINDEXED);
    INT(MPI_COMBINER_INDEXED_BLOCK);
    INT(MPI_COMBINER_HINDEXED_BLOCK);
    INT(MPI_COMBINER_STRUCT);
    INT(MPI_COMBINER_SUBARRAY);
    INT(MPI_COMBINER_DARRAY);
    INT(MPI_COMBINER_F90_REAL);
    INT(MPI_COMBINER_F90_COMPLEX);
    INT(MPI_COMBINER_F90_INTEGER);
    INT(MPI_COMBINER_RESIZED);
    INT(MPI_THREAD_SINGLE); INT(MPI_THREAD_FUNNELED); INT(MPI_THREAD_SERIALIZED);
    INT(MPI_THREAD_MULTIPLE);
    INT(MPI_ERR_BUFFER); INT(MPI_ERR_COUNT); INT(MPI_ERR_TYPE); INT(MPI_ERR_TAG);
    INT(MPI_ERR_COMM); INT(MPI_ERR_RANK); INT(MPI_ERR_REQUEST); INT(MPI_ERR_ROOT);
    INT(MPI_ERR_OP); INT(MPI_ERR_ARG); INT(MPI_ERR_UNKNOWN); INT(MPI_ERR_TRUNCATE);
    INT(MPI_ERR_OTHER); INT(MPI_ERR_INTERN); INT(MPI_ERR_NO_MEM);
    ADDRESS(MPI_IN_PLACE); ADDRESS(MPI_BOTTOM); ADDRESS(MPI_STATUS_IGNORE);
    ADDRESS(MPI_STATUSES_IGNORE);
    printf("status_bytes %zu\n", sizeof(MPI_Status));
    printf("status_source %zu\n", offsetof(MPI_Status, MPI_SOURCE));
    printf("status_tag %zu\n", offsetof(MPI_Status, MPI_TAG));
    printf("status_error %zu\n", offsetof(MPI_Status, MPI_ERROR));
    printf("handle_bytes %zu\n", sizeof(MPI_Comm));
#if !defined(OPEN_MPI)
    ADDRESS(MPI_COMM_NULL); ADDRESS(MPI_COMM_WORLD); ADDRESS(MPI_COMM_SELF);
    ADDRESS(MPI_DATATYPE_NULL); ADDRESS(MPI_BYTE); ADDRESS(MPI_DOUBLE_INT); ADDRESS(MPI_AINT);
    ADDRESS(MPI_COMPLEX16); ADDRESS(MPI_2INT); ADDRESS(MPI_OP_NULL);
    ADDRESS(MPI_INFO_NULL); ADDRESS(MPI_REQUEST_NULL); ADDRESS(MPI_ERRORS_RETURN);
#endif
    return 0;
}
