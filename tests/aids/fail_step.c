/* Preloaded beside ferrorail: makes one step of its set-up fail. Steps are the calls that libferrorail.so
 * makes for descriptors, mappings, shared memory, sockets and threads; what the host MPI does is left
 * alone. FAIL_STEP=N makes the N-th of them fail in the rank FAIL_RANK of the world (1), with the error that
 * the kernel gives where such things have run out. Each process prints `steps: N` to its standard error when
 * it ends, and the call that failed when it fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static int steps, target = -1;
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
    if (!in_library(caller))
        return 0;
    if (target < 0)
        target = getenv("FAIL_STEP") != NULL && is_rank() ? atoi(getenv("FAIL_STEP")) : 0;
    int step = __atomic_add_fetch(&steps, 1, __ATOMIC_RELAXED);
    if (step != target)
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
