/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of no_memory.sh and faults.sh, loaded with LD_PRELOAD: calls of the rank TM_FAIL_RANK that
 * come from pml_tm's libraries fail; those of Open MPI, of the C library and of the program do not.
 *
 * Allocations: of malloc, calloc and realloc the one of number TM_FAIL_CALL (from 1) fails, and
 * with TM_FAIL_ALL=1 all after it. Their number is written to the file TM_FAIL_COUNT at the end. A
 * program can turn on and off by fail_calls_from_now() that all fail, in this rank. With TM_FAIL_IN
 * only those count that come from this function, which must be exported, with TM_FAIL_LIBRARY those
 * from the library of this name instead of pml_tm's two.
 *
 * All calls below: a site is a function and the place in a library from which it is called. With
 * TM_FAIL_SITES each site is written to this file, in the order of their first calls, as
 *      FUNCTION LIBRARY+OFFSET CALLS
 * and with TM_FAIL_SITE="FUNCTION LIBRARY+OFFSET NUMBER" that call of that site fails, as the
 * function fails when something is used up. That it has failed is said in TM_FAIL_SITES, too.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

enum { SITES_MAX = 2048 };

typedef struct site {
    const char *function;
    char library[64]; /* its file's name: it may be unloaded when the sites are written */
    size_t offset;
    long calls;
} site_t;

static atomic_long calls;
static long fail_at, fails_all;
static bool is_on;
static atomic_bool fails_now;

static site_t sites[SITES_MAX];
static int num_sites;
static pthread_mutex_t sites_lock = PTHREAD_MUTEX_INITIALIZER;
static char fail_function[64], fail_library[64];
static size_t fail_offset;
static long fail_number; /* 0: none */
static bool has_failed;

void fail_calls_from_now(bool is_failing);

void fail_calls_from_now(bool is_failing)
{
    atomic_store(&fails_now, is_failing);
}

static const char *function, *library;

/* Is this the file of the library, or one of the two? */
static bool is_library(const char *file)
{
    if (NULL != library) {
        return NULL != strstr(file, library);
    }
    return NULL != strstr(file, "mca_pml_tm") || NULL != strstr(file, "libmca_common_tm");
}

/* Is this address in such a library, and in the function that is asked for? */
static bool is_ours(const void *address, Dl_info *info)
{
    return 0 != dladdr(address, info) && NULL != info->dli_fname && is_library(info->dli_fname) &&
           (NULL == function ||
            (NULL != info->dli_sname && 0 == strcmp(info->dli_sname, function)));
}

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');

    return NULL != slash ? slash + 1 : file;
}

/* Count a call of a site: is it the one that fails? Lock held. */
static bool count_at(const char *name, const char *from, size_t offset)
{
    site_t *site = sites;

    while (site < sites + num_sites &&
           (site->offset != offset || site->function != name || 0 != strcmp(site->library, from))) {
        site++;
    }
    if (site == sites + num_sites) {
        if (SITES_MAX == num_sites) {
            return false;
        }
        *site = (site_t){.function = name, .offset = offset};
        snprintf(site->library, sizeof(site->library), "%s", from);
        num_sites++;
    }
    site->calls++;
    return site->calls == fail_number && offset == fail_offset &&
           0 == strcmp(name, fail_function) && 0 == strcmp(from, fail_library);
}

static bool fails_at_site(const char *name, const Dl_info *info, const void *caller)
{
    bool fails;

    pthread_mutex_lock(&sites_lock);
    fails = count_at(name, base_name(info->dli_fname),
                     (size_t) ((const char *) caller - (const char *) info->dli_fbase));
    has_failed |= fails;
    pthread_mutex_unlock(&sites_lock);
    return fails;
}

/* Does this call fail?  Then errno is set. */
static bool fails(const char *name, const void *caller, int error)
{
    const int saved = errno;
    Dl_info info;

    if (!is_on || !is_ours(caller, &info)) {
        errno = saved;
        return false;
    }
    errno = error;
    if (fails_at_site(name, &info, caller)) {
        return true;
    }
    errno = saved;
    return false;
}

