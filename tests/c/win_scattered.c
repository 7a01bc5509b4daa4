/*
 * Columns of a matrix that every rank brings to a window: put, got, added and replaced in active epochs, of types that are freed
 * before the epoch ends, from and into buffers with and without gaps, beside operations on single elements whose order counts;
 * and in passive ones, one after the other while the others wait, and all at once.
 *
 *     win_scattered [ROWS (400)] [EPOCHS (6)]
 *
 * With FERRORAIL_SCATTERED=origin, target or auto the results are the same.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 12, BLOCK = 2 };
enum kind { CREATED, DYNAMIC, KINDS };

static int rank, size, rows, wrong;
static MPI_Datatype column; /* BLOCK neighbouring columns of a matrix */

typedef struct {
    enum kind kind;
    MPI_Win win;
    MPI_Group group;
    long *memory;      /* rows x COLUMNS */
    MPI_Aint *bases;   /* by rank: what displacements count from */
} window_t;

static void check(int ok, const char *what, int epoch)
{
    if (ok)
        return;
    if (wrong++ < 5)
        fprintf(stderr, "rank %d: epoch %d: wrong %s\n", rank, epoch, what);
}

static MPI_Aint place(const window_t *w, int target, int row, int col)
{
    MPI_Aint index = (MPI_Aint)row * COLUMNS + col;
    return w->kind == DYNAMIC ? w->bases[target] + index * (MPI_Aint)sizeof(long) : index;
}

static window_t make(enum kind kind)
{
    window_t w = {.kind = kind};
    size_t bytes = (size_t)rows * COLUMNS * sizeof(long);
    w.memory = malloc(bytes);
    w.bases = malloc(sizeof *w.bases * (size_t)size);
    MPI_Comm_group(MPI_COMM_WORLD, &w.group);
    if (kind == CREATED) {
        MPI_Win_create(w.memory, (MPI_Aint)bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
    } else {
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
        MPI_Win_attach(w.win, w.memory, (MPI_Aint)bytes);
        MPI_Aint base;
        MPI_Get_address(w.memory, &base);
        MPI_Allgather(&base, 1, MPI_AINT, w.bases, 1, MPI_AINT, MPI_COMM_WORLD);
    }
    return w;
}

static void release(window_t *w)
{
    if (w->kind == DYNAMIC) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_detach(w->win, w->memory);
    }
    MPI_Win_free(&w->win);
    MPI_Group_free(&w->group);
    free(w->memory);
    free(w->bases);
}

static void clear(window_t *w)
{
    for (int i = 0; i < rows * COLUMNS; i++)
        w->memory[i] = -i;
}

/* A type of the same columns that is gone once its operation was called. */
static MPI_Datatype fleeting(void)
{
    MPI_Datatype type;
    MPI_Type_vector(rows, BLOCK, COLUMNS, MPI_LONG, &type);
    MPI_Type_commit(&type);
    return type;
}

static long value(int from, int epoch, int index) { return 1000000L * from + 10000L * epoch + index; }

/* Every element of the memory: columns `first` and the next hold what `from` wrote, and all others what they did. */
static void expect(const window_t *w, int first, long factor, int from, int epoch, const char *what)
{
    for (int row = 0; row < rows; row++)
        for (int col = 0; col < COLUMNS; col++) {
            int index = row * COLUMNS + col;
            int hit = col >= first && col < first + BLOCK;
            long before = -index, now = value(from, epoch, row * BLOCK + col - first);
            check(w->memory[index] == (hit ? factor * now + (factor > 1 ? before : 0) : before), what, epoch);
        }
}

/* Puts to the next rank, of packed numbers or of columns; between fences, or between start and complete. */
static void put_columns(window_t *w, int epoch, int fences, int gaps)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size, count = rows * BLOCK, first = epoch % 5;
    long *numbers = calloc((size_t)rows * COLUMNS, sizeof *numbers);
    for (int i = 0; i < count; i++)
        numbers[gaps ? i / BLOCK * COLUMNS + i % BLOCK : i] = value(rank, epoch, i);
    clear(w);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Group next, last;
    MPI_Group_incl(w->group, 1, &to, &next);
    MPI_Group_incl(w->group, 1, &from, &last);
    if (fences) {
        MPI_Win_fence(0, w->win);
    } else {
        MPI_Win_post(last, 0, w->win);
        MPI_Win_start(next, 0, w->win);
    }
    MPI_Datatype there = fleeting(), here = gaps ? fleeting() : MPI_LONG;
    MPI_Put(numbers, gaps ? 1 : count, here, to, place(w, to, 0, first), 1, there, w->win);
    MPI_Put(numbers, 0, column, to, place(w, to, 0, 0), 0, column, w->win);
    MPI_Put(numbers, 0, column, to, place(w, to, 0, 0), 0, MPI_LONG, w->win);
    MPI_Put(numbers, 0, MPI_LONG, to, place(w, to, 0, 0), 0, column, w->win);
    MPI_Type_free(&there);
    if (gaps)
        MPI_Type_free(&here);
    if (fences) {
        MPI_Win_fence(0, w->win);
    } else {
        MPI_Win_complete(w->win);
        /* The buffer is the program's again. */
        memset(numbers, 0x7f, (size_t)rows * COLUMNS * sizeof *numbers);
        int over = 0;
        while (epoch % 2 && !over)
            MPI_Win_test(w->win, &over);
        if (!over)
            MPI_Win_wait(w->win);
    }
    expect(w, first, 1, from, epoch, fences ? "put" : "put of a post");
    if (fences)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
    MPI_Group_free(&next);
    MPI_Group_free(&last);
    free(numbers);
}

