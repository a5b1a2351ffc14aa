/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory files; see fab_file.h.
 */
#include "fabric/fab_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define NOEXEC_SEAL 8U /* MFD_NOEXEC_SEAL: a host may forbid memory files without it */

enum { BACK_STEP = 1 << 16 }; /* bytes; takes some 10 us */

void fab_file_open(fab_file_t *file, int fd)
{
    struct stat st;

    *file = (fab_file_t){.fd = -1};
    if (fd >= 0 && 0 == fstat(fd, &st)) {
        *file = (fab_file_t){.fd = fd, .dev = (uint64_t) st.st_dev, .ino = (uint64_t) st.st_ino};
    }
}

bool fab_file_is_open(const fab_file_t *file)
{
    struct stat st;

    return file->fd >= 0 && 0 == fstat(file->fd, &st) && file->dev == (uint64_t) st.st_dev &&
           file->ino == (uint64_t) st.st_ino;
}

void fab_file_close(fab_file_t *file)
{
    if (fab_file_is_open(file)) {
        close(file->fd);
    }
    file->fd = -1;
}

int fab_file_memory(const char *name, unsigned flags, size_t size)
{
    struct rlimit limit;
    int fd, error;

    if (0 == getrlimit(RLIMIT_FSIZE, &limit) && size > limit.rlim_cur) {
        errno = EFBIG; /* ftruncate() would end the process: SIGXFSZ */
        return -1;
    }
    fd = memfd_create(name, MFD_CLOEXEC | NOEXEC_SEAL | flags);
    if (fd < 0 && EINVAL == errno) { /* Linux before 6.3 */
        fd = memfd_create(name, MFD_CLOEXEC | flags);
    }
    if (fd >= 0 && 0 != ftruncate(fd, (off_t) size)) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

bool fab_file_back(int fd, off_t at, off_t len)
{
    off_t max_step = len;

    while (len > 0) {
        off_t step = len < max_step ? len : max_step;
        if (0 == fallocate(fd, 0, at, step)) {
            at += step;
            len -= step;
        } else if (EINTR == errno) {
            max_step = BACK_STEP;
        } else {
            return false;
        }
    }
    return true;
}
