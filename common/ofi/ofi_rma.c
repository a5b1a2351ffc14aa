/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation goes in steps, a few of which are under way with each peer; the operations of a peer
 * take turns.  A put has reached memory when it completes (FI_DELIVERY_COMPLETE); where a provider
 * does not keep that promise, a read of the last byte follows the writes.
 */
#include "ofi/ofi.h"

#include <stdlib.h>
#include <sys/uio.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

/*
 * Where the peer's processor serves reads and writes, inside libfabric, the peer sees nothing of
 * them: it takes itself for idle, and sleeps ever longer between its polls.  So while operations go
 * on, a message is sent to it in every period in which it has answered the last one.
 */
static void keep_awake(fab_ofi_ep_t *ep)
{
    const uint32_t last = ep->rma_period;

    ep->rma_period = ep->dom->period;
    if (__builtin_expect(last + 1 == ep->rma_period, 0)) {
        fab_ofi_hear(ep);
        if (!ep->is_asking) {
            fab_ofi_send_probe(ep);
        }
    }
}

/* ---- one operation ------------------------------------------------------- */

static fab_ofi_op_queue_t *queue_of(const fab_ofi_op_t *op)
{
    return op->is_posted ? &op->ep->posted : &op->ep->ops;
}

static void op_end(fab_ofi_op_t *op)
{
    fab_rma_t *rma = op->rma;
    bool is_closed = op->dom->is_closed;
    int status = op->status;

    if (NULL != op->ep) {
        TAILQ_REMOVE(queue_of(op), op, link);
    }
    free(op);
    if (!is_closed) {
        rma->complete(rma, status);
    }
}

/* Nothing more is to be asked for. */
static bool op_is_posted(const fab_ofi_op_t *op)
{
    return OPAL_SUCCESS != op->status || NULL == op->ep ||
           (op->posted == op->rma->len && (op->is_flushed || op->dom->is_honest));
}

/* Put it where it belongs now: behind others that something is to be asked for of. */
static void op_file(fab_ofi_op_t *op)
{
    TAILQ_REMOVE(queue_of(op), op, link);
    op->is_posted = op_is_posted(op);
    if (op->is_posted && 0 == op->in_flight) {
        TAILQ_INSERT_HEAD(&op->ep->posted, op, link);
    } else {
        TAILQ_INSERT_TAIL(queue_of(op), op, link);
    }
}

/* Hand a transfer over. Returns an error of libfabric's, or 0. */
static int hand_over(fab_ofi_op_t *op, fab_ofi_xfer_t *xfer, void *local, uint64_t remote,
                     bool is_get)
{
    fab_ofi_domain_t *dom = op->dom;
    const fab_ofi_rkey_t key = fab_ofi_rkey(&op->rma->rkey);
    struct iovec iov = {.iov_base = local, .iov_len = xfer->len};
    struct fi_rma_iov rma_iov = {.addr = remote - key.base, .len = xfer->len, .key = key.key};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .iov_count = 1,
                             .addr = op->ep->to,
                             .rma_iov = &rma_iov,
                             .rma_iov_count = 1,
                             .context = &xfer->ctx};
    const uint64_t level = dom->has_delivery ? FI_DELIVERY_COMPLETE : 0;
    ssize_t rc;

    if (is_get) {
        return (int) fi_readmsg(dom->rdm, &msg, FI_COMPLETION);
    }
    rc = fi_writemsg(dom->rdm, &msg, FI_COMPLETION | level);
    if (0 != level && (-FI_EBADFLAGS == rc || -FI_EOPNOTSUPP == rc || -FI_EINVAL == rc)) {
        dom->has_delivery = dom->is_honest = false;
        rc = fi_writemsg(dom->rdm, &msg, FI_COMPLETION);
    }
    return (int) rc;
}

/* Post the next transfer, and file the operation. False: not now, or it has failed. */
static bool op_step(fab_ofi_op_t *op)
{
    const fab_rma_t *rma = op->rma;
    const size_t max = op->dom->info->ep_attr->max_msg_size;
    const size_t left = rma->len - op->posted;
    const size_t step = max < FAB_OFI_STEP ? max : FAB_OFI_STEP;
    fab_ofi_xfer_t *xfer = malloc(sizeof(*xfer));
    int rc;

    if (NULL == xfer) {
        return false;
    }
    *xfer = (fab_ofi_xfer_t){.ctx = {.kind = FAB_OFI_RMA}, .op = op};
    if (left > 0) {
        xfer->len = left < step ? left : step;
        rc = hand_over(op, xfer, (char *) rma->local + op->posted, rma->remote + op->posted,
                       FAB_GET == rma->kind);
    } else {
        xfer->len = 1;
        rc = hand_over(op, xfer, op->dom->flushed, rma->remote + rma->len - 1, true);
    }
    if (0 != rc) {
        free(xfer);
        fab_counters.ofi_again += -FI_EAGAIN == rc;
        if (-FI_EAGAIN != rc) {
            op->status = OPAL_ERR_UNREACH;
            op_file(op);
            fab_ofi_ep_broke(op->ep, OPAL_ERR_UNREACH,
                             fab_sentence(op->dom->fab, "%s refused to move memory of it: %s.",
                                          op->dom->name, fi_strerror(-rc)));
        }
        return false;
    }
    op->posted += left > 0 ? xfer->len : 0;
    op->is_flushed = op->is_flushed || 0 == left;
    op->in_flight++;
    op->ep->ses.is_used = true;
    op->ep->num_xfers++;
    op->ep->under_way += xfer->len;
    LIST_INSERT_HEAD(&op->dom->xfers, xfer, link);
    keep_awake(op->ep);
    op_file(op);
    return true;
}

