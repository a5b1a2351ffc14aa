/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: an RC queue pair, or two, what is under way on it, and the credits of its two
 * directions.
 *
 * Selective signaling: a work request asks for a completion if it is a READ or WRITE, or if enough
 * before it did not ask. Its completion frees it and all before it. At most a quarter of the queue
 * and three buffers are unsignaled, so an idle connection keeps little. Once half of the resources
 * of all connections is in use, every work request is signaled: idle connections never hold up busy
 * ones.
 *
 * wr_id is the connection's id << 32 | position in the send queue. A device may give the number of
 * a destroyed queue pair to another one, and some devices still deliver completions of the
 * destroyed one: the id tells them apart.
 */
#include "verbs/verbs_conn.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"
#include "fabric/fab_random.h"
#include "verbs/verbs_alive.h"
#include "verbs/verbs_cm.h"
#include "verbs/verbs_domain.h"
#include "verbs/verbs_ep.h"
#include "verbs/verbs_progress.h"
#include "verbs/verbs_rma.h"
#include "verbs/verbs_srq.h"
#include "verbs/verbs_tm.h"

enum { FAB_VERBS_PSN_MASK = 0xffffff };

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

static void conn_enter(fab_verbs_domain_t *dom, fab_verbs_conn_t *conn)
{
    conn->id = dom->next_id++;
    TAILQ_INSERT_TAIL(&dom->conns, conn, link);
    qpn_enter(conn, &conn->qpns[0], conn->qp);
    if (NULL != conn->tm_qp) {
        qpn_enter(conn, &conn->qpns[1], conn->tm_qp);
    }
    dom->num_conns++;
}

static void conn_leave(fab_verbs_domain_t *dom, fab_verbs_conn_t *conn)
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

    return ibv_create_qp(dom->pd, &init);
}

/* A QP with as much room for inline data as the device gives. */
static struct ibv_qp *qp_create(fab_verbs_domain_t *dom, uint32_t *max_inline)
{
    static const uint32_t sizes[] = {FAB_VERBS_INLINE, 128, 64, 0};
    struct ibv_qp *qp = NULL;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && NULL == qp; i++) {
        struct ibv_qp_init_attr init = {
            .send_cq = dom->send_cq,
            .recv_cq = dom->recv_cq,
            .srq = dom->srq,
            .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = FAB_VERBS_SQ_DEPTH,
                    .max_send_sge = 1,
                    .max_inline_data = sizes[i]},
        };
        qp = ibv_create_qp(dom->pd, &init);
        *max_inline = fab_verbs_min(init.cap.max_inline_data, FAB_VERBS_INLINE);
        if (NULL == qp && EINVAL != errno) {
            break;
        }
    }
    return qp;
}

static int qp_init(fab_verbs_domain_t *dom, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = 0,
        .port_num = dom->port_num,
        .qp_access_flags = (unsigned int) dom->access,
    };

    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | dom->cm_ops->init_mask);
}

static uint32_t random_psn(void)
{
    uint32_t psn = 0;

    (void) fab_random(&psn, sizeof(psn)); /* any number will do */
    return psn & FAB_VERBS_PSN_MASK;
}

/* Destroy whichever of its QPs exist. */
static void conn_destroy_qps(const fab_verbs_conn_t *conn)
{
    if (NULL != conn->tm_qp) {
        (void) ibv_destroy_qp(conn->tm_qp);
    }
    if (NULL != conn->qp) {
        (void) ibv_destroy_qp(conn->qp);
    }
}

/* NULL, or what went wrong. */
static const char *conn_make_qps(fab_verbs_conn_t *conn)
{
    fab_verbs_domain_t *dom = conn->dom;
    bool has_tm = 0 != (dom->addr.flags & conn->ep->addr.flags & FAB_VERBS_ADDR_TM_RNDV);
    int error;

    conn->qp = qp_create(dom, &conn->max_inline);
    conn->tm_qp = NULL != conn->qp && has_tm ? tm_qp_create(dom) : NULL;
    if (NULL == conn->qp || (has_tm && NULL == conn->tm_qp)) {
        return fab_sentence(dom->fab, "%s cannot make a queue pair: %s; there are %u connections.",
                            dom->name, strerror(errno), dom->num_conns);
    }
    error = qp_init(dom, conn->qp);
    if (0 == error && has_tm) {
        error = qp_init(dom, conn->tm_qp);
    }
    return 0 == error ? NULL
                      : fab_sentence(dom->fab, "%s cannot initialize a queue pair: %s.", dom->name,
                                     strerror(error));
}

