/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get and put without work for the other side, with one copy: by CMA, the system calls
 * process_vm_readv(2) and process_vm_writev(2); or, where both processes have XPMEM, out of the
 * peer's memory mapped here (shm_xpmem.c).  What XPMEM cannot map is copied by CMA.
 *
 * The domain has one queue of operations.  A progress call copies up to shm_copy_step bytes: a step
 * of the first operation, which then goes to the end of the queue, and so on.  So large operations
 * share the time, small ones do not wait behind them, and messages wait for one step at most.  Of
 * the long gets from one peer only as many are in the queue as it can help with at the same time,
 * oldest first; the others follow when these end.  If all of a window were begun at once, the peer
 * would help with the first two only: windows of 1 MiB would get 13 GB/s, not 20.
 *
 * One attempt per peer finds out whether the kernel allows CMA: it reads the nonce in the peer's
 * memory.  The peer's address says where the nonce is.
 *
 * A pid may be reused at any time, by a process with other memory at the same addresses.  So before
 * it copies, a process reads the peer's nonce, unless it did so within the last ms.  (In that time
 * the peer would have to exit and be reaped, and its pid be reused: the kernel goes through all
 * other pids first.)  Nothing is gained by reading the nonce and data by one call: that would pin
 * the nonce's page each time, a quarter of the time of a get of 8 bytes.
 *
 * The peer may copy a part of a large get (shm_coop.c).  Short operations may be done at once,
 * ahead of the queue (fab_put_now(), fab_get_now()).
 *
 * Some memory cannot be copied by CMA, because the kernel does not pin it (memfd_secret, devices).
 * Then the operation ends with OPAL_ERR_NOT_SUPPORTED, and the data goes by messages.
 */
#include "shm/shm_types.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_host.h"
#include "fabric/fab_params.h"

enum {
    /* cost of a call, as the bytes that could be copied in that time (about 0.4 us) */
    FAB_SHM_CALL_COST = 4096,
    /* bytes; a get of so many at once takes no longer than with the peer's help */
    FAB_SHM_ALONE_MAX = 65536,
    /* steps; so many bytes at once take a fifth longer by as many system calls */
    FAB_SHM_NOW_STEPS = 4,
    /* nanoseconds; for this long after a nonce was read, its process counts as proven */
    FAB_SHM_CMA_PROOF_NS = 1000000,
};

/* ---- system calls ------------------------------------------------------- */

