/* A dynamic window with many pieces of memory: more than a table of fixed length has room for, some of
 * them next to each other, with operations that begin in one and end in another.
 *
 *     win_attach [pieces (1500)]
 *     win_attach refused
 *
 * `refused` is for rails that register no memory.
 */
#include "check.h"

enum { WORDS = 16, BYTES = WORDS * 8 };

static int rank, ranks;

static MPI_Aint address_of(void *memory, MPI_Aint *all)
{
    MPI_Aint mine;
    MPI_Get_address(memory, &mine);
    PMPI_Allgather(&mine, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    return mine;
}

static void refused(void)
{
    static char memory[BYTES];
    int class;
    MPI_Win win;
    snprintf(context, sizeof context, "refused");
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Win_attach(win, memory, sizeof memory), &class);
    expect(class == MPI_ERR_RMA_ATTACH, "class", class, MPI_ERR_RMA_ATTACH);
    MPI_Error_class(MPI_Win_detach(win, memory), &class);
    expect(class == MPI_ERR_RMA_ATTACH, "it is not attached", class, MPI_ERR_RMA_ATTACH);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1 && strcmp(argv[1], "refused") == 0) {
        refused();
        return finish("win_attach");
    }
    int pieces = argc > 1 ? atoi(argv[1]) : 1500, right = (rank + 1) % ranks, code = MPI_SUCCESS, class = 0;
    MPI_Aint *where = must(malloc((size_t)ranks * sizeof *where));
    long *memory = must(malloc((size_t)pieces * BYTES)), in[3 * WORDS], one[2 * WORDS];
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    address_of(memory, where);
    for (long i = 0; i < (long)pieces * WORDS; i++)
        memory[i] = 1000000L * rank + i;
    snprintf(context, sizeof context, "attach");
    int attached = 0;
    /* From both ends, so that a table is not in the order of addresses. */
    for (int i = 0; i < pieces && code == MPI_SUCCESS; i++, attached++)
        code = MPI_Win_attach(win, memory + (long)WORDS * (i % 2 ? pieces - 1 - i / 2 : i / 2), BYTES);
    expect(code == MPI_SUCCESS, "pieces attached", attached, pieces);
    PMPI_Barrier(MPI_COMM_WORLD);

    snprintf(context, sizeof context, "over several pieces");
    MPI_Win_lock_all(0, win);
    for (int piece = 0; piece + 3 <= pieces; piece += 97) {
        memset(in, 0, sizeof in);
        MPI_Aint from = MPI_Aint_add(where[right], (MPI_Aint)piece * BYTES + 8);
        code = MPI_Get(in, 3 * WORDS - 1, MPI_LONG, right, from, 3 * WORDS - 1, MPI_LONG, win);
        expect(code == MPI_SUCCESS, "get", code, piece);
        MPI_Win_flush(right, win);
        for (long i = 0; i < 3 * WORDS - 1; i++)
            expect(in[i] == 1000000L * right + (long)piece * WORDS + 1 + i, "word", in[i], i);
    }
    PMPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2 * WORDS; i++)
        one[i] = i;
    MPI_Aint to = MPI_Aint_add(where[right], 5 * BYTES - 64);
    code = MPI_Accumulate(one, 2 * WORDS, MPI_LONG, right, to, 2 * WORDS, MPI_LONG, MPI_SUM, win);
    expect(code == MPI_SUCCESS, "accumulate", code, 0);
    to = MPI_Aint_add(where[right], 10 * BYTES - 64);
    code = MPI_Put(one, 2 * WORDS, MPI_LONG, right, to, 2 * WORDS, MPI_LONG, win);
    expect(code == MPI_SUCCESS, "put", code, 0);
    MPI_Win_unlock_all(win);
    PMPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2 * WORDS; i++) {
        long before = 1000000L * rank + 5 * WORDS - 8 + i;
        expect(memory[5 * WORDS - 8 + i] == before + i, "sum", memory[5 * WORDS - 8 + i], before + i);
        expect(memory[10 * WORDS - 8 + i] == i, "put", memory[10 * WORDS - 8 + i], i);
    }
    PMPI_Barrier(MPI_COMM_WORLD);

    /* Hosts do not look: what lies beyond is for ferrorail alone to refuse. */
    snprintf(context, sizeof context, "detach");
    for (int i = 0; i < pieces; i += 2)
        MPI_Win_detach(win, memory + (long)WORDS * i);
    PMPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int piece = 1; piece < pieces; piece += 64) {
        MPI_Aint from = MPI_Aint_add(where[right], (MPI_Aint)piece * BYTES);
        code = MPI_Get(in, WORDS, MPI_LONG, right, from, WORDS, MPI_LONG, win);
        expect(code == MPI_SUCCESS, "get of what is left", code, piece);
        MPI_Win_flush(right, win);
        /* Sums and puts went around pieces 4 to 11. */
        expect(piece < 12 || in[3] == 1000000L * right + (long)piece * WORDS + 3, "word", in[3], piece);
    }
    if (getenv("LD_PRELOAD") != NULL) {
        code = MPI_Get(in, WORDS + 1, MPI_LONG, right, MPI_Aint_add(where[right], BYTES), WORDS + 1, MPI_LONG, win);
        MPI_Error_class(code, &class);
        expect(code != MPI_SUCCESS && class == MPI_ERR_RMA_RANGE, "class beyond a piece", class, code);
    }
    MPI_Win_unlock_all(win);
    PMPI_Barrier(MPI_COMM_WORLD);
    for (int i = 1; i < pieces; i += 2)
        MPI_Win_detach(win, memory + (long)WORDS * i);
    MPI_Win_free(&win);
    free(memory);
    free(where);
    return finish("win_attach");
}