static bool fails_to_allocate(const char *name, const void *caller)
{
    Dl_info info;
    long call;

    if (!is_on || !is_ours(caller, &info)) {
        return false;
    }
    call = atomic_fetch_add(&calls, 1) + 1;
    if (!fails_at_site(name, &info, caller) && call != fail_at && !(fails_all && call > fail_at) &&
        !atomic_load(&fails_now)) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

/* ---- allocations -------------------------------------------------------- */

void *malloc(size_t size)
{
    return fails_to_allocate("malloc", __builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails_to_allocate("calloc", __builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return fails_to_allocate("realloc", __builtin_return_address(0)) ? NULL
                                                                     : __libc_realloc(old, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return fails("aligned_alloc", __builtin_return_address(0), ENOMEM)
               ? NULL
               : __libc_memalign(align, size);
}

char *strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = fails("strdup", __builtin_return_address(0), ENOMEM) ? NULL : __libc_malloc(size);

    return NULL != copy ? memcpy(copy, text, size) : NULL;
}

/* ---- other calls -------------------------------------------------------- */

/* The next library's function, once. */
#define NEXT(name)                                                                                 \
    static _Atomic(void *) next;                                                                   \
    if (NULL == atomic_load(&next)) {                                                              \
        atomic_store(&next, dlsym(RTLD_NEXT, #name));                                              \
    }                                                                                              \
    typeof(&name) call = (typeof(&name)) atomic_load(&next)

#define FAIL(type, name, error, result, params, args)                                              \
    type name params;                                                                              \
    type name params                                                                               \
    {                                                                                              \
        NEXT(name);                                                                                \
        return fails(#name, __builtin_return_address(0), error) ? (result) : call args;            \
    }

FAIL(void *, mmap, ENOMEM, MAP_FAILED,
     (void *at, size_t len, int prot, int flags, int fd, off_t from),
     (at, len, prot, flags, fd, from))
FAIL(int, munmap, ENOMEM, -1, (void *at, size_t len), (at, len))
FAIL(int, mprotect, ENOMEM, -1, (void *at, size_t len, int prot), (at, len, prot))
FAIL(int, madvise, EFAULT, -1, (void *at, size_t len, int advice), (at, len, advice))
FAIL(int, munlock, ENOMEM, -1, (const void *at, size_t len), (at, len))
FAIL(int, fallocate, ENOSPC, -1, (int fd, int mode, off_t at, off_t len), (fd, mode, at, len))
FAIL(int, ftruncate, EFBIG, -1, (int fd, off_t len), (fd, len))
FAIL(int, memfd_create, EMFILE, -1, (const char *name, unsigned flags), (name, flags))
FAIL(ssize_t, getrandom, EINTR, -1, (void *buf, size_t len, unsigned flags), (buf, len, flags))
FAIL(ssize_t, readlink, EACCES, -1, (const char *path, char *buf, size_t size), (path, buf, size))
FAIL(FILE *, fopen, EMFILE, NULL, (const char *path, const char *mode), (path, mode))
FAIL(DIR *, opendir, EMFILE, NULL, (const char *path), (path))
FAIL(int, socket, EMFILE, -1, (int domain, int type, int protocol), (domain, type, protocol))
FAIL(int, bind, EADDRINUSE, -1, (int fd, const struct sockaddr *at, socklen_t len), (fd, at, len))
FAIL(int, listen, EADDRINUSE, -1, (int fd, int backlog), (fd, backlog))
FAIL(int, connect, EADDRNOTAVAIL, -1, (int fd, const struct sockaddr *at, socklen_t len),
     (fd, at, len))
FAIL(int, accept4, EMFILE, -1, (int fd, struct sockaddr *at, socklen_t *len, int flags),
     (fd, at, len, flags))
FAIL(int, getsockname, ENOBUFS, -1, (int fd, struct sockaddr *at, socklen_t *len), (fd, at, len))
FAIL(int, setsockopt, ENOBUFS, -1, (int fd, int level, int name, const void *value, socklen_t len),
     (fd, level, name, value, len))
FAIL(int, getsockopt, ENOBUFS, -1, (int fd, int level, int name, void *value, socklen_t *len),
     (fd, level, name, value, len))
FAIL(ssize_t, sendmsg, ENOBUFS, -1, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags))
FAIL(ssize_t, recvmsg, ENOMEM, -1, (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
FAIL(ssize_t, send, ENOBUFS, -1, (int fd, const void *buf, size_t len, int flags),
     (fd, buf, len, flags))
FAIL(ssize_t, recv, ENOMEM, -1, (int fd, void *buf, size_t len, int flags), (fd, buf, len, flags))
FAIL(ssize_t, readv, ENOMEM, -1, (int fd, const struct iovec *iov, int num), (fd, iov, num))
FAIL(int, epoll_create1, EMFILE, -1, (int flags), (flags))
/* Of its operations only EPOLL_CTL_ADD needs memory. */
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    NEXT(epoll_ctl);
    bool may_fail = EPOLL_CTL_ADD == op;

    return may_fail && fails("epoll_ctl", __builtin_return_address(0), ENOMEM)
               ? -1
               : call(epoll, op, fd, event);
}

FAIL(int, epoll_wait, EINTR, -1, (int fd, struct epoll_event *events, int max, int ms),
     (fd, events, max, ms))
FAIL(ssize_t, process_vm_readv, ENOMEM, -1,
     (pid_t pid, const struct iovec *here, unsigned long m, const struct iovec *there,
      unsigned long n, unsigned long flags),
     (pid, here, m, there, n, flags))
FAIL(ssize_t, process_vm_writev, ENOMEM, -1,
     (pid_t pid, const struct iovec *here, unsigned long m, const struct iovec *there,
      unsigned long n, unsigned long flags),
     (pid, here, m, there, n, flags))
FAIL(int, getifaddrs, ENOMEM, -1, (struct ifaddrs * *all), (all))
FAIL(int, getrlimit, EINVAL, -1, (__rlimit_resource_t which, struct rlimit *limit), (which, limit))

int open(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode;

    NEXT(open);
    va_start(args, flags);
    mode = 0 != (flags & O_CREAT) ? (mode_t) va_arg(args, int) : 0;
    va_end(args);
    return fails("open", __builtin_return_address(0), EMFILE) ? -1 : call(path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
    va_list args;
    void *arg;

    NEXT(fcntl);
    va_start(args, command);
    arg = va_arg(args, void *);
    va_end(args);
    return fails("fcntl", __builtin_return_address(0), ENOMEM) ? -1 : call(fd, command, arg);
}

/* ---- which, and how many ------------------------------------------------ */

__attribute__((constructor)) static void begin(void)
{
    const char *rank = getenv("TM_FAIL_RANK"), *me = getenv("OMPI_COMM_WORLD_RANK");
    const char *call = getenv("TM_FAIL_CALL"), *all = getenv("TM_FAIL_ALL");
    const char *site = getenv("TM_FAIL_SITE");

    is_on = NULL != rank && NULL != me && 0 == strcmp(rank, me);
    fail_at = NULL != call ? atol(call) : 0;
    function = getenv("TM_FAIL_IN");
    library = getenv("TM_FAIL_LIBRARY");
    fails_all = NULL != all && '1' == *all;
    if (NULL != site && 4 != sscanf(site, "%63s %63[^+]+%zx %ld", fail_function, fail_library,
                                    &fail_offset, &fail_number)) {
        fprintf(stderr, "TM_FAIL_SITE=%s is no site\n", site);
        abort();
    }
}

static void write_sites(FILE *file)
{
    for (const site_t *site = sites; site < sites + num_sites; site++) {
        fprintf(file, "%s %s+%zx %ld\n", site->function, site->library, site->offset, site->calls);
    }
    if (has_failed) {
        fprintf(file, "failed\n");
    }
}

__attribute__((destructor)) static void end(void)
{
    const char *name = getenv("TM_FAIL_COUNT"), *list = getenv("TM_FAIL_SITES");
    FILE *file = is_on && NULL != name ? fopen(name, "w") : NULL;

    if (NULL != file) {
        fprintf(file, "%ld\n", atomic_load(&calls));
        fclose(file);
    }
    file = is_on && NULL != list ? fopen(list, "w") : NULL;
    if (NULL != file) {
        write_sites(file);
        fclose(file);
    }
}
