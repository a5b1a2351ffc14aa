/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: the queue pairs of a pair of processes and what is under way on them.
 */
#include "verbs/verbs.h"

#include <stdlib.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"
#include "fabric/fab_host.h"
#include "verbs/verbs_cm.h"

enum { FAB_VERBS_PSN_MASK = 0xffffff };

/* ---- making ------------------------------------------------------------- */

static uint32_t random_psn(void)
{
    uint32_t psn = 0;

    (void) fab_random(&psn, sizeof(psn)); /* any number will do */
    return psn & FAB_VERBS_PSN_MASK;
}

fab_verbs_conn_t *fab_verbs_conn_open(fab_verbs_ep_t *ep, const char **why)
{
    fab_verbs_domain_t *dom = ep->dom;
    fab_verbs_conn_t *conn;
    uint32_t depth;

    *why = fab_verbs_start(dom);
    if (NULL != *why) {
        return NULL;
    }
    depth = fab_verbs_sq_depth(dom);
    conn = calloc(1, sizeof(*conn) + depth * sizeof(conn->sq[0]));
    if (NULL == conn) {
        *why = "There is no memory for a connection.";
        return NULL;
    }
    conn->ep = ep;
    conn->dom = dom;
    conn->remote = ep->remote;
    conn->sq_depth = depth;
    conn->sq_mask = depth - 1;
    conn->max_unsignaled = depth / 4 - 1;
    conn->is_to_tm = 0 != (fab_verbs_peer_flags(ep) & FAB_VERBS_ADDR_TM);
    conn->psn = random_psn();
    conn->tm_psn = random_psn();
    *why = fab_verbs_conn_make_qps(conn);
    if (NULL != *why) {
        goto err_qps;
    }
    fab_verbs_conn_enter(dom, conn);
    if (!fab_verbs_srq_grant(conn)) {
        *why = fab_sentence(dom->fab, "%s has no receive buffers for another connection.",
                            dom->name);
        goto err_leave;
    }
    fab_counters.connections++;
    return conn;

err_leave:
    fab_verbs_conn_leave(dom, conn);
err_qps:
    fab_verbs_conn_destroy_qps(conn);
    free(conn);
    return NULL;
}

void fab_verbs_set_path(fab_verbs_ep_t *ep, fab_verbs_path_t path)
{
    ep->dom->num_asking -= FAB_VERBS_ASKING == ep->path;
    ep->dom->num_asking += FAB_VERBS_ASKING == path;
    ep->path = path;
}

/* ---- completions -------------------------------------------------------- */

static void conn_retire(fab_verbs_conn_t *conn, int status)
{
    fab_verbs_wqe_t wqe = conn->sq[conn->tail & conn->sq_mask];

    conn->tail++;
    conn->dom->sq_used--;
    conn->dom->num_signaled -= wqe.is_signaled;
    if (NULL != wqe.buf) {
        fab_verbs_pool_put(&conn->dom->send_pool, wqe.buf);
    }
    if (NULL != wqe.op) {
        conn->in_flight--;
        fab_verbs_op_landed(wqe.op, conn->ep, wqe.len, status);
    }
}

static void say_broken(fab_verbs_conn_t *conn, const struct ibv_wc *wc)
{
    const char *name = conn->dom->name, *status = ibv_wc_status_str(wc->status);

    if (IBV_WC_RETRY_EXC_ERR == wc->status) {
        fab_verbs_broke(
            conn->ep, OPAL_ERR_UNREACH,
            "It does not answer any more (%s: %s): its process has ended, or the network is down.",
            name, status);
    } else {
        fab_verbs_broke(conn->ep, OPAL_ERR_COMM_FAILURE,
                        "The connection to it broke (%s: %s, vendor's code 0x%x).", name, status,
                        wc->vendor_err);
    }
}

/* Report the error once per connection; the flushed requests after it add no information. */
static void conn_broke(fab_verbs_conn_t *conn, const struct ibv_wc *wc)
{
    fab_verbs_ep_t *ep = conn->ep;
    if (conn->is_broken) {
        return;
    }
    conn->is_broken = true;
    conn->broken_by = (uint8_t) wc->status;
    if (NULL == ep || FAB_VERBS_PROBING == ep->path) {
        return; /* it lingers, or fab_verbs_connect_probed() sees it */
    }
    fab_counters.connections_lost++;
    if (IBV_WC_RETRY_EXC_ERR != wc->status) {
        fab_verbs_async(conn->dom); /* an event may say why: of the queue pair, or of the port */
    }
    if (IBV_WC_WR_FLUSH_ERR == wc->status && fab_verbs_is_iwarp(conn->dom)) {
        conn->dom->cm_ops->lost(conn);
    } else {
        say_broken(conn, wc);
    }
}