fab_verbs_conn_t *fab_verbs_conn_open(fab_verbs_ep_t *ep, const char **why)
{
    fab_verbs_domain_t *dom = ep->dom;
    fab_verbs_conn_t *conn;

    *why = fab_verbs_start(dom);
    if (NULL != *why) {
        return NULL;
    }
    conn = calloc(1, sizeof(*conn));
    if (NULL == conn) {
        *why = "There is no memory for a connection.";
        return NULL;
    }
    conn->ep = ep;
    conn->dom = dom;
    conn->is_to_tm = 0 != (ep->addr.flags & FAB_VERBS_ADDR_TM);
    conn->psn = random_psn();
    conn->tm_psn = random_psn();
    *why = conn_make_qps(conn);
    if (NULL != *why) {
        goto err_qps;
    }
    conn_enter(dom, conn);
    conn->granted = fab_verbs_srq_grant(dom);
    if (0 == conn->granted) {
        *why = fab_sentence(
            dom->fab, "%s has no receive buffers for another connection: raise %sverbs_buffers.",
            dom->name, fab_params.prefix);
        goto err_leave;
    }
    fab_counters.verbs_connections++;
    return conn;

err_leave:
    conn_leave(dom, conn);
err_qps:
    conn_destroy_qps(conn);
    free(conn);
    return NULL;
}

