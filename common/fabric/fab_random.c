/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/fab_random.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

/* Where the system call is forbidden, the file has the same bytes. */
static bool random_from_file(void *bytes, size_t len)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, len);
    int error = n < 0 ? errno : EIO;

    if (fd >= 0) {
        close(fd);
    }
    errno = error;
    return n == (ssize_t) len;
}

bool fab_random(void *bytes, size_t len)
{
    return (ssize_t) len == getrandom(bytes, len, 0) || random_from_file(bytes, len);
}