/* ---- those of a peer ----------------------------------------------------- */

/* The first that has something to ask for: the flushing read only after all writes are done. */
static fab_ofi_op_t *next_op(const fab_ofi_ep_t *ep)
{
    fab_ofi_op_t *op;

    TAILQ_FOREACH(op, &ep->ops, link) {
        if (op->posted < op->rma->len || 0 == op->in_flight) {
            return op;
        }
    }
    return NULL;
}

static bool may_post(const fab_ofi_ep_t *ep)
{
    return FAB_SES_UP == ep->ses.state && !ep->ses.is_broken && !ep->is_dropping &&
           ep->num_xfers < FAB_OFI_XFERS && ep->under_way < FAB_OFI_UNDER_WAY;
}

static int ep_post(fab_ofi_ep_t *ep)
{
    fab_ofi_op_t *op;
    int events = 0;

    while (may_post(ep) && NULL != (op = next_op(ep)) && op_step(op)) {
        events++;
    }
    return events;
}

/* One that has ended without a transfer that could say so. */
static fab_ofi_op_t *ended_op(const fab_ofi_ep_t *ep)
{
    fab_ofi_op_t *op = TAILQ_FIRST(&ep->posted);

    return NULL != op && 0 == op->in_flight ? op : NULL;
}

int fab_ofi_rma_progress(fab_ofi_domain_t *dom)
{
    const fab_ofi_queued_t *at;
    uint32_t num = 0;
    fab_ofi_ep_t *ep;
    int events = 0;

    TAILQ_FOREACH(at, &dom->rma, link) {
        num++;
    }
    while (num-- > 0 && NULL != (ep = fab_ofi_queue_first(&dom->rma))) {
        fab_ofi_dequeue(&dom->rma, &ep->rma);
        events += ep_post(ep);
        fab_ofi_op_t *ended = ended_op(ep);
        if (NULL != ended || NULL != next_op(ep)) {
            fab_ofi_enqueue(&dom->rma, &ep->rma, ep);
            fab_ses_want(&ep->ses);
        }
        if (NULL != ended) {
            op_end(ended); /* may close the peer: ep is not used any more */
            events++;
        }
    }
    return events;
}

int fab_ofi_rma(fab_rma_t *rma)
{
    fab_ofi_ep_t *ep = rma->peer->ep;
    fab_ofi_op_t *op;

    if (FAB_SES_GONE == ep->ses.state) {
        fab_ses_want(&ep->ses); /* which fails it */
        return OPAL_ERR_UNREACH;
    }
    op = 0 != (rma->peer->caps & FAB_CAP_GET) ? malloc(sizeof(*op)) : NULL;
    if (NULL == op) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    *op = (fab_ofi_op_t){.ep = ep, .dom = ep->dom, .rma = rma};
    op->is_flushed = FAB_GET == rma->kind || 0 == rma->len;
    TAILQ_INSERT_TAIL(&ep->ops, op, link);
    op_file(op);
    (void) ep_post(ep);
    if (NULL != next_op(ep) || NULL != ended_op(ep)) {
        fab_ofi_enqueue(&ep->dom->rma, &ep->rma, ep);
    }
    return OPAL_SUCCESS;
}

void fab_ofi_xfer_end(fab_ofi_xfer_t *xfer, int status)
{
    fab_ofi_op_t *op = xfer->op;
    const bool is_data = op->rma->done < op->rma->len;

    LIST_REMOVE(xfer, link);
    op->in_flight--;
    if (OPAL_SUCCESS != status) {
        op->status = OPAL_SUCCESS == op->status ? status : op->status;
    } else if (is_data) {
        op->rma->done += xfer->len;
        fab_counters.rma_bytes += xfer->len;
    }
    if (NULL != op->ep) {
        op->ep->num_xfers--;
        op->ep->under_way -= xfer->len;
        if (op->is_posted != op_is_posted(op)) { /* it failed, or is to be flushed after all */
            op_file(op);
        }
        (void) ep_post(op->ep);
        fab_ofi_enqueue(&op->dom->rma, &op->ep->rma, op->ep);
    }
    free(xfer);
    if (0 == op->in_flight && op_is_posted(op)) {
        op_end(op);
    }
}

void fab_ofi_rma_drop(fab_ofi_ep_t *ep)
{
    fab_ofi_op_t *op;

    fab_ofi_dequeue(&ep->dom->rma, &ep->rma);
    ep->num_xfers = 0; /* those under way belong to their operations */
    ep->under_way = 0;
    fab_ofi_unexpose_all(ep->dom, &ep->exposed);
    TAILQ_CONCAT(&ep->ops, &ep->posted, link);
    while (NULL != (op = TAILQ_FIRST(&ep->ops))) {
        TAILQ_REMOVE(&ep->ops, op, link);
        op->ep = NULL;
        op->status = FAB_PEER_UP == ep->peer->state ? OPAL_ERR_NOT_SUPPORTED : OPAL_ERR_UNREACH;
        if (0 == op->in_flight) {
            op_end(op);
        }
    }
}

void fab_ofi_rma_close(fab_ofi_domain_t *dom)
{
    fab_ofi_xfer_t *xfer;

    while (NULL != (xfer = LIST_FIRST(&dom->xfers))) {
        fab_ofi_op_t *op = xfer->op;
        LIST_REMOVE(xfer, link);
        free(xfer);
        if (0 == --op->in_flight) {
            free(op);
        }
    }
}
