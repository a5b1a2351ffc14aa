/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pairs of connections: an RC queue pair, or two, from making to ready.
 */
#include "verbs/verbs.h"

#include <errno.h>
#include <string.h>

#include "fabric/fab_params.h"
#include "verbs/verbs_cm.h"

/* ---- finding ------------------------------------------------------------ */

fab_verbs_conn_t *fab_verbs_conn_by_qpn(fab_verbs_domain_t *dom, uint32_t qpn)
{
    fab_verbs_qpn_t *at;

    LIST_FOREACH(at, &dom->by_qpn[qpn % FAB_VERBS_HASH], link) {
        if (at->qpn == qpn) {
            return at->conn;
        }
    }
    return NULL;
}

static void qpn_enter(fab_verbs_conn_t *conn, fab_verbs_qpn_t *entry, const struct ibv_qp *qp)
{
    entry->conn = conn;
    entry->qpn = qp->qp_num;
    LIST_INSERT_HEAD(&conn->dom->by_qpn[qp->qp_num % FAB_VERBS_HASH], entry, link);
}

void fab_verbs_conn_enter(fab_verbs_domain_t *dom, fab_verbs_conn_t *conn)
{
    conn->id = dom->next_id++;
    TAILQ_INSERT_TAIL(&dom->conns, conn, link);
    qpn_enter(conn, &conn->qpns[0], conn->qp);
    if (NULL != conn->tm_qp) {
        qpn_enter(conn, &conn->qpns[1], conn->tm_qp);
    }
    dom->num_conns++;
}

void fab_verbs_conn_leave(fab_verbs_domain_t *dom, fab_verbs_conn_t *conn)
{
    LIST_REMOVE(&conn->qpns[0], link);
    if (NULL != conn->tm_qp) {
        LIST_REMOVE(&conn->qpns[1], link);
    }
    TAILQ_REMOVE(&dom->conns, conn, link);
    dom->num_conns--;
    if (dom->last_conn == conn) {
        dom->last_conn = NULL;
    }
}

/* ---- making ------------------------------------------------------------- */

/*
 * A QP that receives the peer's messages and on which this device does rendezvous: it must have no
 * send queue.
 */
static struct ibv_qp *tm_qp_create(fab_verbs_domain_t *dom)
{
    struct ibv_qp_init_attr init = {
        .send_cq = dom->send_cq,
        .recv_cq = dom->recv_cq,
        .srq = dom->srq,
        .qp_type = IBV_QPT_RC,
    };

    return ibv_create_qp(dom->queue_pd, &init);
}

/*
 * A connection's memory is its send queue, above all.  Each entry has room for the largest work
 * request that may be posted, so the device is told which ones are; where it cannot be told, it
 * takes twice as much.
 */
static struct ibv_qp *qp_create_for(fab_verbs_domain_t *dom, uint32_t depth, uint32_t inline_size,
                                    uint32_t *max_inline)
{
    struct ibv_qp_init_attr_ex init = {
        .send_cq = dom->send_cq,
        .recv_cq = dom->recv_cq,
        .srq = dom->srq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = depth, .max_send_sge = 1, .max_inline_data = inline_size},
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = dom->queue_pd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE,
    };
    struct ibv_qp *qp = ibv_create_qp_ex(dom->ctx, &init);

    if (NULL == qp && (EOPNOTSUPP == errno || ENOSYS == errno)) {
        init.comp_mask = IBV_QP_INIT_ATTR_PD;
        qp = ibv_create_qp_ex(dom->ctx, &init);
    }
    *max_inline = fab_verbs_min(init.cap.max_inline_data, FAB_VERBS_INLINE);
    return qp;
}

/* The fewer, the more processes there are to connect to (doc/verbs.md, "Memory"). */
uint32_t fab_verbs_sq_depth(const fab_verbs_domain_t *dom)
{
    uint32_t num = fab_verbs_num_expected(dom);

    return num <= 256    ? FAB_VERBS_SQ_DEPTH
           : num <= 1024 ? FAB_VERBS_SQ_DEPTH / 2
                         : FAB_VERBS_SQ_DEPTH / 4;
}

/* A QP with as much room for inline data as the device gives. */
static struct ibv_qp *qp_create(fab_verbs_domain_t *dom, uint32_t depth, uint32_t *max_inline)
{
    static const uint32_t sizes[] = {FAB_VERBS_INLINE, 128, 64, 0};
    struct ibv_qp *qp = NULL;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && NULL == qp; i++) {
        qp = qp_create_for(dom, depth, sizes[i], max_inline);
        if (NULL == qp && EINVAL != errno) {
            break;
        }
    }
    return qp;
}

void fab_verbs_conn_destroy_qps(const fab_verbs_conn_t *conn)
{
    if (NULL != conn->tm_qp) {
        (void) ibv_destroy_qp(conn->tm_qp);
    }
    if (NULL != conn->qp) {
        (void) ibv_destroy_qp(conn->qp);
    }
}

