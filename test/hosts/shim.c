/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded: what the kernel may do to the sockets of the common library, far more often than it
 * would.  Writes and reads are cut short, put off (EAGAIN) and interrupted; attempts to connect
 * fail at first.  Calls of others go through as they are.  SHIM_SEED repeats a run, but for the
 * moments.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FAILED_CONNECTS = 3 };

static unsigned state;

static unsigned next(void)
{
    if (0 == state) {
        const char *seed = getenv("SHIM_SEED");
        state = (NULL != seed ? (unsigned) atoi(seed) : 1u) * 2654435761u + (unsigned) getpid();
        state |= 1;
    }
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* Is it a call of the common library? */
static int is_ours(const void *caller)
{
    Dl_info info;

    return 0 != dladdr(caller, &info) && NULL != strstr(info.dli_fname, "libmca_common_tm");
}

/* One call in so many does not get to the kernel. */
static int is_put_off(unsigned odds)
{
    if (0 != next() % odds) {
        return 0;
    }
    errno = 0 == next() % 2 ? EAGAIN : EINTR;
    return 1;
}

static size_t cut(size_t len)
{
    return 0 == next() % 3 && len > 1 ? 1 + next() % (len < 3000 ? len : 3000) : len;
}

#define REAL(name) ((__typeof__(name) *) dlsym(RTLD_NEXT, #name))

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
    static __typeof__(recv) *real;
    int is_peek = 0 != (flags & MSG_PEEK);

    real = NULL != real ? real : REAL(recv);
    if (is_ours(__builtin_return_address(0)) && !is_peek) {
        if (is_put_off(8)) {
            return -1;
        }
        len = cut(len);
    }
    return real(fd, buf, len, flags);
}

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
    static __typeof__(send) *real;

    real = NULL != real ? real : REAL(send);
    if (is_ours(__builtin_return_address(0))) {
        if (is_put_off(4)) {
            return -1;
        }
        len = cut(len);
    }
    return real(fd, buf, len, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    static __typeof__(sendmsg) *real;
    struct msghdr less = *msg;
    struct iovec iov;

    real = NULL != real ? real : REAL(sendmsg);
    if (is_ours(__builtin_return_address(0))) {
        if (is_put_off(4)) {
            return -1;
        }
        if (0 == next() % 3) {
            less.msg_iovlen = 1;
            iov = msg->msg_iov[0];
            iov.iov_len = cut(iov.iov_len);
            less.msg_iov = &iov;
        }
    }
    return real(fd, &less, flags);
}

ssize_t readv(int fd, const struct iovec *iov, int num)
{
    static __typeof__(readv) *real;
    struct iovec first = iov[0];

    real = NULL != real ? real : REAL(readv);
    if (is_ours(__builtin_return_address(0))) {
        if (is_put_off(8)) {
            return -1;
        }
        if (0 == next() % 3) {
            first.iov_len = cut(first.iov_len);
            return real(fd, &first, 1);
        }
    }
    return real(fd, iov, num);
}

int connect(int fd, const struct sockaddr *to, socklen_t len)
{
    static __typeof__(connect) *real;
    static int failed;

    real = NULL != real ? real : REAL(connect);
    if (is_ours(__builtin_return_address(0)) && failed < FAILED_CONNECTS) {
        failed++;
        errno = 0 == next() % 2 ? EHOSTUNREACH : ETIMEDOUT;
        return -1;
    }
    return real(fd, to, len);
}