int fab_verbs_conn_renew(fab_verbs_conn_t *conn)
{
    struct ibv_qp *qp = qp_create(conn->dom, &conn->max_inline);
    int error = NULL != qp ? qp_init(conn->dom, qp) : errno;

    if (0 != error) {
        if (NULL != qp) {
            (void) ibv_destroy_qp(qp);
        }
        errno = error;
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    conn_leave(conn->dom, conn);
    (void) ibv_destroy_qp(conn->qp);
    conn->dom->cm_ops->forget(conn);
    conn->qp = qp;
    conn_enter(conn->dom, conn);
    return OPAL_SUCCESS;
}

/* ---- connecting --------------------------------------------------------- */

uint8_t fab_verbs_reads_served(const fab_verbs_domain_t *dom)
{
    return (uint8_t) fab_verbs_min((uint32_t) dom->device.max_qp_rd_atom, FAB_VERBS_READS);
}

const char *fab_verbs_conn_connect(fab_verbs_conn_t *conn, const fab_verbs_frame_t *frame)
{
    fab_verbs_domain_t *dom = conn->dom;
    uint8_t reads = (uint8_t) fab_verbs_min(frame->reads,
                                            (uint32_t) dom->device.max_qp_init_rd_atom);
    const char *step = "";
    int error;

    if ((NULL != conn->tm_qp) != (0 != frame->tm_qpn)) {
        return "It does not have the queue pairs that its address promises.";
    }
    error = dom->cm_ops->bring_up(conn, frame, reads, &step);
    if (0 != error) {
        return fab_sentence(dom->fab, "%s cannot make a queue pair ready to %s: %s.", dom->name,
                            step, strerror(error));
    }
    conn->peer_qpn = frame->qpn;
    conn->peer_psn = frame->psn;
    conn->window = (uint16_t) frame->window;
    conn->reads = reads;
    conn->max_in_flight = (uint8_t) fab_verbs_min(reads, FAB_VERBS_STEPS);
    conn->max_in_flight += 0 == conn->max_in_flight; /* WRITEs need none */
    return NULL;
}

/*
 * Set the access that peers have on the QPs of the connection.  bring_up() sets it on a QP that is
 * not connected yet; rdma_cm does not.
 */
static int conn_allow(const fab_verbs_conn_t *conn)
{
    struct ibv_qp_attr attr = {.qp_access_flags = (unsigned int) conn->dom->access};
    int error = 0;

    if ((0 != conn->peer_qpn || conn->dom->cm_ops->is_iwarp) && !conn->is_broken) {
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

/* ---- posting ------------------------------------------------------------ */

static bool wants_signal(const fab_verbs_conn_t *conn, const fab_verbs_buf_t *buf,
                         const fab_verbs_op_t *op)
{
    return NULL != op || conn->unsignaled + 1 >= FAB_VERBS_SIGNAL_WQES ||
           (NULL != buf && conn->unsignaled_bufs + 1 >= FAB_VERBS_SIGNAL_BUFS) ||
           (NULL != buf && conn->dom->send_pool.used > conn->dom->send_pool.num / 2) ||
           conn->dom->sq_used > conn->dom->sq_used_max / 2;
}

static __attribute__((noinline)) void conn_refused(fab_verbs_conn_t *conn, int error)
{
    if (NULL != conn->ep) {
        fab_verbs_ep_defer_failure(conn->ep, OPAL_ERR_UNREACH, "%s refused to send to it: %s.",
                                   conn->dom->name, strerror(error));
    }
}

/*
 * There is room, as each work request was counted when it was added; so if the device refuses any,
 * messages are lost and the connection ends.
 */
static void chain_post(fab_verbs_domain_t *dom)
{
    fab_verbs_chain_t *chain = &dom->chain;
    struct ibv_send_wr *bad = NULL;
    int error;

    if (0 == chain->num) {
        return;
    }
    fab_counters.verbs_chained += chain->num - 1;
    chain->num = 0;
    chain->bytes = 0;
    error = ibv_post_send(dom->chained->qp, &chain->links[0].wr, &bad);
    if (__builtin_expect(0 != error, 0)) {
        conn_refused(dom->chained, error);
    }
}

static void chain_add(fab_verbs_domain_t *dom, const struct ibv_send_wr *wr)
{
    fab_verbs_chain_t *chain = &dom->chain;
    uint32_t at = chain->num++;

    chain->bytes += wr->sg_list->length;
    chain->links[at].wr = *wr;
    chain->links[at].sge = *wr->sg_list;
    chain->links[at].wr.sg_list = &chain->links[at].sge;
    if (0 != (wr->send_flags & IBV_SEND_INLINE)) {
        memcpy(chain->links[at].data, (void *) (uintptr_t) wr->sg_list->addr, wr->sg_list->length);
        chain->links[at].sge.addr = (uintptr_t) chain->links[at].data;
    }
    if (at > 0) {
        chain->links[at - 1].wr.next = &chain->links[at].wr;
    }
    if (FAB_VERBS_CHAIN == chain->num || chain->bytes >= FAB_VERBS_CHAIN_BYTES) {
        chain_post(dom);
    }
}

void fab_verbs_chain_begin(fab_verbs_conn_t *conn)
{
    conn->dom->chained = conn;
}

void fab_verbs_chain_end(fab_verbs_domain_t *dom)
{
    if (NULL != dom->chained) {
        chain_post(dom);
        dom->chained = NULL;
    }
}

/* Hand a work request to the device, or to the chain. Returns an errno. */
static inline int fab_verbs_conn_hand_over(fab_verbs_conn_t *conn, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad = NULL;

    if (__builtin_expect(conn->dom->chained == conn, 0)) {
        chain_add(conn->dom, wr);
        return 0;
    }
    return ibv_post_send(conn->qp, wr, &bad);
}

int fab_verbs_conn_post(fab_verbs_conn_t *conn, struct ibv_send_wr *wr, fab_verbs_buf_t *buf,
                        fab_verbs_op_t *op)
{
    fab_verbs_domain_t *dom = conn->dom;
    bool is_signaled = 0 != (wr->send_flags & IBV_SEND_SIGNALED) || wants_signal(conn, buf, op);

    wr->wr_id = (uint64_t) conn->id << 32 | conn->head;
    wr->num_sge = 1;
    wr->send_flags |= is_signaled ? IBV_SEND_SIGNALED : 0;
    int error = fab_verbs_conn_hand_over(conn, wr);
    if (__builtin_expect(0 != error, 0)) {
        if (ENOMEM == error) {
            return OPAL_ERR_RESOURCE_BUSY;
        }
        conn_refused(conn, error);
        return OPAL_ERR_UNREACH;
    }
    conn->sq[conn->head % FAB_VERBS_SQ_DEPTH] = (fab_verbs_wqe_t){
        buf, op, NULL != op ? wr->sg_list->length : 0, is_signaled};
    conn->head++;
    dom->sq_used++;
    dom->num_signaled += is_signaled;
    conn->unsignaled = is_signaled ? 0 : conn->unsignaled + 1;
    conn->unsignaled_bufs = is_signaled ? 0 : conn->unsignaled_bufs + (NULL != buf);
    return OPAL_SUCCESS;
}

fab_verbs_buf_t *fab_verbs_send_buf(fab_verbs_domain_t *dom)
{
    fab_verbs_buf_t *buf = fab_verbs_pool_get(&dom->send_pool);

    fab_counters.verbs_queue_full += NULL == buf;
    return buf;
}

/* Header and payload go into the work request if they fit, else into a buffer. */
int fab_verbs_conn_send(fab_verbs_conn_t *conn, struct ibv_send_wr *wr, const fab_verbs_tmh_t *tmh,
                        const void *data, size_t len, fab_verbs_buf_t *buf)
{
    unsigned char msg[FAB_VERBS_INLINE];
    bool is_inline = sizeof(*tmh) + len <= conn->max_inline;
    struct ibv_sge sge = {.length = (uint32_t) (sizeof(*tmh) + len)};
    unsigned char *to = msg;
    int rc;

    if (!is_inline && NULL == buf) {
        buf = fab_verbs_send_buf(conn->dom);
        if (NULL == buf) {
            return OPAL_ERR_RESOURCE_BUSY;
        }
    } else if (NULL == data && NULL != buf) {
        data = buf->data + sizeof(*tmh);
    }
    if (!is_inline) {
        to = buf->data;
        sge.lkey = buf->lkey;
    } else {
        wr->send_flags |= IBV_SEND_INLINE;
    }
    memcpy(to, tmh, sizeof(*tmh));
    if (len > 0 && data != to + sizeof(*tmh)) {
        memcpy(to + sizeof(*tmh), data, len);
    }
    sge.addr = (uintptr_t) to;
    wr->sg_list = &sge;
    rc = fab_verbs_conn_post(conn, wr, is_inline ? NULL : buf, NULL);
    if (NULL != buf && (is_inline || OPAL_SUCCESS != rc)) {
        fab_verbs_pool_put(&conn->dom->send_pool, buf);
    }
    return rc;
}

/* ---- completions -------------------------------------------------------- */

static void conn_retire(fab_verbs_conn_t *conn, int status)
{
    fab_verbs_wqe_t wqe = conn->sq[conn->tail % FAB_VERBS_SQ_DEPTH];

    conn->tail++;
    conn->dom->sq_used--;
    conn->dom->num_signaled -= wqe.is_signaled;
    if (NULL != wqe.buf) {
        fab_verbs_pool_put(&conn->dom->send_pool, wqe.buf);
    }
    if (NULL != wqe.op) {
        conn->in_flight--;
        fab_verbs_op_landed(wqe.op, wqe.len, status);
    }
}

/* Report the error once per connection; the flushed requests after it add no information. */
static void conn_broke(fab_verbs_conn_t *conn, const struct ibv_wc *wc)
{
    fab_verbs_ep_t *ep = conn->ep;
    bool is_rma = NULL != conn->sq[conn->tail % FAB_VERBS_SQ_DEPTH].op;

    if (conn->is_broken) {
        return;
    }
    conn->is_broken = true;
    if (NULL == ep || (ep->has_left && !is_rma)) {
        return; /* it left: what it did not receive does not matter */
    }
    fab_counters.verbs_qp_errors++;
    if (IBV_WC_WR_FLUSH_ERR == wc->status) {
        fab_verbs_async(conn->dom); /* the queue pair failed as a whole: its event says why */
    }
    if (IBV_WC_WR_FLUSH_ERR == wc->status && conn->dom->cm_ops->lost(conn)) {
        return;
    }
    if (IBV_WC_RETRY_EXC_ERR == wc->status) {
        fab_verbs_ep_defer_failure(
            ep, OPAL_ERR_UNREACH,
            "It does not answer any more (%s: %s): its process has ended, or the network is down.",
            conn->dom->name, ibv_wc_status_str(wc->status));
    } else {
        fab_verbs_ep_defer_failure(ep, OPAL_ERR_COMM_FAILURE,
                                   "The connection to it broke (%s: %s, vendor's code 0x%x).",
                                   conn->dom->name, ibv_wc_status_str(wc->status), wc->vendor_err);
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
    if (IBV_WC_SUCCESS != wc->status) {
        conn_broke(conn, wc);
    }
    conn_retire(conn, IBV_WC_SUCCESS == wc->status ? OPAL_SUCCESS : OPAL_ERR_UNREACH);
}

/* ---- the provider's own messages ---------------------------------------- */

static int conn_send_id(fab_verbs_conn_t *conn, uint8_t id)
{
    fab_verbs_tmh_t tmh = {.id = id, .credits = htobe16(conn->consumed)};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    int rc;

    if (0 == fab_verbs_sq_room(conn)) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    if (FAB_VERBS_ID_CREDIT != id) {
        wr.send_flags = IBV_SEND_SIGNALED;
    }
    rc = fab_verbs_conn_send(conn, &wr, &tmh, NULL, 0, NULL);
    if (OPAL_SUCCESS == rc) {
        conn->advertised = conn->consumed;
    }
    return rc;
}

void fab_verbs_conn_schedule_credits(fab_verbs_conn_t *conn)
{
    if (!conn->is_due) {
        conn->is_due = true;
        LIST_INSERT_HEAD(&conn->dom->due, conn, due_link);
    }
}

static void unschedule_credits(fab_verbs_conn_t *conn)
{
    if (conn->is_due) {
        conn->is_due = false;
        LIST_REMOVE(conn, due_link);
    }
}

void fab_verbs_conn_send_control(fab_verbs_conn_t *conn, uint8_t id)
{
    if (OPAL_ERR_RESOURCE_BUSY == conn_send_id(conn, id)) {
        conn->to_send = id;
        fab_verbs_conn_schedule_credits(conn);
    }
}

/*
 * Send what is due to the peer: CLOSE, CLOSED or LEAVE that found no room before; credits, if
 * enough have come together and no message carried them. False: not possible yet.
 */
static bool conn_return_credits(fab_verbs_conn_t *conn)
{
    uint16_t unadvertised = (uint16_t) (conn->consumed - conn->advertised);
    int rc = OPAL_SUCCESS;

    if (conn->is_broken || (NULL != conn->ep && conn->ep->has_left)) {
        return true;
    }
    if (!conn->is_ready) {
        return false;
    }
    if (0 != conn->to_send) {
        rc = conn_send_id(conn, conn->to_send);
        conn->to_send = OPAL_ERR_RESOURCE_BUSY == rc ? conn->to_send : 0;
    } else if (unadvertised >= (conn->granted + 1) / 2) {
        rc = conn_send_id(conn, FAB_VERBS_ID_CREDIT);
        fab_counters.verbs_credit_messages += OPAL_SUCCESS == rc;
    }
    return OPAL_ERR_RESOURCE_BUSY != rc;
}

void fab_verbs_conn_send_due(fab_verbs_domain_t *dom)
{
    fab_verbs_conn_t *next;

    for (fab_verbs_conn_t *conn = LIST_FIRST(&dom->due); NULL != conn; conn = next) {
        next = LIST_NEXT(conn, due_link);
        if (conn_return_credits(conn)) {
            unschedule_credits(conn);
        }
    }
}

/* ---- ending ------------------------------------------------------------- */

static void conn_stop(fab_verbs_conn_t *conn)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    conn->is_broken = true; /* from now on work requests fail, which need not be reported */
    conn->is_ready = false;
    (void) ibv_modify_qp(conn->qp, &attr, IBV_QP_STATE);
    if (NULL != conn->tm_qp) {
        (void) ibv_modify_qp(conn->tm_qp, &attr, IBV_QP_STATE);
    }
}

void fab_verbs_conn_ended(fab_verbs_conn_t *conn)
{
    conn->num_ended++;
    conn->drained_at = conn->dom->empty_polls;
}

bool fab_verbs_conn_drain(fab_verbs_conn_t *conn, uint64_t now)
{
    fab_verbs_domain_t *dom = conn->dom;

    if (dom->cm_ops->is_iwarp || dom->is_dead || 0 == conn->peer_qpn ||
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

    unschedule_credits(conn);
    conn_leave(dom, conn);
    if (NULL != conn->ep) {
        conn->ep->conn = NULL;
    }
    conn_destroy_qps(conn); /* first: afterwards the device touches no memory for it */
    if (NULL != dom->tm) {
        fab_verbs_tm_conn_gone(conn);
    }
    conn->dom->cm_ops->forget(conn);
    while (conn->tail != conn->head) {
        conn_retire(conn, status);
    }
    free(conn);
}

void fab_verbs_conn_linger(fab_verbs_conn_t *conn)
{
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
