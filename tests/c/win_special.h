/* Steps of win_random whose course is not determined, but whose outcome is bound: counters under
 * exclusive locks, and races of fetches and of swaps. */
#ifndef WIN_SPECIAL_H
#define WIN_SPECIAL_H

#include "host.h"
#include "win_draw.h"

static void to_memory(window_t *w, long *into, long n, int target, long at, int put)
{
    MPI_Aint there = at / w->unit[target];
    if (put)
        MPI_Put(into, (int)n, MPI_LONG, target, there, (int)n, MPI_LONG, w->win);
    else
        MPI_Get(into, (int)n, MPI_LONG, target, there, (int)n, MPI_LONG, w->win);
    MPI_Win_flush(target, w->win);
}

/* Adds `more` to n words under an exclusive lock, by one of several ways. */
static void add(window_t *w, int way, long *words, long n, int target, long at, long more)
{
    unsigned char *direct = target == w->rank ? w->memory : w->peers[target];
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win);
    if (way == 0 && direct != NULL) {
        MPI_Win_sync(w->win);
        memcpy(words, direct + at, sizeof(long) * (size_t)n);
        for (long i = 0; i < n; i++)
            words[i] = (long)((unsigned long)words[i] + (unsigned long)more);
        memcpy(direct + at, words, sizeof(long) * (size_t)n);
        MPI_Win_sync(w->win);
    } else if (way == 1) {
        for (long i = 0; i < n; i++)
            words[i] = more;
        MPI_Accumulate(words, (int)n, MPI_LONG, target, at / w->unit[target], (int)n, MPI_LONG, MPI_SUM, w->win);
    } else {
        to_memory(w, words, n, target, at, 0);
        for (long i = 0; i < n; i++)
            words[i] = (long)((unsigned long)words[i] + (unsigned long)more);
        to_memory(w, words, n, target, at, 1);
    }
    MPI_Win_unlock(target, w->win);
}

/* All add to all of n words; under a shared lock all have grown by the same. */
static void count_up(window_t *w, draw_t *draw, draw_t *own, int target, long at, long n)
{
    long rounds = 1 + below(draw, 12);
    unsigned long ranks = (unsigned long)w->size * (unsigned long)(w->size + 1) / 2;
    long *words = must(malloc(sizeof(long) * (size_t)n)), *first = must(malloc(sizeof(long) * (size_t)n));
    memcpy(first, w->model[target] + at, sizeof(long) * (size_t)n);
    for (long round = 0; round < rounds; round++) {
        add(w, (int)below(own, 3), words, n, target, at, w->rank + 1);
        if (!chance(own, 60))
            continue;
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win);
        to_memory(w, words, n, target, at, 0);
        MPI_Win_unlock(target, w->win);
        for (long i = 1; i < n; i++) {
            unsigned long grown = (unsigned long)words[i] - (unsigned long)first[i];
            unsigned long as = (unsigned long)words[0] - (unsigned long)first[0];
            checks++;
            if (grown != as)
                give_up(w, "counters of one lock", at + 8 * i, (unsigned)grown, (unsigned)as);
        }
    }
    for (long i = 0; i < n; i++)
        first[i] = (long)((unsigned long)first[i] + (unsigned long)rounds * ranks);
    memcpy(w->model[target] + at, first, sizeof(long) * (size_t)n);
    free(words);
    free(first);
}

/* All draw tickets: each is drawn once. Then all swap, and one succeeds. */
static void race(window_t *w, MPI_Comm comm, draw_t *draw, int target, long at, long place_of_swap)
{
    enum { ROUNDS = 20 };
    int rounds = 1 + (int)below(draw, ROUNDS), every = (int)below(draw, 4);
    long one = 1, swapped, first, old, mine[ROUNDS], all[ROUNDS * RANKS], winners[RANKS];
    MPI_Aint there = at / w->unit[target], other = place_of_swap / w->unit[target];
    memcpy(&first, w->model[target] + at, sizeof first);
    memcpy(&old, w->model[target] + place_of_swap, sizeof old);
    long wish = (long)((unsigned long)old + 1 + (unsigned long)w->rank);
    MPI_Win_lock_all(0, w->win);
    for (int i = 0; i < rounds; i++) {
        MPI_Fetch_and_op(&one, &mine[i], MPI_LONG, target, there, MPI_SUM, w->win);
        if (every == 0 || i % every == 0)
            MPI_Win_flush(target, w->win);
    }
    MPI_Compare_and_swap(&wish, &old, &swapped, MPI_LONG, target, other, w->win);
    MPI_Win_unlock_all(w->win);
    HOST(Allgather)(mine, rounds, MPI_LONG, all, rounds, MPI_LONG, comm);
    HOST(Allgather)(&swapped, 1, MPI_LONG, winners, 1, MPI_LONG, comm);
    char drawn[ROUNDS * RANKS] = {0};
    for (int i = 0; i < rounds * w->size; i++) {
        unsigned long ticket = (unsigned long)all[i] - (unsigned long)first;
        checks++;
        if (ticket >= (unsigned long)(rounds * w->size) || drawn[ticket]++ > 0)
            give_up(w, "ticket", at, (unsigned)ticket, (unsigned)i);
        if (i % rounds > 0 && all[i] - all[i - 1] <= 0)
            give_up(w, "order of tickets", at, (unsigned)ticket, (unsigned)i);
    }
    int won = 0, winner = 0;
    for (int r = 0; r < w->size; r++)
        if (winners[r] == old)
            won++, winner = r;
    if (won != 1)
        give_up(w, "winners of a swap", place_of_swap, (unsigned)won, 1);
    unsigned long now = (unsigned long)old + 1 + (unsigned long)winner;
    for (int r = 0; r < w->size; r++)
        if (r != winner && (unsigned long)winners[r] != now)
            give_up(w, "what losers saw", place_of_swap, (unsigned)winners[r], (unsigned)now);
    unsigned long end = (unsigned long)first + (unsigned long)(rounds * w->size);
    memcpy(w->model[target] + at, &end, sizeof end);
    memcpy(w->model[target] + place_of_swap, &now, sizeof now);
}

static void run_special(window_t *w, int mode, MPI_Comm comm, draw_t *draw, draw_t *own)
{
    int target = (int)below(draw, w->size);
    long unit = w->unit[target], step = unit / gcd(unit, 8) * 8;
    long places = (long)w->bytes[target] / step;
    if (places < 2 || w->bytes[target] < (places - 1) * step + 8)
        return;
    long at = below(draw, places - 1) * step, most = ((long)w->bytes[target] - at) / 8;
    if (mode == RACES)
        race(w, comm, draw, target, at, (places - 1) * step);
    else
        count_up(w, draw, own, target, at, 1 + below(draw, most < 600 ? most : 600));
}

#endif
