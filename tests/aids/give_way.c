/* Preloaded into jobs of MPICH that have more ranks than cores: MPICH polls UCX without yielding, so
   that a rank with nothing to do keeps the core from one that has. This gives the core away after
   each poll that found nothing; results are the same, up to a hundred times sooner. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

typedef unsigned progress_function(void *);

unsigned ucp_worker_progress(void *worker) {
    static progress_function *real;
    if (!real) {
        /* Not RTLD_NEXT: Python opens MPI, and so UCX, in a scope of their own. */
        void *ucp = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
        real = (progress_function *)dlsym(ucp, "ucp_worker_progress");
    }
    unsigned events = real(worker);
    if (events == 0)
        sched_yield();
    return events;
}