void fab_verbs_conn_complete(fab_verbs_conn_t *conn, const struct ibv_wc *wc)
{
    uint32_t at = (uint32_t) wc->wr_id;

    if (conn->id != wc->wr_id >> 32 || at - conn->tail >= conn->head - conn->tail) {
        return; /* of an earlier queue pair, or complete already */
    }
    while (conn->tail != at) {
        conn_retire(conn, OPAL_SUCCESS);
    }
    if (IBV_WC_SUCCESS == wc->status) {
        conn_retire(conn, OPAL_SUCCESS);
    } else {
        conn_broke(conn, wc);
        conn_retire(conn, OPAL_ERR_UNREACH);
    }
}

/* ---- ending ------------------------------------------------------------- */

static void conn_stop(fab_verbs_conn_t *conn)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    conn->is_broken = true; /* from now on work requests fail, which need not be reported */
    (void) ibv_modify_qp(conn->qp, &attr, IBV_QP_STATE);
    if (NULL != conn->tm_qp) {
        (void) ibv_modify_qp(conn->tm_qp, &attr, IBV_QP_STATE);
    }
}

bool fab_verbs_conn_drain(fab_verbs_conn_t *conn, uint64_t now)
{
    fab_verbs_domain_t *dom = conn->dom;

    if (fab_verbs_conn_is_asking(conn)) {
        return false;
    }
    if (fab_verbs_is_iwarp(dom) || dom->is_dead || 0 == conn->peer_qpn ||
        (0 != conn->drain_until && now > conn->drain_until)) {
        return true;
    }
    if (0 == conn->drain_until) {
        conn->drain_until = now + FAB_VERBS_DRAIN_US;
        conn_stop(conn);
    }
    fab_verbs_async(dom);
    return conn->num_ended >= 1 + (NULL != conn->tm_qp) && conn->head == conn->tail &&
           dom->empty_polls != conn->drained_at;
}

void fab_verbs_conn_destroy(fab_verbs_conn_t *conn, int status)
{
    fab_verbs_domain_t *dom = conn->dom;

    fab_verbs_conn_unschedule_credits(conn);
    fab_verbs_conn_leave(dom, conn);
    dom->granted -= conn->granted;
    if (NULL != conn->ep) {
        conn->ep->conn = NULL;
    }
    fab_verbs_conn_destroy_qps(conn); /* first: afterwards the device touches no memory for it */
    if (NULL != dom->tm) {
        fab_verbs_tm_conn_gone(conn);
    }
    if (fab_verbs_is_iwarp(dom)) {
        dom->cm_ops->forget(conn);
    }
    while (conn->tail != conn->head) {
        conn_retire(conn, status);
    }
    free(conn);
}

void fab_verbs_conn_release(fab_verbs_ep_t *ep)
{
    fab_verbs_conn_t *conn = ep->conn;

    if (NULL != conn && (0 != conn->peer_qpn || 0 != conn->to_send || conn->head != conn->tail)) {
        fab_verbs_conn_linger(conn);
    } else if (NULL != conn) {
        fab_verbs_conn_destroy(conn, OPAL_ERR_UNREACH);
    }
}

void fab_verbs_conn_linger(fab_verbs_conn_t *conn)
{
    conn->credits = (uint16_t) conn->ep->ses.consumed;
    conn->to_send &= (uint8_t) ~(1u << FAB_VERBS_WORD_TRY);
    conn->ep->conn = NULL;
    conn->ep = NULL;
    conn->linger_until = fab_now_us() + FAB_VERBS_LINGER_US;
    LIST_INSERT_HEAD(&conn->dom->lingering, conn, lingering_link);
}

void fab_verbs_conn_end_lingering(fab_verbs_domain_t *dom, uint64_t now)
{
    fab_verbs_conn_t *next;

    for (fab_verbs_conn_t *conn = LIST_FIRST(&dom->lingering); NULL != conn; conn = next) {
        bool is_done = conn->head == conn->tail && 0 == conn->to_send;
        bool is_over = is_done || conn->is_broken || now >= conn->linger_until;
        next = LIST_NEXT(conn, lingering_link);
        if (is_over && fab_verbs_conn_drain(conn, now)) {
            LIST_REMOVE(conn, lingering_link);
            fab_verbs_conn_destroy(conn, OPAL_ERR_UNREACH);
        }
    }
}
