/* Post, start, complete and wait: along a ring and from everybody to everybody. For win_check.c. */

static void posts(struct window *w)
{
    MPI_Group world, origins, targets;
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    size_t n = 100000;
    unsigned char *out = must(malloc(n));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &left, &origins);
    MPI_Group_incl(world, 1, &right, &targets);
    for (int round = 0; round < 6; round++) {
        snprintf(context, sizeof context, "post, round %d", round);
        fill(out, n, 77 + round, rank);
        memset(w->base, 0, n);
        MPI_Win_post(origins, 0, w->win);
        MPI_Win_start(targets, 0, w->win);
        MPI_Put(out, (int)n, MPI_BYTE, right, 0, (int)n, MPI_BYTE, w->win);
        MPI_Win_complete(w->win);
        if (round % 2) {
            for (int over = 0; !over;)
                MPI_Win_test(w->win, &over);
        } else {
            MPI_Win_wait(w->win);
        }
        expect_pattern((unsigned char *)w->base, n, 77 + round, left);
    }
    /* Everybody to everybody. */
    memset(w->base, 0, sizeof(long) * (size_t)size);
    MPI_Win_post(world, 0, w->win);
    MPI_Win_start(world, 0, w->win);
    long mine = rank + 1;
    for (int r = 0; r < size; r++)
        MPI_Put(&mine, 1, MPI_LONG, r, at(r, (size_t)rank), 1, MPI_LONG, w->win);
    MPI_Win_complete(w->win);
    MPI_Win_wait(w->win);
    for (int r = 0; r < size; r++)
        expect(w->base[r] == r + 1, "all to all", w->base[r], r);
    MPI_Group_free(&world);
    MPI_Group_free(&origins), MPI_Group_free(&targets);
    free(out);
}
