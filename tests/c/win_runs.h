/* Operations of very many runs at the target, with and without gaps between them. Included by win_check.c. */

/* Elements in the order of the transposed matrix; or every second word. */
static MPI_Datatype transposed(int rows, int columns)
{
    MPI_Datatype column, next, all;
    MPI_Type_vector(rows, 1, columns, MPI_LONG, &column);
    MPI_Type_create_resized(column, 0, sizeof(long), &next);
    MPI_Type_contiguous(columns, next, &all);
    MPI_Type_commit(&all);
    MPI_Type_free(&column);
    MPI_Type_free(&next);
    return all;
}

static MPI_Datatype every_second(int words)
{
    MPI_Datatype strided;
    MPI_Type_vector(words, 1, 2, MPI_LONG, &strided);
    MPI_Type_commit(&strided);
    return strided;
}

/* Puts, gets and adds to WORDS words as `there` says, of which number i lies at place(i), behind OFFSET others. */
static void many_runs(struct window *w, MPI_Datatype there, int words, int (*place)(int))
{
    const int offset = 5, right = (rank + 1) % size, left = (rank + size - 1) % size;
    long *out = must(malloc((size_t)words * sizeof *out)), *in = must(malloc((size_t)words * sizeof *in));
    for (int i = 0; i < words; i++)
        out[i] = 100000L * (rank + 1) + i, in[i] = -1;
    clear(w);
    MPI_Put(out, words, MPI_LONG, right, at(right, offset), 1, there, w->win);
    MPI_Win_fence(0, w->win);
    int written = 0;
    for (int i = 0; i < words; i++) {
        long got = w->base[offset + place(i)], expected = 100000L * (left + 1) + i;
        expect(got == expected, "put", got, expected);
    }
    for (size_t i = 0; i < (size_t)w->bytes / sizeof(long); i++)
        written += w->base[i] != 0;
    expect(written == words, "words written", written, words);
    MPI_Win_fence(0, w->win);
    MPI_Get(in, words, MPI_LONG, right, at(right, offset), 1, there, w->win);
    MPI_Win_fence(0, w->win);
    for (int i = 0; i < words; i++)
        expect(in[i] == out[i], "get", in[i], out[i]);
    for (int r = 0; r < size; r++)
        MPI_Accumulate(out, words, MPI_LONG, r, at(r, offset), 1, there, MPI_SUM, w->win);
    MPI_Win_fence(0, w->win);
    for (int i = 0; i < words; i++) {
        long ranks = 100000L * size * (size + 1) / 2 + (long)size * i;
        long got = w->base[offset + place(i)], expected = 100000L * (left + 1) + i + ranks;
        expect(got == expected, "accumulated", got, expected);
    }
    free(out);
    free(in);
}

enum { ROWS = 40, COLUMNS = 67, STRIDED = 2300 };

static int transposed_place(int i) { return i % ROWS * COLUMNS + i / ROWS; }
static int second_place(int i) { return 2 * i; }

static void runs(struct window *w)
{
    MPI_Datatype matrix = transposed(ROWS, COLUMNS), strided = every_second(STRIDED);
    snprintf(context, sizeof context, "transposed");
    many_runs(w, matrix, ROWS * COLUMNS, transposed_place);
    snprintf(context, sizeof context, "strided");
    many_runs(w, strided, STRIDED, second_place);
    MPI_Type_free(&matrix);
    MPI_Type_free(&strided);
}
