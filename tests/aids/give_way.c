/* Preloaded into jobs of MPICH that have more ranks than cores, or that run on several hosts.

   MPICH polls UCX without yielding, so that a rank with nothing to do keeps the core from one that has.
   This gives the core away after each poll that found nothing; results are the same, up to a hundred times
   sooner.

   MPICH before 4.2 waits in MPI_Finalize for the launcher's barrier without polling UCX, while other ranks
   still wait for this one to answer their ucp_disconnect_nb: a job that used UCX's TCP between hosts shortly
   before hangs now and then, with and without ferrorail (pmodels/mpich pull request 6596). So this polls UCX
   while a rank reads from the launcher. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

typedef unsigned progress_function(void *);
typedef void destroy_function(void *);
typedef ssize_t read_function(int, void *, size_t);

/* The worker that was polled last. */
static void *polled;

static void *of_ucp(const char *name) {
    /* Not RTLD_NEXT: Python opens MPI, and so UCX, in a scope of their own. */
    return dlsym(dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD), name);
}

unsigned ucp_worker_progress(void *worker) {
    static progress_function *real;
    if (!real)
        real = (progress_function *)of_ucp("ucp_worker_progress");
    polled = worker;
    unsigned events = real(worker);
    if (events == 0)
        sched_yield();
    return events;
}

void ucp_worker_destroy(void *worker) {
    static destroy_function *real;
    if (!real)
        real = (destroy_function *)of_ucp("ucp_worker_destroy");
    polled = NULL;
    real(worker);
}

ssize_t read(int descriptor, void *buffer, size_t bytes) {
    static read_function *real;
    static int launcher = -2;
    if (!real)
        real = (read_function *)dlsym(RTLD_NEXT, "read");
    if (launcher == -2) {
        const char *named = getenv("PMI_FD");
        launcher = named ? atoi(named) : -1;
    }
    struct pollfd answer = {.fd = descriptor, .events = POLLIN};
    while (descriptor == launcher && polled && poll(&answer, 1, 1) == 0)
        ucp_worker_progress(polled);
    return real(descriptor, buffer, bytes);
}
