/* Operations of the program that assign whole structures, of which the datatype names two members and leaves out
 * others in front of them or behind. What an operation writes must have room, and be no other element's. Open MPI
 * 4.1 alone crashes in it, and MPICH 4.0 where much is left out in front.
 *
 *     mpirun -n P whole_structures
 */
#include "check.h"

static size_t extent;
static size_t key_at;

static int key_of(const char *structure)
{
    int key;
    memcpy(&key, structure + key_at, sizeof key);
    return key;
}

static void later(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++) {
        const char *theirs = (const char *)in + (size_t)i * extent;
        char *ours = (char *)inout + (size_t)i * extent;
        if (key_of(theirs) > key_of(ours))
            memcpy(ours, theirs, extent);
    }
}

static int key(int element, int rank)
{
    return (element * 7 + rank * 13) % 17 * 100 + rank;
}

static void reduce(MPI_Datatype type, MPI_Op op, int count)
{
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char *mine = must(malloc(extent * (size_t)count)), *all = must(malloc(extent * (size_t)count));
    memset(mine, 0x55, extent * (size_t)count);
    memset(all, 0x33, extent * (size_t)count);
    for (int i = 0; i < count; i++) {
        int pair[2] = {key(i, rank), i + 1000 * rank};
        memcpy(mine + (size_t)i * extent + key_at, pair, sizeof pair);
    }
    MPI_Allreduce(mine, all, count, type, op, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) {
        int best = 0, pair[2];
        for (int peer = 1; peer < ranks; peer++)
            if (key(i, peer) > key(i, best))
                best = peer;
        memcpy(pair, all + (size_t)i * extent + key_at, sizeof pair);
        if (!expect(pair[0] == key(i, best) && pair[1] == i + 1000 * best, "element, of", i, count))
            break;
    }
    free(mine);
    free(all);
}

int main(int argc, char **argv)
{
    /* Bytes in front of the members and behind them. */
    static const int left_out[][2] = {{4, 0}, {0, 4}, {8, 12}, {0, 4000}, {4000, 0}, {64, 64}};
    MPI_Op op;
    MPI_Init(&argc, &argv);
    MPI_Op_create(later, 1, &op);
    for (size_t kind = 0; kind < sizeof left_out / sizeof left_out[0]; kind++) {
        key_at = (size_t)left_out[kind][0];
        extent = key_at + 2 * sizeof(int) + (size_t)left_out[kind][1];
        snprintf(context, sizeof context, "%d bytes in front, %d behind", left_out[kind][0],
                 left_out[kind][1]);
        int lengths[] = {1, 1};
        MPI_Aint at[] = {(MPI_Aint)key_at, (MPI_Aint)(key_at + sizeof(int))};
        MPI_Datatype members[] = {MPI_INT, MPI_INT}, bare, type;
        MPI_Type_create_struct(2, lengths, at, members, &bare);
        MPI_Type_create_resized(bare, 0, (MPI_Aint)extent, &type);
        MPI_Type_commit(&type);
        for (int count = 1; count < 1000; count += count < 20 ? 1 : 97)
            reduce(type, op, count);
        MPI_Type_free(&type);
        MPI_Type_free(&bare);
    }
    MPI_Op_free(&op);
    return finish("whole_structures");
}
