/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that the program may have closed, and memory for the bytes of a segment's file.
 */
#include "shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { FAB_SHM_BACK_STEP = 1 << 16 }; /* bytes; takes some 10 us */

void fab_shm_file_open(fab_shm_file_t *file, int fd)
{
    struct stat st;

    *file = (fab_shm_file_t){.fd = -1};
    if (fd >= 0 && 0 == fstat(fd, &st)) {
        *file = (fab_shm_file_t){
            .fd = fd, .dev = (uint64_t) st.st_dev, .ino = (uint64_t) st.st_ino};
    }
}

bool fab_shm_file_is_open(const fab_shm_file_t *file)
{
    struct stat st;

    return file->fd >= 0 && 0 == fstat(file->fd, &st) && file->dev == (uint64_t) st.st_dev &&
           file->ino == (uint64_t) st.st_ino;
}

void fab_shm_file_close(fab_shm_file_t *file)
{
    if (fab_shm_file_is_open(file)) {
        close(file->fd);
    }
    file->fd = -1;
}

bool fab_shm_back(int fd, off_t at, off_t len)
{
    off_t max_step = len;

    while (len > 0) {
        off_t step = len < max_step ? len : max_step;
        if (0 == fallocate(fd, 0, at, step)) {
            at += step;
            len -= step;
        } else if (EINTR == errno) {
            max_step = FAB_SHM_BACK_STEP;
        } else {
            return false;
        }
    }
    return true;
}

void *fab_shm_file_map(int fd, size_t size, size_t first)
{
    void *at = mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    if (MAP_FAILED != at &&
        (0 != munlock(at, size) || 0 != mprotect(at, first, PROT_READ | PROT_WRITE))) {
        int error = errno;
        munmap(at, size);
        errno = error;
        return MAP_FAILED;
    }
    if (MAP_FAILED != at) {
        (void) madvise(at, size, MADV_DONTDUMP);
    }
    return at;
}
