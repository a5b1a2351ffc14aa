/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's segment in this process: its file is opened, and what is needed of it is mapped.
 */
#include "shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "fabric/fab_host.h"

int fab_shm_connect_error(int error)
{
    switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOSPC:
    case EAGAIN:
        return OPAL_ERR_OUT_OF_RESOURCE;
    default:
        return OPAL_ERR_UNREACH;
    }
}

void *fab_shm_map_file(int fd, size_t size, size_t first)
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

static int not_its_segment(fab_shm_ep_t *ep, const char **why)
{
    *why = fab_sentence(ep->dom->fab,
                        "The shared memory of process %u is another file: its head does not match "
                        "the process's address. The process has ended, or closed its descriptors.",
                        ep->addr.pid);
    return OPAL_ERR_UNREACH;
}

/*
 * Is this file the peer's segment?  It is read, not mapped, since reading does no harm whatever the
 * file is.  If its head has the nonce of the peer's address, that process made it, and its size is
 * sealed.
 */
static bool is_segment(const fab_shm_ep_t *ep, int fd)
{
    const fab_shm_addr_t *addr = &ep->addr;
    fab_shm_seg_t seg;

    return (ssize_t) sizeof(seg) == pread(fd, &seg, sizeof(seg), 0) && FAB_SHM_MAGIC == seg.magic &&
           FAB_SHM_VERSION == seg.version && addr->ring_size == seg.ring_size &&
           addr->num_rings == seg.num_rings && addr->page == seg.page &&
           addr->num_ahead == seg.num_ahead && fab_shm_seg_size(addr) == seg.size &&
           ep->peer->name == seg.name && 0 == memcmp(seg.nonce, addr->nonce, sizeof(seg.nonce));
}

/*
 * Open the segment.  The pid, or the descriptor, may be another's by now: a file that is no memory
 * file of this name is not opened, since that alone can do something to a device or a pipe, and
 * programs may watch who opens a file for writing.  *is_other: there is another file.
 */
static int open_segment(const char *path, bool *is_other)
{
    static const char segment[] = "/memfd:" FAB_SHM_FILE;
    char target[sizeof(segment)];
    ssize_t len = readlink(path, target, sizeof(target) - 1);

    *is_other = len >= 0 && ((size_t) len < sizeof(segment) - 1 ||
                             0 != memcmp(target, segment, sizeof(segment) - 1));
    return len < 0 || *is_other ? -1 : open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

int fab_shm_map_open(fab_shm_ep_t *ep, int *fd, const char **why)
{
    const fab_shm_addr_t *addr = &ep->addr;
    const char *advice =
        "Both processes must have the same user, and the same user or network namespace.";
    char path[64];
    bool is_other;
    int rc;

    *fd = -1;
    if (!fab_proc_is_own()) {
        *why = fab_sentence(ep->dom->fab,
                            "The shared memory of process %u on this host cannot be opened: /proc "
                            "is not there, or that of another pid namespace. Mount one (unshare "
                            "--mount-proc, bwrap --proc /proc).",
                            addr->pid);
        return OPAL_ERR_UNREACH;
    }
    snprintf(path, sizeof(path), "/proc/%u/fd/%d", addr->pid, addr->fd);
    *fd = open_segment(path, &is_other);
    if (is_other) {
        return not_its_segment(ep, why);
    }
    if (*fd >= 0) {
        if (is_segment(ep, *fd)) {
            return OPAL_SUCCESS;
        }
        close(*fd);
        *fd = -1;
        return not_its_segment(ep, why);
    }
    rc = fab_shm_connect_error(errno);
    if (ENOENT == errno) {
        advice = "The process has ended, or has left the job.";
    } else if (EMFILE == errno || ENFILE == errno) {
        advice = "Raise the limit on open files (ulimit -n), or close some.";
    } else if (OPAL_ERR_OUT_OF_RESOURCE == rc) {
        advice = "The host is short of memory.";
    }
    *why = fab_sentence(
        ep->dom->fab, "The shared memory of process %u on this host cannot be opened (%s: %s). %s",
        addr->pid, path, strerror(errno), advice);
    return rc;
}

static int map_error(fab_shm_ep_t *ep, size_t len, const char **why)
{
    int rc = fab_shm_connect_error(errno);

    *why = fab_sentence(ep->dom->fab,
                        "%zu bytes of the shared memory of process %u cannot be mapped: %s.", len,
                        ep->addr.pid, strerror(errno));
    return rc;
}

int fab_shm_map_head(fab_shm_ep_t *ep, int fd, const char **why)
{
    size_t len = fab_shm_ring_at(&ep->addr, ep->addr.num_ahead);
    void *at = fab_shm_map_file(fd, len, ep->addr.page);

    if (MAP_FAILED == at) {
        return map_error(ep, len, why);
    }
    (void) madvise(at, ep->addr.page, MADV_POPULATE_WRITE); /* for a fast first message */
    ep->seg = at;
    ep->seg_len = len;
    return OPAL_SUCCESS;
}

void fab_shm_find(fab_shm_ep_t *ep)
{
    const char *why;
    int fd;

    if (OPAL_SUCCESS == fab_shm_map_open(ep, &fd, &why)) {
        (void) fab_shm_map_head(ep, fd, &why);
        close(fd);
    }
}

void fab_shm_found(fab_shm_ep_t *ep, int fd)
{
    const char *why;

    if (NULL != ep->seg || FAB_PEER_UP != ep->peer->state || ep->is_left || !is_segment(ep, fd) ||
        OPAL_SUCCESS != fab_shm_map_head(ep, fd, &why)) {
        return;
    }
    if (0 != atomic_load_explicit(&ep->seg->is_finalized, memory_order_relaxed)) {
        fab_shm_unmap(ep); /* it answered, and left: the next question says so */
        return;
    }
    fab_counters.shm_segments_passed++;
    ep->retry_at = 0;
}

bool fab_shm_map_more(fab_shm_ep_t *ep, size_t len)
{
    void *at;

    (void) munlock(ep->seg, ep->seg_len);
    at = mremap(ep->seg, ep->seg_len, len, MREMAP_MAYMOVE);
    if (MAP_FAILED == at) {
        return false;
    }
    ep->seg = at;
    ep->seg_len = len;
    return true;
}

int fab_shm_map_ahead(fab_shm_ep_t *ep, const char **why)
{
    return 0 == mprotect(ep->seg, ep->seg_len, PROT_READ | PROT_WRITE)
               ? OPAL_SUCCESS
               : map_error(ep, ep->seg_len, why);
}

void fab_shm_unmap(fab_shm_ep_t *ep)
{
    if (NULL != ep->seg) {
        munmap(ep->seg, ep->seg_len);
        ep->seg = NULL;
    }
}
