/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's memory: by CMA, the system calls process_vm_readv(2) and process_vm_writev(2); or, where
 * both processes have XPMEM, mapped here (shm_xpmem.c).  What XPMEM cannot map is copied by CMA.
 *
 * One attempt per peer finds out whether the kernel allows CMA: it reads the nonce in the peer's
 * memory.  The peer's address says where the nonce is.
 *
 * A pid may be reused at any time, by a process with other memory at the same addresses.  So before
 * it copies, a process reads the peer's nonce, unless it did so within the last ms.  (In that time
 * the peer would have to exit and be reaped, and its pid be reused: the kernel goes through all
 * other pids first.)  A get then reads nonce and data by one call.  To do that always would pin the
 * nonce's page each time, a quarter of the time of a get of 8 bytes.
 *
 * Some memory cannot be copied by CMA, because the kernel does not pin it (memfd_secret, devices).
 * Then the operation ends with OPAL_ERR_NOT_SUPPORTED, and the data goes by messages.
 */
#include "shm/shm.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_host.h"

/* nanoseconds; for this long after a nonce was read, its process counts as proven */
enum { FAB_SHM_CMA_PROOF_NS = 1000000 };

static int access_refuse(fab_shm_ep_t *ep, int error)
{
    fab_shm_domain_t *dom = ep->dom;

    ep->access = FAB_SHM_ACCESS_REFUSED;
    ep->peer->caps &= (uint8_t) ~(FAB_CAP_GET | FAB_CAP_PUT);
    dom->cma_errno = error;
    fab_counters.shm_cma_refused++;
    fab_log(dom->fab, 1,
            "the memory of process %u cannot be read (process_vm_readv: %s): large messages are "
            "copied twice",
            ep->addr.pid, strerror(error));
    return OPAL_ERR_NOT_SUPPORTED;
}

static bool is_gone(const fab_shm_ep_t *ep)
{
    return fab_proc_is_gone(ep->addr.pid, ep->addr.start_time);
}

static int process_died(fab_shm_ep_t *ep)
{
    fab_shm_ep_died(ep);
    return OPAL_ERR_UNREACH;
}

/* Handle the error of a copy; returns what it means for the operation. */
static int access_error(fab_shm_ep_t *ep, int error)
{
    switch (error) {
    case EINTR:
    case EAGAIN:
        return OPAL_ERR_IN_PROCESS;
    case ESRCH: /* or only its first thread has ended: the kernel looks for memory there alone */
        return is_gone(ep) ? process_died(ep) : access_refuse(ep, error);
    case EPERM:
        return access_refuse(ep, error);
    default: /* EFAULT: the memory cannot be pinned, here or there; ENOMEM: too little memory */
        fab_counters.shm_cma_faults++;
        return OPAL_ERR_NOT_SUPPORTED;
    }
}

/* The result is that of process_vm_readv(): the bytes of the nonce, then those of data; or -1. */
static ssize_t read_nonce(const fab_shm_ep_t *ep, uint8_t nonce[FAB_SHM_NONCE],
                          const struct iovec *local, const struct iovec *remote)
{
    struct iovec here[2] = {{nonce, FAB_SHM_NONCE}};
    struct iovec there[2] = {{(void *) (uintptr_t) ep->addr.nonce_at, FAB_SHM_NONCE}};
    const unsigned long num = NULL == local ? 1 : 2;

    if (NULL != local) {
        here[1] = *local;
        there[1] = *remote;
    }
    fab_counters.shm_cma_calls++;
    return process_vm_readv((pid_t) ep->addr.pid, here, num, there, num, 0);
}

static bool is_its_nonce(const fab_shm_ep_t *ep, const uint8_t *nonce, ssize_t len)
{
    return len >= FAB_SHM_NONCE && 0 == memcmp(nonce, ep->addr.nonce, FAB_SHM_NONCE);
}

/*
 * Is it still the same process?  Reads its nonce and, if local is not NULL, data, of which *moved
 * bytes came.
 */
static int prove(fab_shm_ep_t *ep, const struct iovec *local, const struct iovec *remote,
                 size_t *moved)
{
    const uint64_t now = fab_now_ns();
    uint8_t nonce[FAB_SHM_NONCE];
    const ssize_t len = read_nonce(ep, nonce, local, remote);
    const int error = len < 0 ? errno : 0;

    if (0 != error && EFAULT != error) {
        return access_error(ep, error);
    }
    if (EFAULT == error && !is_gone(ep)) {
        return access_refuse(ep, error);
    }
    if (!is_its_nonce(ep, nonce, len)) {
        return process_died(ep); /* its pid is another process's */
    }
    ep->proven_at = now;
    *moved = (size_t) len - FAB_SHM_NONCE;
    fab_counters.shm_cma_bytes += *moved;
    return OPAL_SUCCESS;
}

int fab_shm_transfer(fab_shm_ep_t *ep, bool is_put, void *local, uint64_t remote, size_t len,
                     size_t *moved)
{
    const struct iovec here = {local, len};
    const struct iovec there = {(void *) (uintptr_t) remote, len};
    const pid_t pid = (pid_t) ep->addr.pid;
    ssize_t got;
    int rc;

    if (__builtin_expect(NULL != ep->windows, 0) && len > 0) {
        *moved = fab_shm_xpmem_copy(ep, is_put, local, remote, len);
        if (*moved > 0) {
            return OPAL_SUCCESS;
        }
    }
    if (fab_now_ns() - ep->proven_at >= FAB_SHM_CMA_PROOF_NS) {
        rc = prove(ep, is_put ? NULL : &here, &there, moved);
        if (OPAL_SUCCESS != rc || *moved > 0) {
            return rc;
        }
    }
    got = is_put ? process_vm_writev(pid, &here, 1, &there, 1, 0)
                 : process_vm_readv(pid, &here, 1, &there, 1, 0);
    fab_counters.shm_cma_calls++;
    if (got < 0) {
        return access_error(ep, errno);
    }
    *moved = (size_t) got;
    fab_counters.shm_cma_bytes += *moved;
    return OPAL_SUCCESS;
}

int fab_shm_access_try(fab_shm_ep_t *ep)
{
    uint8_t nonce[FAB_SHM_NONCE];
    ssize_t len;
    int error;

    if (fab_shm_xpmem_connect(ep)) {
        ep->access = FAB_SHM_ACCESS_WORKS;
        return OPAL_SUCCESS;
    }
    len = read_nonce(ep, nonce, NULL, NULL);
    error = len < 0 ? errno : EFAULT;
    if (ESRCH == error && is_gone(ep)) {
        return process_died(ep);
    }
    if (!is_its_nonce(ep, nonce, len)) {
        return access_refuse(ep, error);
    }
    ep->access = FAB_SHM_ACCESS_WORKS;
    return OPAL_SUCCESS;
}

void fab_shm_access_try_one(fab_shm_domain_t *dom)
{
    fab_shm_ep_t *ep, *untried = NULL;

    LIST_FOREACH(ep, &dom->eps, link) {
        if (FAB_SHM_ACCESS_UNTRIED != ep->access) {
            return;
        }
        untried = FAB_PEER_UP == ep->peer->state ? ep : untried;
    }
    if (NULL != untried) {
        (void) fab_shm_access_try(untried);
    }
}
