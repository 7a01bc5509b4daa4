/* Preloaded beside ferrorail: makes one step of its set-up fail. Steps are the calls that libferrorail.so
 * makes for descriptors, mappings, large memory, shared memory, sockets, threads and objects of verbs; what the
 * host MPI does is left alone. FAIL_STEP=N makes the N-th of them fail in the rank FAIL_RANK of the world (1), and
 * FAIL_STEP=N+ all from there on, with the error that the kernel gives where such things have run out.
 * FAIL_ONLY=PREFIX counts those alone whose names begin so. refuse_allocation(N), which a program may look up, makes
 * its library's N-th large allocation from then on fail. Each process prints `steps: N` to its standard error
 * when it ends, and the call that failed when it fails. FAIL_POLLS=N makes each poll of that rank after the N-th fail on
 * the rail that it opens first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static int steps, target = -1, last_target;
static char *first, *last; /* where the library's code is */

static int in_library(void *caller)
{
    Dl_info info;
    if (first != NULL && (char *)caller >= first && (char *)caller < last)
        return 1;
    if (!dladdr(caller, &info) || info.dli_fname == NULL || strstr(info.dli_fname, "libferrorail.so") == NULL)
        return 0;
    /* All that is known for now; the next callers extend it. */
    char *at = caller;
    if (first == NULL)
        first = last = at;
    if (at < first)
        first = at;
    if (at >= last)
        last = at + 1;
    return 1;
}

static int is_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    const char *wanted = getenv("FAIL_RANK");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) != NULL)
            return atoi(getenv(names[i])) == (wanted != NULL ? atoi(wanted) : 1);
    return 0;
}

/* Whether the step that is made now has to fail. */
static int fails(void *caller, const char *name, int error)
{
    static const char *only;
    if (!in_library(caller))
        return 0;
    if (only == NULL)
        only = getenv("FAIL_ONLY") != NULL ? getenv("FAIL_ONLY") : "";
    if (strncmp(name, only, strlen(only)) != 0)
        return 0;
    if (target < 0) {
        const char *wanted = getenv("FAIL_STEP") != NULL && is_rank() ? getenv("FAIL_STEP") : "0";
        last_target = strchr(wanted, '+') != NULL ? INT_MAX : atoi(wanted);
        target = atoi(wanted);
    }
    int step = __atomic_add_fetch(&steps, 1, __ATOMIC_RELAXED);
    if (step < target || step > last_target)
        return 0;
    fprintf(stderr, "step %d fails: %s\n", step, name);
    errno = error;
    return 1;
}

__attribute__((destructor)) static void report(void)
{
    if (is_rank())
        fprintf(stderr, "steps: %d\n", steps);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define STEP(error) fails(__builtin_return_address(0), __func__, error)

#define OPEN(name, parameters, arguments, last_known) \
    int name parameters \
    { \
        va_list list; \
        va_start(list, last_known); \
        int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, int) : 0; \
        va_end(list); \
        return STEP(EMFILE) ? -1 : REAL(name) arguments; \
    }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode), flags)
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode), flags)
OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode), flags)
OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode), flags)

#define WRAP(name, error, parameters, arguments) \
    int name parameters { return STEP(error) ? -1 : REAL(name) arguments; }

