/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get and put by CMA: process_vm_readv(2) and process_vm_writev(2), one copy, no work for the other
 * side.
 *
 * Operations stand in one queue of the domain.  A progress call copies up to shm_copy_step bytes: a
 * step of the first operation, which then goes to the end, and so on; so large ones share the time,
 * small ones are not kept behind them, and messages wait for one step at most.
 *
 * Whether the kernel allows it is found out by trying, once per peer: reading the nonce at the
 * address that the peer's address tells.  This also proves that the pid is still that process.
 */
#include "shm/shm_types.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "fabric/fab_params.h"

enum {
    /* bytes that could be copied in the time that a call takes at least (about 0.4 us) */
    FAB_SHM_CMA_CALL_COST = 4096,
};

/* ---- the first time ----------------------------------------------------- */

static int fab_shm_cma_refuse(fab_shm_ep_t *ep, int error)
{
    fab_shm_domain_t *dom = ep->dom;

    ep->cma = FAB_SHM_CMA_REFUSED;
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

static int fab_shm_cma_try(fab_shm_ep_t *ep)
{
    uint8_t nonce[FAB_SHM_NONCE];
    struct iovec local = {nonce, sizeof(nonce)};
    struct iovec remote = {(void *) (uintptr_t) ep->addr.nonce_at, sizeof(nonce)};
    ssize_t len = process_vm_readv((pid_t) ep->addr.pid, &local, 1, &remote, 1, 0);

    fab_counters.shm_cma_calls++;
    if (len < 0 && ESRCH == errno) {
        fab_shm_ep_died(ep);
        return OPAL_ERR_UNREACH;
    }
    if ((ssize_t) sizeof(nonce) != len || 0 != memcmp(nonce, ep->addr.nonce, sizeof(nonce))) {
        return fab_shm_cma_refuse(ep, len < 0 ? errno : EFAULT);
    }
    ep->cma = FAB_SHM_CMA_WORKS;
    return OPAL_SUCCESS;
}

void fab_shm_cma_try_one(fab_shm_domain_t *dom)
{
    for (fab_shm_ep_t *ep = dom->eps; NULL != ep; ep = ep->next) {
        if (FAB_SHM_CMA_UNTRIED == ep->cma && FAB_PEER_UP == ep->peer->state) {
            (void) fab_shm_cma_try(ep);
            return;
        }
    }
}

/* ---- the queue ---------------------------------------------------------- */

static void fab_shm_rma_append(fab_shm_domain_t *dom, fab_rma_t *op)
{
    op->next = NULL;
    *dom->rma_tail = op;
    dom->rma_tail = &op->next;
}

static fab_rma_t *fab_shm_rma_take(fab_shm_domain_t *dom)
{
    fab_rma_t *op = dom->rma;

    dom->rma = op->next;
    if (NULL == dom->rma) {
        dom->rma_tail = &dom->rma;
    }
    return op;
}

int fab_shm_rma(fab_rma_t *op)
{
    fab_shm_ep_t *ep = op->peer->ep;

    if (__builtin_expect(FAB_SHM_CMA_WORKS != ep->cma, 0)) {
        int rc = FAB_SHM_CMA_REFUSED == ep->cma ? OPAL_ERR_NOT_SUPPORTED : fab_shm_cma_try(ep);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    }
    fab_shm_rma_append(ep->dom, op);
    return OPAL_SUCCESS;
}

void fab_shm_rma_drop(fab_shm_domain_t *dom, fab_peer_t *peer)
{
    fab_rma_t *all = dom->rma;
    fab_rma_t *dropped = NULL;

    dom->rma = NULL;
    dom->rma_tail = &dom->rma;
    while (NULL != all) {
        fab_rma_t *op = all;
        all = op->next;
        if (op->peer == peer) {
            op->next = dropped;
            dropped = op;
        } else {
            fab_shm_rma_append(dom, op);
        }
    }
    while (NULL != dropped) {
        fab_rma_t *op = dropped;
        dropped = op->next;
        op->complete(op, OPAL_ERR_UNREACH);
    }
}

/* ---- copying ------------------------------------------------------------ */

/* What an errno of the copy means for the operation. */
static int fab_shm_cma_error(fab_shm_ep_t *ep, int error)
{
    switch (error) {
    case EINTR:
    case EAGAIN:
        return OPAL_ERR_IN_PROCESS;
    case ESRCH:
        fab_shm_ep_died(ep);
        return OPAL_ERR_UNREACH;
    case EPERM:
        (void) fab_shm_cma_refuse(ep, error);
        return OPAL_ERR_PERM;
    case ENOMEM:
        return OPAL_ERR_OUT_OF_RESOURCE;
    default:
        return OPAL_ERR_BAD_PARAM; /* EFAULT: an address that is none, here or there */
    }
}

/*
 * Copy up to max bytes. OPAL_SUCCESS: all is there. OPAL_ERR_IN_PROCESS: go on later. Others: it
 * ends with that error.
 */
static int fab_shm_rma_step(fab_rma_t *op, size_t max)
{
    fab_shm_ep_t *ep = op->peer->ep;
    size_t left = op->len - op->done;
    size_t len = left < max ? left : max;
    struct iovec local = {(char *) op->local + op->done, len};
    struct iovec remote = {(void *) (uintptr_t) (op->remote + op->done), len};
    pid_t pid = (pid_t) ep->addr.pid;
    ssize_t moved = 0;

    if (len > 0) {
        moved = FAB_PUT == op->kind ? process_vm_writev(pid, &local, 1, &remote, 1, 0)
                                    : process_vm_readv(pid, &local, 1, &remote, 1, 0);
        fab_counters.shm_cma_calls++;
    }
    if (moved < 0) {
        return fab_shm_cma_error(ep, errno);
    }
    op->done += (size_t) moved;
    fab_counters.shm_cma_bytes += (size_t) moved;
    return op->done == op->len ? OPAL_SUCCESS : OPAL_ERR_IN_PROCESS;
}

int fab_shm_rma_progress(fab_shm_domain_t *dom)
{
    size_t budget = fab_params.shm_copy_step;
    int events = 0;

    while (NULL != dom->rma && budget > 0) {
        fab_rma_t *op = fab_shm_rma_take(dom);
        size_t before = op->done;
        int rc = fab_shm_rma_step(op, budget);
        size_t cost = op->done - before + FAB_SHM_CMA_CALL_COST;
        budget = cost < budget ? budget - cost : 0;
        if (OPAL_ERR_IN_PROCESS == rc) {
            fab_shm_rma_append(dom, op);
        } else {
            op->complete(op, rc);
        }
        events++;
    }
    return events;
}
