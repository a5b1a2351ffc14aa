/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get and put: RDMA READ and WRITE, in steps, a few of them under way on each connection;
 * operations of one peer take turns.
 *
 * What cannot be registered is refused (OPAL_ERR_NOT_SUPPORTED): the caller sends messages instead.
 */
#include "verbs/verbs.h"

#include <stdlib.h>

/* ---- operations --------------------------------------------------------- */

static const enum ibv_wr_opcode fab_verbs_opcodes[] = {
    [FAB_GET] = IBV_WR_RDMA_READ,
    [FAB_PUT] = IBV_WR_RDMA_WRITE,
};

/* Post the next step. OPAL_ERR_RESOURCE_BUSY, OPAL_ERR_UNREACH: as fab_verbs_conn_post(). */
static int op_step(fab_verbs_conn_t *conn, fab_verbs_op_t *op)
{
    const fab_rma_t *rma = op->rma;
    const fab_reg_t *reg = NULL != op->reg ? op->reg : op->whole->reg;
    size_t left = op->end - op->posted;
    uint32_t len = left < conn->dom->step ? (uint32_t) left : conn->dom->step;
    struct ibv_sge sge = {(uintptr_t) rma->local + op->posted, len, fab_verbs_mr(reg)->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .opcode = fab_verbs_opcodes[rma->kind]};
    int rc;

    wr.wr.rdma.remote_addr = rma->remote + op->posted;
    wr.wr.rdma.rkey = op->rkey;
    rc = fab_verbs_conn_post(conn, &wr, NULL, op);
    if (OPAL_SUCCESS == rc) {
        op->posted += len;
        op->in_flight++;
        conn->in_flight++;
        conn->ep->ses.is_used = NULL == conn->ep->main; /* what a rail reads can be read again */
    }
    return rc;
}

/* ---- an endpoint's operations ------------------------------------------- */

static bool can_post(const fab_verbs_ep_t *ep)
{
    const fab_verbs_conn_t *conn = ep->conn;

    return !STAILQ_EMPTY(&ep->ops) && NULL != conn && fab_verbs_is_up(ep) && !conn->is_broken &&
           conn->in_flight < conn->max_in_flight &&
           fab_verbs_sq_room(conn) > FAB_VERBS_SQ_RESERVED &&
           ep->dom->sq_used < ep->dom->sq_used_max;
}

/*
 * Post steps while there is room, each of the operation whose turn it is. Nothing completes here.
 */
static int ep_post(fab_verbs_ep_t *ep)
{
    int events = 0;

    while (can_post(ep) && STAILQ_FIRST(&ep->ops)->rma->len > 0) {
        fab_verbs_op_t *op = STAILQ_FIRST(&ep->ops);
        if (OPAL_SUCCESS != op_step(ep->conn, op)) {
            break;
        }
        (void) fab_verbs_op_take(ep);
        if (op->posted < op->end) {
            fab_verbs_op_append(ep, op);
        }
        events++;
    }
    return events;
}

int fab_verbs_rma_progress(fab_verbs_domain_t *dom)
{
    int events = 0;

    for (uint32_t n = dom->num_rma; n > 0 && !TAILQ_EMPTY(&dom->rma); n--) {
        fab_verbs_ep_t *ep = TAILQ_FIRST(&dom->rma);
        fab_verbs_ops_unlist(ep);
        events += ep_post(ep);
        if (STAILQ_EMPTY(&ep->ops)) {
            continue;
        }
        fab_verbs_ops_list(ep);
        if (FAB_SES_KNOWN == ep->ses.state) {
            fab_ses_want(&ep->ses);
        }
        if (0 == STAILQ_FIRST(&ep->ops)->rma->len) {
            /* may close the peer: ep is not used any more */
            fab_verbs_op_end(fab_verbs_op_take(ep));
            events++;
        }
    }
    return events;
}

/*
 * How the device accesses the memory of this side. iWARP: what answers a READ is written as if by a
 * peer.
 */
static unsigned local_access(const fab_verbs_domain_t *dom, const fab_rma_t *rma)
{
    if (FAB_PUT == rma->kind) {
        return 0;
    }
    return FAB_REG_LOCAL_WRITE | (fab_verbs_is_iwarp(dom) ? FAB_REG_REMOTE_WRITE : 0);
}

/* ---- the table's functions ---------------------------------------------- */

int fab_verbs_rma(fab_rma_t *rma)
{
    fab_verbs_ep_t *ep = rma->peer->ep;
    fab_verbs_op_t *op;
    fab_reg_t *reg = NULL;

    if (FAB_SES_GONE == ep->ses.state) {
        fab_peer_fail(rma->peer, OPAL_ERR_UNREACH, "It has left: its memory cannot be reached.");
        return OPAL_ERR_UNREACH;
    }
    if (rma->len > 0) {
        if (fab_verbs_key(&rma->rkey).port != ep->remote) {
            return OPAL_ERR_NOT_SUPPORTED; /* made before the peer moved to another port */
        }
        reg = fab_verbs_register(ep->dom, rma->local, rma->len, local_access(ep->dom, rma));
        if (NULL == reg) {
            return OPAL_ERR_NOT_SUPPORTED;
        }
    }
    op = malloc(sizeof(*op));
    if (NULL == op) {
        if (NULL != reg) {
            fab_reg_ops->put(ep->dom->regs, reg);
        }
        return OPAL_ERR_NOT_SUPPORTED;
    }
    *op = (fab_verbs_op_t){.dom = ep->dom,
                           .rma = rma,
                           .reg = reg,
                           .end = rma->len,
                           .rkey = fab_verbs_key(&rma->rkey).rkey};
    if (FAB_GET == rma->kind && rma->len >= FAB_VERBS_RAIL_MIN) {
        fab_verbs_rails_share(ep, op);
    }
    fab_verbs_op_append(ep, op);
    ep_post(ep);
    if (!STAILQ_EMPTY(&ep->ops)) {
        fab_verbs_ops_list(ep);
    }
    return OPAL_SUCCESS;
}

/* Those that are in flight end later. */
static void end_ops(fab_verbs_ep_t *ep, int status)
{
    fab_verbs_op_queue_t ops = STAILQ_HEAD_INITIALIZER(ops);

    STAILQ_CONCAT(&ops, &ep->ops);
    while (!STAILQ_EMPTY(&ops)) { /* the end of one may close the peer: ep is not used any more */
        fab_verbs_op_t *op = STAILQ_FIRST(&ops);
        STAILQ_REMOVE_HEAD(&ops, link);
        op->is_queued = false;
        op->status = status;
        if (0 == op->in_flight) {
            fab_verbs_op_end(op);
        }
    }
}

void fab_verbs_rma_drop(fab_verbs_ep_t *ep)
{
    fab_verbs_ops_unlist(ep);
    while (!LIST_EMPTY(&ep->exposed)) {
        fab_verbs_let_go(LIST_FIRST(&ep->exposed));
    }
    end_ops(ep, FAB_PEER_UP == ep->peer->state ? OPAL_ERR_NOT_SUPPORTED : OPAL_ERR_UNREACH);
}

void fab_verbs_rma_refuse(fab_verbs_ep_t *ep)
{
    end_ops(ep, OPAL_ERR_NOT_SUPPORTED);
}
