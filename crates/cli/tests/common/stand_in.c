/* Stands in for the preload library: forwards to the host MPI; says once in which instance it is,
 * what is forced there and how it broadcasts, which may be slow. Counts reductions as forwarded, and knows nothing of scans. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef int (*Allgather)(const void *, int, size_t, void *, int, size_t, size_t);
typedef int (*Bcast)(void *, int, size_t, int, size_t);
typedef int (*Fold)(const void *, void *, int, size_t, size_t, size_t);
static int calls, bcasts, multicasts;
static unsigned long long folded, casts;
static char forced_bcast[1000];
int MPI_Allgather(const void *send, int send_count, size_t send_type,
                  void *recv, int recv_count, size_t recv_type, size_t comm) {
    Allgather next = (Allgather)dlsym(RTLD_DEFAULT, "PMPI_Allgather");
    if (calls++ == 0) {
        const char *forced = getenv("FERRORAIL_ALGORITHM");
        fprintf(stderr, "instance <%s>\n", forced ? forced : "");
    }
    int code = next(send, send_count, send_type, recv, recv_count, recv_type, comm);
    if (getenv("STAND_IN_CORRUPTS") && recv_count > 0)
        ((unsigned char *)recv)[recv_count * 2 - 1] ^= 1;
    return code;
}
static const char *given(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}
int MPI_Bcast(void *buffer, int count, size_t type, int root, size_t comm) {
    if (bcasts++ == 0) {
        const char *forced = given("FERRORAIL_ALGORITHM");
        snprintf(forced_bcast, sizeof forced_bcast, "%s", forced);
        multicasts = strcmp(forced, "bcast=smp_multicast") == 0 && !getenv("STAND_IN_HAS_NO_MULTICAST");
        fprintf(stderr, "broadcasts <%s %s %s %s>\n", forced, given("FERRORAIL_BCAST_CHANNELS"),
                given("FERRORAIL_BCAST_RELIABLE"), given("FERRORAIL_BCAST_CHECKSUM"));
    }
    casts += multicasts;
    /* All are slow but what forces this. */
    const char *fast = getenv("STAND_IN_FAST");
    if (fast && strcmp(fast, forced_bcast))
        usleep(20000);
    return ((Bcast)dlsym(RTLD_DEFAULT, "PMPI_Bcast"))(buffer, count, type, root, comm);
}
int MPI_Allreduce(const void *send, void *recv, int count, size_t type, size_t op, size_t comm) {
    folded++;
    return ((Fold)dlsym(RTLD_DEFAULT, "PMPI_Allreduce"))(send, recv, count, type, op, comm);
}
unsigned long long ferrorail_forwarded(const char *collective) {
    return collective && strcmp(collective, "allreduce") == 0 ? folded : 0;
}
unsigned long long ferrorail_multicasts(void) {
    return casts;
}
/* Two ranks on one node, with a core each. */
int ferrorail_facts(size_t comm, unsigned facts[7]) {
    static const unsigned seen[7] = {2, 1, 2, 1, 1, 1, 1};
    (void)comm;
    memcpy(facts, seen, sizeof seen);
    return 0;
}
typedef long (*Next)(long, long, long, long, long, long, long, long, long);
static unsigned long long locks;
#define FORWARD(name, act)                                                                         \
    long MPI_##name(long a, long b, long c, long d, long e, long f, long g, long h, long i) {     \
        static Next next;                                                                          \
        if (!next) next = (Next)dlsym(RTLD_DEFAULT, "PMPI_" #name);                                \
        act;                                                                                       \
        return next(a, b, c, d, e, f, g, h, i);                                                    \
    }
FORWARD(Win_create,) FORWARD(Win_allocate,) FORWARD(Win_free,) FORWARD(Win_fence,)
FORWARD(Win_post,) FORWARD(Win_start,) FORWARD(Win_complete,) FORWARD(Win_wait,)
FORWARD(Win_lock, locks++) FORWARD(Win_unlock,) FORWARD(Win_lock_all,) FORWARD(Win_unlock_all,)
FORWARD(Win_flush,) FORWARD(Put, if (getenv("STAND_IN_CORRUPTS") && b > 8) e++) FORWARD(Get,)
FORWARD(Accumulate,) FORWARD(Fetch_and_op,)
unsigned long long ferrorail_lock_messages(size_t window, unsigned long long *acquired) {
    *acquired = locks;
    return 3 * locks;
}