static int access_refuse(fab_shm_ep_t *ep, int error)
{
    fab_shm_domain_t *dom = ep->dom;

    ep->access = FAB_SHM_ACCESS_REFUSED;
    ep->peer->caps &= (uint8_t) ~(FAB_CAP_GET | FAB_CAP_PUT);
    dom->cma_errno = error;
    dom->cma_peer = ep->peer->name;
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

/* Copy by XPMEM as much as is possible. False: nothing was. */
static bool by_xpmem(fab_shm_ep_t *ep, int kind, void *local, uint64_t remote, size_t len,
                     size_t *moved)
{
    if (__builtin_expect(NULL == ep->windows, 1) || 0 == len) {
        return false;
    }
    *moved = fab_shm_xpmem_copy(ep, FAB_PUT == kind, local, remote, len);
    return *moved > 0;
}

static ssize_t read_nonce(const fab_shm_ep_t *ep, uint8_t nonce[FAB_SHM_NONCE])
{
    struct iovec local = {nonce, FAB_SHM_NONCE};
    struct iovec remote = {(void *) (uintptr_t) ep->addr.nonce_at, FAB_SHM_NONCE};

    fab_counters.shm_cma_calls++;
    return process_vm_readv((pid_t) ep->addr.pid, &local, 1, &remote, 1, 0);
}

static bool is_its_nonce(const fab_shm_ep_t *ep, const uint8_t *nonce, ssize_t len)
{
    return FAB_SHM_NONCE == len && 0 == memcmp(nonce, ep->addr.nonce, FAB_SHM_NONCE);
}

/* Is it still the same process?  Reads its nonce, unless that was done a moment ago. */
static int prove(fab_shm_ep_t *ep)
{
    uint64_t now = fab_now_ns();
    uint8_t nonce[FAB_SHM_NONCE];
    ssize_t len;
    int error;

    if (now - ep->proven_at < FAB_SHM_CMA_PROOF_NS) {
        return OPAL_SUCCESS;
    }
    len = read_nonce(ep, nonce);
    error = len < 0 ? errno : 0;
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
    return OPAL_SUCCESS;
}

int fab_shm_read(fab_shm_ep_t *ep, void *to, uint64_t from, size_t len, size_t *moved)
{
    struct iovec local = {to, len};
    struct iovec remote = {(void *) (uintptr_t) from, len};
    ssize_t got;
    int rc;

    if (by_xpmem(ep, FAB_GET, to, from, len, moved)) {
        return OPAL_SUCCESS;
    }
    rc = prove(ep);
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    got = process_vm_readv((pid_t) ep->addr.pid, &local, 1, &remote, 1, 0);
    fab_counters.shm_cma_calls++;
    if (got < 0) {
        return access_error(ep, errno);
    }
    *moved = (size_t) got;
    fab_counters.shm_cma_bytes += *moved;
    return OPAL_SUCCESS;
}

/* Write up to len bytes to the peer's memory. */
int fab_shm_write(fab_shm_ep_t *ep, const void *from, uint64_t to, size_t len, size_t *moved)
{
    struct iovec local = {(void *) (uintptr_t) from, len};
    struct iovec remote = {(void *) (uintptr_t) to, len};
    ssize_t put;
    int rc;

    if (by_xpmem(ep, FAB_PUT, (void *) (uintptr_t) from, to, len, moved)) {
        return OPAL_SUCCESS;
    }
    rc = prove(ep);
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    put = process_vm_writev((pid_t) ep->addr.pid, &local, 1, &remote, 1, 0);
    fab_counters.shm_cma_calls++;
    if (put < 0) {
        return access_error(ep, errno);
    }
    *moved = (size_t) put;
    fab_counters.shm_cma_bytes += *moved;
    return OPAL_SUCCESS;
}

static int access_try(fab_shm_ep_t *ep)
{
    uint8_t nonce[FAB_SHM_NONCE];
    ssize_t len;
    int error;

    if (fab_shm_xpmem_connect(ep)) {
        ep->access = FAB_SHM_ACCESS_WORKS;
        return OPAL_SUCCESS;
    }
    len = read_nonce(ep, nonce);
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

bool fab_shm_is_accessible(fab_shm_ep_t *ep)
{
    return FAB_SHM_ACCESS_WORKS == ep->access ||
           (FAB_SHM_ACCESS_UNTRIED == ep->access && OPAL_SUCCESS == access_try(ep));
}

void fab_shm_access_try_one(fab_shm_domain_t *dom)
{
    for (fab_shm_ep_t *ep = dom->eps; NULL != ep; ep = ep->next) {
        if (FAB_SHM_ACCESS_UNTRIED == ep->access && FAB_PEER_UP == ep->peer->state) {
            (void) access_try(ep);
            return;
        }
    }
}

/* ---- the queue ---------------------------------------------------------- */

static void rma_append(fab_shm_domain_t *dom, fab_rma_t *op)
{
    op->next = NULL;
    *dom->rma_tail = op;
    dom->rma_tail = &op->next;
}

static fab_rma_t *rma_take(fab_shm_domain_t *dom)
{
    fab_rma_t *op = dom->rma;

    dom->rma = op->next;
    if (NULL == dom->rma) {
        dom->rma_tail = &dom->rma;
    }
    return op;
}

/* Could the peer help with it? */
static bool is_long(const fab_rma_t *op)
{
    return FAB_GET == op->kind && op->len >= FAB_SHM_COOP_MIN;
}

/* As many long gets from the peer as may be are in the queue: this one follows later. */
static void rma_defer(fab_shm_ep_t *ep, fab_rma_t *op)
{
    if (NULL == ep->later) {
        ep->later_tail = &ep->later;
    }
    op->next = NULL;
    *ep->later_tail = op;
    ep->later_tail = &op->next;
}

static void rma_begin(fab_shm_ep_t *ep, fab_rma_t *op)
{
    if (is_long(op) && FAB_SHM_COOPS == ep->num_long) {
        rma_defer(ep, op);
        return;
    }
    ep->num_long += is_long(op);
    rma_append(ep->dom, op);
}

/* The operation, which is not in the queue any more, has ended with this result. */
static void rma_end(fab_rma_t *op, int rc)
{
    fab_shm_ep_t *ep = op->peer->ep;

    ep->num_long -= is_long(op);
    if (is_long(op) && NULL != ep->later) {
        fab_rma_t *next = ep->later;
        ep->later = next->next;
        rma_begin(ep, next);
    }
    op->complete(op, rc);
}

int fab_shm_rma(fab_rma_t *op)
{
    fab_shm_ep_t *ep = op->peer->ep;

    if (__builtin_expect(FAB_SHM_ACCESS_WORKS != ep->access, 0)) {
        int rc = FAB_SHM_ACCESS_REFUSED == ep->access ? OPAL_ERR_NOT_SUPPORTED : access_try(ep);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    }
    rma_begin(ep, op);
    return OPAL_SUCCESS;
}

bool fab_shm_rma_now(fab_rma_t *op)
{
    fab_shm_ep_t *ep = op->peer->ep;
    const size_t max = FAB_SHM_NOW_STEPS * (size_t) fab_params.shm_copy_step;
    const size_t len = op->len < max ? op->len : max;
    int rc = OPAL_SUCCESS;

    if ((len < op->len && NULL != op->complete) || !fab_shm_is_accessible(ep)) {
        return false;
    }
    if (FAB_GET == op->kind && op->len > FAB_SHM_ALONE_MAX && NULL != op->complete) {
        if (fab_shm_coop_is_worth_it(ep, op)) {
            return false;
        }
        ep->considered++;
    }
    if (len > 0) {
        rc = FAB_PUT == op->kind ? fab_shm_write(ep, op->local, op->remote, len, &op->done)
                                 : fab_shm_read(ep, op->local, op->remote, len, &op->done);
    }
    return OPAL_SUCCESS == rc && op->done == op->len;
}

void fab_shm_rma_drop(fab_shm_domain_t *dom, fab_peer_t *peer)
{
    fab_shm_ep_t *ep = peer->ep;
    fab_rma_t *all = dom->rma;
    fab_rma_t *dropped = ep->later;

    ep->later = NULL;
    ep->num_long = 0;
    dom->rma = NULL;
    dom->rma_tail = &dom->rma;
    while (NULL != all) {
        fab_rma_t *op = all;
        all = op->next;
        if (op->peer == peer) {
            op->next = dropped;
            dropped = op;
        } else {
            rma_append(dom, op);
        }
    }
    while (NULL != dropped) {
        fab_rma_t *op = dropped;
        dropped = op->next;
        op->complete(op, OPAL_ERR_UNREACH);
    }
}

/* ---- copying ------------------------------------------------------------ */

/*
 * Copy up to max bytes.  OPAL_SUCCESS: the operation is complete.  OPAL_ERR_IN_PROCESS: call again.
 * OPAL_ERR_RESOURCE_BUSY: the peer is copying the rest.  Any other result: it ends with that error.
 */
static int rma_step(fab_rma_t *op, size_t max)
{
    fab_shm_ep_t *ep = op->peer->ep;
    fab_shm_fetch_t *fetch = fab_shm_fetch_of(ep, op);
    size_t left = op->len - op->done;
    size_t len = left < max ? left : max;
    char *local = (char *) op->local + op->done;
    uint64_t remote = op->remote + op->done;
    size_t moved = 0;
    int rc = OPAL_SUCCESS;

    if (NULL != fetch) {
        return fab_shm_fetch_step(ep, fetch, max);
    }
    if (FAB_PEER_FAILED == op->peer->state) {
        return OPAL_ERR_UNREACH;
    }
    if (len > 0) {
        rc = FAB_PUT == op->kind ? fab_shm_write(ep, local, remote, len, &moved)
                                 : fab_shm_read(ep, local, remote, len, &moved);
    }
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    op->done += moved;
    return op->done == op->len ? OPAL_SUCCESS : OPAL_ERR_IN_PROCESS;
}

int fab_shm_rma_progress(fab_shm_domain_t *dom)
{
    size_t budget = fab_params.shm_copy_step;
    const fab_rma_t *waiting = NULL; /* the first that waits for its peer, since anything moved */
    int events = 0;

    while (NULL != dom->rma && waiting != dom->rma && budget > 0) {
        fab_rma_t *op = rma_take(dom);
        size_t before = op->done;
        int rc = rma_step(op, budget);
        if (OPAL_ERR_RESOURCE_BUSY == rc) {
            rma_append(dom, op);
            waiting = NULL != waiting ? waiting : op;
            continue;
        }
        waiting = NULL;
        size_t cost = op->done - before + FAB_SHM_CALL_COST;
        budget = cost < budget ? budget - cost : 0;
        if (OPAL_ERR_IN_PROCESS == rc) {
            rma_append(dom, op);
        } else {
            rma_end(op, rc);
        }
        events++;
    }
    return events;
}