/* Gets columns of all ranks at once. */
static void get_columns(window_t *w, int epoch, int gaps)
{
    size_t block = (size_t)rows * COLUMNS;
    long *numbers = malloc(sizeof *numbers * block * (size_t)size);
    for (size_t i = 0; i < block * (size_t)size; i++)
        numbers[i] = 7;
    for (int i = 0; i < rows * COLUMNS; i++)
        w->memory[i] = value(rank, epoch, i);
    MPI_Win_fence(0, w->win);
    for (int target = 0; target < size; target++) {
        MPI_Datatype there = fleeting();
        long *into = numbers + block * (size_t)target;
        MPI_Get(into, gaps ? 1 : rows * BLOCK, gaps ? column : MPI_LONG, target, place(w, target, 0, 3), 1, there, w->win);
        MPI_Type_free(&there);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
    for (int target = 0; target < size; target++)
        for (int i = 0; i < rows * COLUMNS; i++) {
            int row = gaps ? i / COLUMNS : i / BLOCK, col = gaps ? i % COLUMNS : i % BLOCK;
            int hit = gaps ? col < BLOCK : i < rows * BLOCK;
            long wanted = hit ? value(target, epoch, row * COLUMNS + 3 + col) : 7;
            check(numbers[block * (size_t)target + (size_t)i] == wanted, "get", epoch);
        }
    free(numbers);
}

/* Sums of all ranks on the columns of each, then on single elements of those: an origin's own come in order. */
static void add_columns(window_t *w, int epoch)
{
    int count = rows * BLOCK;
    long *numbers = malloc(sizeof *numbers * (size_t)count), *before = calloc((size_t)count, sizeof *before);
    long one = 1, found = 0, fetched = 0, swapped = 0, zero = 0;
    for (int i = 0; i < count; i++)
        numbers[i] = value(1, 0, i);
    clear(w);
    MPI_Win_fence(0, w->win);
    MPI_Datatype there = fleeting();
    for (int target = 0; target < size; target++)
        MPI_Accumulate(numbers, count, MPI_LONG, target, place(w, target, 0, 4), 1, there, MPI_SUM, w->win);
    int to = (rank + 1) % size;
    /* This rank's own column of the next rank: what was there, a number, one more, and another two. */
    int own = 8;
    MPI_Datatype single;
    MPI_Type_vector(rows, 1, COLUMNS, MPI_LONG, &single);
    MPI_Type_commit(&single);
    MPI_Accumulate(numbers, rows, MPI_LONG, to, place(w, to, 0, own), 1, single, MPI_REPLACE, w->win);
    MPI_Fetch_and_op(&one, &found, MPI_LONG, to, place(w, to, 1, own), MPI_REPLACE, w->win);
    MPI_Get_accumulate(NULL, 0, MPI_LONG, before, rows, MPI_LONG, to, place(w, to, 0, own), 1, single, MPI_NO_OP, w->win);
    if (epoch % 2) {
        MPI_Compare_and_swap(&zero, &one, &swapped, MPI_LONG, to, place(w, to, 1, own), w->win);
        MPI_Fetch_and_op(&one, &fetched, MPI_LONG, to, place(w, to, 1, own), MPI_NO_OP, w->win);
    }
    MPI_Type_free(&single);
    MPI_Type_free(&there);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
    check(found == numbers[1], "number before a replacement", epoch);
    for (int row = 0; row < rows; row++)
        check(before[row] == (row == 1 ? 1 : numbers[row]), "numbers before nothing", epoch);
    if (epoch % 2)
        check(swapped == 1 && fetched == 0, "swap", epoch);
    for (int row = 0; row < rows; row++)
        for (int col = 0; col < COLUMNS; col++) {
            int index = row * COLUMNS + col;
            long wanted = -index;
            if (col >= 4 && col < 4 + BLOCK)
                wanted += size * numbers[row * BLOCK + col - 4];
            if (col == own)
                wanted = row == 1 ? epoch % 2 == 0 : numbers[row];
            check(w->memory[index] == wanted, "sum", epoch);
        }
    free(numbers);
    free(before);
}

/* Rank 0 starts an epoch with all others, which wait for each other and not for it. */
static void star(window_t *w, int epoch)
{
    clear(w);
    MPI_Barrier(MPI_COMM_WORLD);
    int root = 0, count = rows * BLOCK;
    MPI_Group first, others;
    MPI_Group_incl(w->group, 1, &root, &first);
    MPI_Group_excl(w->group, 1, &root, &others);
    if (rank == 0) {
        long *numbers = malloc(sizeof *numbers * (size_t)count);
        for (int i = 0; i < count; i++)
            numbers[i] = value(0, epoch, i);
        MPI_Win_start(others, 0, w->win);
        for (int target = 1; target < size; target++)
            MPI_Accumulate(numbers, count, MPI_LONG, target, place(w, target, 0, 2), 1, column, MPI_REPLACE, w->win);
        MPI_Win_complete(w->win);
        free(numbers);
        /* Only now do targets wait for the epoch. */
        for (int target = 1; target < size; target++)
            MPI_Send(NULL, 0, MPI_INT, target, epoch, MPI_COMM_WORLD);
    } else {
        MPI_Win_post(first, 0, w->win);
        MPI_Recv(NULL, 0, MPI_INT, 0, epoch, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_wait(w->win);
        expect(w, 2, 1, 0, epoch, "replacement");
    }
    MPI_Group_free(&first);
    MPI_Group_free(&others);
}

/* Adds to columns of every rank, puts others to the next rank and gets those back. */
static void passive_epochs(window_t *w, int epoch)
{
    int to = (rank + 1) % size, count = rows * BLOCK;
    int mode = epoch % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE;
    long *numbers = malloc(sizeof *numbers * (size_t)count), *found = calloc((size_t)rows * COLUMNS, sizeof *found);
    for (int i = 0; i < count; i++)
        numbers[i] = value(1, epoch, i);
    for (int step = 0; step < size; step++) {
        int target = (rank + step) % size;
        MPI_Win_lock(mode, target, 0, w->win);
        MPI_Accumulate(numbers, count, MPI_LONG, target, place(w, target, 0, 4), 1, column, MPI_SUM, w->win);
        MPI_Win_unlock(target, w->win);
    }
    for (int i = 0; i < count; i++)
        numbers[i] = value(rank, epoch, i);
    MPI_Win_lock_all(0, w->win);
    MPI_Put(numbers, count, MPI_LONG, to, place(w, to, 0, 1), 1, column, w->win);
    MPI_Win_flush(to, w->win);
    MPI_Get(found, 1, column, to, place(w, to, 0, 1), 1, column, w->win);
    MPI_Win_unlock_all(w->win);
    for (int i = 0; i < rows * COLUMNS; i++) {
        int row = i / COLUMNS, col = i % COLUMNS;
        check(found[i] == (col < BLOCK ? numbers[row * BLOCK + col] : 0), "get of what was put", epoch);
    }
    free(numbers);
    free(found);
}

static void passive(window_t *w, int epoch)
{
    int from = (rank + size - 1) % size, first = 1, sums = 4;
    clear(w);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int turn = 0; turn < size && epoch % 3; turn++) {
        if (turn == rank)
            passive_epochs(w, epoch);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (epoch % 3 == 0)
        passive_epochs(w, epoch);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w->win);
    for (int i = 0; i < rows * COLUMNS; i++) {
        int row = i / COLUMNS, col = i % COLUMNS;
        long wanted = -i;
        if (col >= first && col < first + BLOCK)
            wanted = value(from, epoch, row * BLOCK + col - first);
        if (col >= sums && col < sums + BLOCK)
            wanted += size * value(1, epoch, row * BLOCK + col - sums);
        check(w->memory[i] == wanted, "passive epochs", epoch);
    }
    MPI_Win_unlock(rank, w->win);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rows = argc > 1 ? atoi(argv[1]) : 400;
    int epochs = argc > 2 ? atoi(argv[2]) : 6;
    column = fleeting();
    for (enum kind kind = CREATED; kind < KINDS; kind++) {
        window_t w = make(kind);
        for (int epoch = 0; epoch < epochs; epoch++) {
            put_columns(&w, epoch, 1, epoch % 2);
            put_columns(&w, epoch, 0, epoch / 2 % 2);
            get_columns(&w, epoch, epoch % 2);
            add_columns(&w, epoch);
            star(&w, epoch);
            passive(&w, epoch);
        }
        release(&w);
    }
    MPI_Type_free(&column);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ok=%s wrong=%d\n", wrong ? "no" : "yes", wrong);
    MPI_Finalize();
    return 0;
}
