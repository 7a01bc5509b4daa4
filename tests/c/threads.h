/* Threads of a program that each know their number. */
#ifndef THREADS_H
#define THREADS_H

#include "check.h"
#include <pthread.h>

enum { THREADS_MOST = 8 };

/* Starts MPI for threads that call it at once; `what` they do is the context of what is checked. */
static inline void init_threads(int *argc, char ***argv, const char *what)
{
    int provided;
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    snprintf(context, sizeof context, "%s", what);
    expect(provided == MPI_THREAD_MULTIPLE, "level of threads", provided, 0);
}

/* Runs `act` in `count` threads at once, with a pointer to the number of each, until all have ended. */
static inline void in_threads(int count, void *(*act)(void *))
{
    int numbers[THREADS_MOST];
    pthread_t threads[THREADS_MOST];
    for (int i = 0; i < count; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, act, &numbers[i]);
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

#endif