WRAP(shm_open, ENOSPC, (const char *name, int flags, mode_t mode), (name, flags, mode))
WRAP(memfd_create, EMFILE, (const char *name, unsigned flags), (name, flags))
WRAP(ftruncate, ENOSPC, (int file, off_t length), (file, length))
WRAP(ftruncate64, ENOSPC, (int file, off64_t length), (file, length))
WRAP(fallocate, ENOSPC, (int file, int mode, off_t at, off_t length), (file, mode, at, length))
WRAP(fallocate64, ENOSPC, (int file, int mode, off64_t at, off64_t length), (file, mode, at, length))
WRAP(socket, EMFILE, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(eventfd, EMFILE, (unsigned value, int flags), (value, flags))
WRAP(mlock, ENOMEM, (const void *at, size_t bytes), (at, bytes))

/* These return the error instead. */
int posix_fallocate(int file, off_t at, off_t length)
{
    return STEP(ENOSPC) ? ENOSPC : REAL(posix_fallocate)(file, at, length);
}

int posix_fallocate64(int file, off64_t at, off64_t length)
{
    return STEP(ENOSPC) ? ENOSPC : REAL(posix_fallocate64)(file, at, length);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *with, void *(*start)(void *), void *argument)
{
    return STEP(EAGAIN) ? EAGAIN : REAL(pthread_create)(thread, with, start, argument);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    return STEP(ENOMEM) ? MAP_FAILED : REAL(mmap)(at, bytes, protection, flags, file, offset);
}

void *mmap64(void *at, size_t bytes, int protection, int flags, int file, off64_t offset)
{
    return STEP(ENOMEM) ? MAP_FAILED : REAL(mmap64)(at, bytes, protection, flags, file, offset);
}

/* What the C library maps for: RLIMIT_AS ends it first. Smaller pieces come from what it has. */
enum { LARGE = 128 << 10 };

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static int refused_next; /* 1: the next one, 0: none */

/* Makes the n-th large allocation from now on fail, or none if that is 0. Whether the one told of before has not come. */
int refuse_allocation(int n)
{
    return __atomic_exchange_n(&refused_next, n, __ATOMIC_RELAXED) > 0;
}

static int is_refused(void *caller)
{
    if (__atomic_load_n(&refused_next, __ATOMIC_RELAXED) <= 0 || !in_library(caller))
        return 0;
    int left = __atomic_sub_fetch(&refused_next, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return left == 0;
}

#define REFUSED(bytes) ((bytes) >= LARGE && (is_refused(__builtin_return_address(0)) || STEP(ENOMEM)))

#define ALLOCATE(name, bytes, parameters, arguments) \
    void *name parameters { return REFUSED(bytes) ? NULL : __libc_##name arguments; }

ALLOCATE(malloc, bytes, (size_t bytes), (bytes))
ALLOCATE(calloc, number * bytes, (size_t number, size_t bytes), (number, bytes))
ALLOCATE(realloc, bytes, (void *at, size_t bytes), (at, bytes))

int posix_memalign(void **at, size_t alignment, size_t bytes)
{
    if (REFUSED(bytes))
        return ENOMEM;
    *at = __libc_memalign(alignment, bytes);
    return *at != NULL ? 0 : ENOMEM;
}

/* Polls are calls of a function of the device's driver, which its context names. */
static int polls, polls_max = -1;
static struct ibv_context *polled; /* of the first rail; others may have the same driver */
static int (*real_poll)(struct ibv_cq *, int, struct ibv_wc *);

static int poll_queue(struct ibv_cq *queue, int most, struct ibv_wc *into)
{
    if (queue->context != polled || __atomic_add_fetch(&polls, 1, __ATOMIC_RELAXED) <= polls_max)
        return real_poll(queue, most, into);
    if (__atomic_load_n(&polls, __ATOMIC_RELAXED) == polls_max + 1)
        fprintf(stderr, "polls fail\n");
    return -1;
}

static void watch_polls(struct ibv_context *context)
{
    if (polls_max < 0)
        polls_max = getenv("FAIL_POLLS") != NULL && is_rank() ? atoi(getenv("FAIL_POLLS")) : INT_MAX;
    if (polls_max == INT_MAX || polled != NULL)
        return;
    polled = context;
    real_poll = context->ops.poll_cq;
    context->ops.poll_cq = poll_queue;
}

/* libibverbs is opened when a rail is, and its functions are looked up by name: the look-up answers with these.
 * All arguments and results fit registers. */
typedef long verb(long, long, long, long, long, long);

#define VERB(name, error, result) \
    static verb *real_##name; \
    static long fail_##name(long a, long b, long c, long d, long e, long f) \
    { \
        return fails(__builtin_return_address(0), #name, error) ? (result) : real_##name(a, b, c, d, e, f); \
    }

/* Those that return an object. */
VERB(ibv_open_device, EMFILE, 0)
VERB(ibv_alloc_pd, ENOMEM, 0)
VERB(ibv_create_comp_channel, EMFILE, 0)
static verb *real_ibv_create_cq;
static long fail_ibv_create_cq(long context, long b, long c, long d, long e, long f)
{
    if (fails(__builtin_return_address(0), "ibv_create_cq", ENOMEM))
        return 0;
    watch_polls((struct ibv_context *)context);
    return real_ibv_create_cq(context, b, c, d, e, f);
}
VERB(ibv_create_srq, ENOMEM, 0)
VERB(ibv_create_qp, ENOMEM, 0)
VERB(ibv_create_ah, ENOMEM, 0)
VERB(ibv_reg_mr, ENOMEM, 0)
/* Those that return an error. */
VERB(ibv_modify_qp, ENOMEM, ENOMEM)
VERB(ibv_attach_mcast, ENOMEM, ENOMEM)

static const struct {
    const char *name;
    verb *instead, **real;
} verbs[] = {
#define ROW(name) {#name, fail_##name, &real_##name}
    ROW(ibv_open_device), ROW(ibv_alloc_pd), ROW(ibv_create_comp_channel), ROW(ibv_create_cq), ROW(ibv_create_srq),
    ROW(ibv_create_qp), ROW(ibv_create_ah), ROW(ibv_reg_mr), ROW(ibv_modify_qp), ROW(ibv_attach_mcast),
};

typedef void *look_up(void *, const char *);

/* Under the versions of the C library that have it. */
static look_up *real_look_up(void)
{
    static look_up *real;
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (size_t i = 0; real == NULL && i < sizeof versions / sizeof *versions; i++)
        real = (look_up *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    return real;
}

/* Ends in a jump, as RTLD_NEXT goes by the caller's address. */
__attribute__((optimize("optimize-sibling-calls"))) void *dlsym(void *in, const char *name)
{
    look_up *real = real_look_up();
    if (strncmp(name, "ibv_", 4) == 0 && in_library(__builtin_return_address(0)))
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
            if (strcmp(name, verbs[i].name) == 0) {
                *verbs[i].real = (verb *)real(in, name);
                return *verbs[i].real != NULL ? (void *)verbs[i].instead : NULL;
            }
    return real(in, name);
}