const char *fab_verbs_conn_make_qps(fab_verbs_conn_t *conn)
{
    fab_verbs_domain_t *dom = conn->dom;
    bool has_tm = 0 != (dom->addr.flags & fab_verbs_peer_flags(conn->ep) & FAB_VERBS_ADDR_TM_RNDV);
    int error;

    conn->qp = qp_create(dom, conn->sq_depth, &conn->max_inline);
    conn->tm_qp = NULL != conn->qp && has_tm ? tm_qp_create(dom) : NULL;
    if (NULL == conn->qp || (has_tm && NULL == conn->tm_qp)) {
        return fab_sentence(dom->fab, "%s cannot make a queue pair: %s; there are %u connections.",
                            dom->name, strerror(errno), dom->num_conns);
    }
    error = fab_verbs_qp_init(dom, conn->qp);
    if (0 == error && has_tm) {
        error = fab_verbs_qp_init(dom, conn->tm_qp);
    }
    return 0 == error ? NULL
                      : fab_sentence(dom->fab, "%s cannot initialize a queue pair: %s.", dom->name,
                                     strerror(error));
}

int fab_verbs_conn_renew(fab_verbs_conn_t *conn)
{
    struct ibv_qp *qp = qp_create(conn->dom, conn->sq_depth, &conn->max_inline);
    int error = NULL != qp ? fab_verbs_qp_init(conn->dom, qp) : errno;

    if (0 != error) {
        if (NULL != qp) {
            (void) ibv_destroy_qp(qp);
        }
        errno = error;
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    fab_verbs_conn_leave(conn->dom, conn);
    (void) ibv_destroy_qp(conn->qp);
    conn->dom->cm_ops->forget(conn);
    conn->qp = qp;
    fab_verbs_conn_enter(conn->dom, conn);
    return OPAL_SUCCESS;
}

/* ---- connecting --------------------------------------------------------- */

/* READs or WRITEs under way on one QP, if the devices can: enough to fill the line. */
enum { FAB_VERBS_STEPS = 4 };

const char *fab_verbs_conn_connect(fab_verbs_conn_t *conn, const fab_verbs_frame_t *frame)
{
    const fab_verbs_job_t job = {.conn = conn, .frame = *frame};
    uint8_t reads = (uint8_t) fab_verbs_min(frame->reads,
                                            (uint32_t) conn->dom->device.max_qp_init_rd_atom);
    uint8_t mtu = frame->addr.ports[conn->remote].mtu;

    if ((NULL != conn->tm_qp) != (0 != frame->tm_qpn)) {
        return "It does not have the queue pairs that its address promises.";
    }
    conn->peer_qpn = frame->qpn;
    conn->peer_psn = frame->psn;
    conn->probe_addr = frame->probe_addr;
    conn->probe_rkey = frame->probe_rkey;
    conn->probe_len = (uint16_t) (128u << fab_verbs_min(mtu, conn->dom->port_addr.mtu));
    conn->reads = reads;
    conn->max_in_flight = (uint8_t) fab_verbs_min(reads, FAB_VERBS_STEPS);
    conn->max_in_flight += 0 == conn->max_in_flight; /* WRITEs need none */
    if (fab_verbs_is_iwarp(conn->dom) ||
        (fab_verbs_is_ethernet(conn->dom) && fab_verbs_resolve_submit(&job))) {
        return NULL;
    }
    return fab_verbs_conn_connected(conn, fab_verbs_conn_to_receive(&job));
}

const char *fab_verbs_conn_connected(fab_verbs_conn_t *conn, int error)
{
    const fab_verbs_domain_t *dom = conn->dom;
    const char *step = "receive";

    if (0 == error) {
        step = "send";
        error = fab_verbs_qp_to_send(dom, conn->qp, conn->psn, conn->reads);
    }
    if (0 == error && NULL != conn->tm_qp) {
        error = fab_verbs_qp_to_send(dom, conn->tm_qp, conn->tm_psn, conn->reads);
    }
    if (0 == error) {
        return NULL;
    }
    conn->peer_qpn = 0;
    return fab_sentence(dom->fab, "%s cannot make a queue pair ready to %s: %s.", dom->name, step,
                        strerror(error));
}

/*
 * Set the access that peers have on the QPs of the connection.  A QP that is not connected yet gets
 * it when it is made ready to send, but not from rdma_cm.
 */
static int conn_allow(const fab_verbs_conn_t *conn)
{
    struct ibv_qp_attr attr = {.qp_access_flags = (unsigned int) conn->dom->access};
    int error = 0;

    if ((fab_verbs_is_iwarp(conn->dom) || (0 != conn->peer_qpn && NULL == conn->job)) &&
        !conn->is_broken) {
        error = ibv_modify_qp(conn->qp, &attr, IBV_QP_ACCESS_FLAGS);
        if (0 == error && NULL != conn->tm_qp) {
            error = ibv_modify_qp(conn->tm_qp, &attr, IBV_QP_ACCESS_FLAGS);
        }
    }
    return error;
}

bool fab_verbs_conns_allow(fab_verbs_domain_t *dom, int access)
{
    fab_verbs_conn_t *conn;
    int error = 0;

    if (__builtin_expect(0 == (access & ~dom->access), 1)) {
        return true;
    }
    dom->access |= access;
    TAILQ_FOREACH(conn, &dom->conns, link) {
        error = 0 == error ? conn_allow(conn) : error;
    }
    if (0 != error) {
        dom->access &= ~access;
        fab_log(dom->fab, 1, "%s: remote writes cannot be enabled: %s", dom->name, strerror(error));
    }
    return 0 == error;
}
