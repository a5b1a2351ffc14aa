/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get and put without work for the other side, with one copy (shm_access.c).
 *
 * The domain has one queue of operations.  A progress call copies up to shm_copy_step bytes: a step
 * of the first operation, which then goes to the end of the queue, and so on.  So large operations
 * share the time, small ones do not wait behind them, and messages wait for one step at most; after
 * a long one all of Open MPI has its turn (FAB_SHM_LONG_STEP).  Of
 * the long gets from one peer only as many are in the queue as it can give at the same time, oldest
 * first; the others follow when these end.  If all of a window were begun at once, the peer would
 * give the first two only.
 *
 * The peer may send what a long get reads (shm_coop.c).  Short operations may be done at once,
 * ahead of the queue (fab_put_now(), fab_get_now()).
 */
#include "shm/shm.h"

#include "fabric/fab_params.h"

enum {
    /* cost of a call, as the bytes that could be copied in that time (about 0.4 us) */
    FAB_SHM_CALL_COST = 4096,
    FAB_SHM_GIVING_STEP = 65536,    /* bytes in a call, if there is something to give, too */
    FAB_SHM_THREADS_STEP = 1 << 20, /* the same, where other threads may want the lock */
    FAB_SHM_LONG_STEP = 1 << 20, /* takes as long as all of Open MPI's polls together, and more */
};

/* ---- the queue ---------------------------------------------------------- */

/* Could the peer give it? */
static bool is_long(const fab_rma_t *op)
{
    return FAB_GET == op->kind && op->len >= FAB_SHM_COOP_MIN;
}

static void rma_begin(fab_shm_ep_t *ep, fab_rma_t *op)
{
    if (is_long(op) && FAB_SHM_COOPS == ep->num_long) {
        STAILQ_INSERT_TAIL(&ep->later, op, link);
        return;
    }
    ep->num_long += is_long(op);
    STAILQ_INSERT_TAIL(&ep->dom->rma, op, link);
}

/* The operation, which is not in the queue any more, has ended with this result. */
static void rma_end(fab_rma_t *op, int rc)
{
    const unsigned way = op->is_given ? FAB_SHM_PUSH : FAB_SHM_PULL;
    fab_shm_ep_t *ep = op->peer->ep;

    if (fab_shm_coop_is_possible(op) && OPAL_SUCCESS == rc) {
        fab_shm_long_end(ep, op->len, way);
    } else if (fab_shm_coop_is_possible(op)) {
        fab_shm_long_fail(ep, op->len, way, rc);
    }
    ep->num_long -= is_long(op);
    if (is_long(op) && !STAILQ_EMPTY(&ep->later)) {
        fab_rma_t *next = STAILQ_FIRST(&ep->later);
        STAILQ_REMOVE_HEAD(&ep->later, link);
        rma_begin(ep, next);
    }
    op->complete(op, rc);
}

int fab_shm_rma(fab_rma_t *op)
{
    fab_shm_ep_t *ep = op->peer->ep;

    if (__builtin_expect(FAB_SHM_ACCESS_WORKS != ep->access, 0)) {
        int rc = FAB_SHM_ACCESS_REFUSED == ep->access ? OPAL_ERR_NOT_SUPPORTED
                                                      : fab_shm_access_try(ep);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    }
    if (fab_shm_coop_is_possible(op)) {
        fab_shm_long_begin(ep);
    }
    rma_begin(ep, op);
    return OPAL_SUCCESS;
}

