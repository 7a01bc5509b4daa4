/* A library's delete callback makes collective calls on the communicator that is being freed, whose
 * attributes go in an order of the host's. The next communicators get its handle, other ranks and
 * another order of them: each must have its own data. The attribute is set before the first collective
 * in some rounds, after it in others, and differently on odd ranks where that is right alone.
 *
 * delete_callbacks [ROUNDS (40)] */
#include "check.h"

static int key, calls;

static int on_delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int one = 1, sum = 0, ranks;
    (void)keyval, (void)value, (void)extra;
    MPI_Comm_size(comm, &ranks);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Barrier(comm);
    expect(sum == ranks, "a sum in a delete callback", sum, ranks);
    calls++;
    return MPI_SUCCESS;
}

static void gather_ranks(MPI_Comm comm)
{
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    int *all = must(malloc(ranks * sizeof *all));
    memset(all, 0xff, ranks * sizeof *all);
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm);
    for (int r = 0; r < ranks; r++)
        expect(all[r] == r, "the block of a rank", r, all[r]);
    free(all);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 40, rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, NULL);
    for (int round = 0; round < rounds; round++) {
        snprintf(context, sizeof context, "round %d", round);
        MPI_Comm comm;
        switch (round % 3) {
        case 0: MPI_Comm_dup(MPI_COMM_WORLD, &comm); break;
        case 1: MPI_Comm_split(MPI_COMM_WORLD, 0, ranks - rank, &comm); break;
        default: MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
        }
        int before = round / 3 % 3, odd = rank % 2;
        if (before == 0 || (before == 1 && odd))
            MPI_Comm_set_attr(comm, key, &key);
        gather_ranks(comm);
        if (before == 2 || (before == 1 && !odd))
            MPI_Comm_set_attr(comm, key, &key);
        gather_ranks(comm);
        if (round % 2)
            MPI_Comm_disconnect(&comm);
        else
            MPI_Comm_free(&comm);
        expect(comm == MPI_COMM_NULL, "a handle that was freed", round, 0);
    }
    expect(calls == rounds, "callbacks", calls, rounds);
    MPI_Comm_free_keyval(&key);
    return finish("delete_callbacks");
}