bool fab_shm_rma_now(fab_rma_t *op)
{
    fab_shm_ep_t *ep = op->peer->ep;
    int rc = OPAL_SUCCESS;
    bool is_long, is_done;

    if (op->len > fab_params.shm_copy_step || !fab_shm_is_accessible(ep) ||
        fab_shm_coop_is_worth_it(ep, op)) {
        return false;
    }
    is_long = fab_shm_coop_is_possible(op);
    if (is_long) {
        fab_shm_long_begin(ep);
    }
    if (op->len > 0) {
        rc = fab_shm_transfer(ep, FAB_PUT == op->kind, op->local, op->remote, op->len, &op->done);
    }
    is_done = OPAL_SUCCESS == rc && op->done == op->len;
    if (is_long && is_done) {
        fab_shm_long_end(ep, op->len, FAB_SHM_PULL);
    } else if (is_long) {
        fab_shm_long_fail(ep, op->len, FAB_SHM_PULL, OPAL_ERROR); /* fab_shm_rma() says why */
    }
    return is_done;
}

void fab_shm_rma_drop(fab_shm_domain_t *dom, fab_peer_t *peer)
{
    fab_shm_ep_t *ep = peer->ep;
    fab_rma_queue_t all = STAILQ_HEAD_INITIALIZER(all), dropped = STAILQ_HEAD_INITIALIZER(dropped);
    fab_rma_t *op;

    ep->num_long = ep->num_open = 0;
    for (int k = 0; k < FAB_SHM_COOPS; k++) {
        ep->fetches[k].op = NULL;
    }
    STAILQ_CONCAT(&all, &dom->rma);
    while (NULL != (op = STAILQ_FIRST(&all))) {
        STAILQ_REMOVE_HEAD(&all, link);
        STAILQ_INSERT_TAIL(op->peer == peer ? &dropped : &dom->rma, op, link);
    }
    STAILQ_CONCAT(&dropped, &ep->later);
    while (NULL != (op = STAILQ_FIRST(&dropped))) {
        STAILQ_REMOVE_HEAD(&dropped, link);
        op->complete(op, OPAL_ERR_UNREACH);
    }
}

/* ---- copying ------------------------------------------------------------ */

/*
 * Copy up to max bytes.  OPAL_SUCCESS: the operation is complete.  OPAL_ERR_IN_PROCESS: call again.
 * OPAL_ERR_RESOURCE_BUSY: the peer is giving it.  Any other result: it ends with that error.
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
        rc = fab_shm_transfer(ep, FAB_PUT == op->kind, local, remote, len, &moved);
    }
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    op->done += moved;
    return op->done == op->len ? OPAL_SUCCESS : OPAL_ERR_IN_PROCESS;
}

int fab_shm_rma_progress(fab_shm_domain_t *dom)
{
    /* a process that gives meanwhile is not to be away for long */
    const size_t step = !TAILQ_EMPTY(&dom->gives)   ? FAB_SHM_GIVING_STEP
                        : fab_is_threaded(dom->fab) ? FAB_SHM_THREADS_STEP
                                                    : SIZE_MAX;
    size_t budget = step < fab_params.shm_copy_step ? step : fab_params.shm_copy_step;
    const fab_rma_t *waiting = NULL; /* the first that waits for its peer, since anything moved */
    fab_rma_t *op;
    size_t copied = 0;
    int events = 0;

    while (budget > 0 && NULL != (op = STAILQ_FIRST(&dom->rma)) && waiting != op) {
        STAILQ_REMOVE_HEAD(&dom->rma, link);
        size_t before = op->done;
        int rc = rma_step(op, budget);
        if (OPAL_ERR_RESOURCE_BUSY == rc) {
            STAILQ_INSERT_TAIL(&dom->rma, op, link);
            waiting = NULL != waiting ? waiting : op;
            continue;
        }
        waiting = NULL;
        size_t cost = op->done - before + FAB_SHM_CALL_COST;
        copied += op->done - before;
        budget = cost < budget ? budget - cost : 0;
        if (OPAL_ERR_IN_PROCESS == rc) {
            STAILQ_INSERT_TAIL(&dom->rma, op, link);
        } else {
            rma_end(op, rc);
        }
        events++;
    }
    if (__builtin_expect(copied >= FAB_SHM_LONG_STEP, 0)) {
        fab_wake_others(dom->fab, FAB_NUM_USERS);
    }
    return events;
}
