/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting work requests on a connection, and the provider's own messages.
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
#include "verbs/verbs.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

/* ---- posting ------------------------------------------------------------ */

static bool wants_signal(const fab_verbs_conn_t *conn, const fab_verbs_buf_t *buf,
                         const fab_verbs_op_t *op)
{
    return NULL != op || conn->unsignaled >= conn->max_unsignaled ||
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
    conn->sq[conn->head & conn->sq_mask] = (fab_verbs_wqe_t){buf, op, wr->sg_list->length,
                                                             is_signaled};
    conn->head++;
    dom->sq_used++;
    dom->num_signaled += is_signaled;
    conn->unsignaled = is_signaled ? 0 : conn->unsignaled + 1;
    conn->unsignaled_bufs = is_signaled ? 0 : conn->unsignaled_bufs + (NULL != buf);
    return OPAL_SUCCESS;
}

fab_verbs_buf_t *fab_verbs_send_buf(fab_verbs_domain_t *dom)
{
    return fab_verbs_pool_get(&dom->send_pool);
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

/* ---- the provider's own messages ---------------------------------------- */

int fab_verbs_conn_send_id(fab_verbs_conn_t *conn, uint8_t id)
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

void fab_verbs_conn_unschedule_credits(fab_verbs_conn_t *conn)
{
    if (conn->is_due) {
        conn->is_due = false;
        LIST_REMOVE(conn, due_link);
    }
}

void fab_verbs_conn_send_control(fab_verbs_conn_t *conn, uint8_t id)
{
    if (OPAL_ERR_RESOURCE_BUSY == fab_verbs_conn_send_id(conn, id)) {
        conn->to_send = id;
        fab_verbs_conn_schedule_credits(conn);
    }
}

/* What begins and ends a connection goes also while no messages do. */
static bool may_still_send(const fab_verbs_conn_t *conn)
{
    return FAB_VERBS_ID_PROBE == conn->to_send ||
           (NULL != conn->ep && 0 != conn->to_send && FAB_VERBS_EVICTING == conn->ep->state);
}

/*
 * Send what is due to the peer: CLOSE, CLOSED or LEAVE that found no room before; credits, if
 * enough have come together and no message carried them. False: not possible yet.
 */
static bool conn_return_credits(fab_verbs_conn_t *conn)
{
    uint16_t unadvertised = (uint16_t) (conn->consumed - conn->advertised);
    int rc = OPAL_SUCCESS;

    if (NULL != conn->ep && NULL != conn->ep->main && unadvertised > 0) {
        fab_verbs_ep_defer_failure(conn->ep->main, OPAL_ERR_COMM_FAILURE,
                                   "It sent a message over a connection for shares of long ones.");
        return true;
    }
    if (conn->is_broken || (NULL != conn->ep && conn->ep->has_left)) {
        return true;
    }
    if (!conn->is_ready && !may_still_send(conn)) {
        return false;
    }
    if (0 != conn->to_send) {
        rc = fab_verbs_conn_send_id(conn, conn->to_send);
        conn->to_send = OPAL_ERR_RESOURCE_BUSY == rc ? conn->to_send : 0;
    } else if (unadvertised >= (conn->granted + 1) / 2) {
        rc = fab_verbs_conn_send_id(conn, FAB_VERBS_ID_CREDIT);
        fab_counters.credit_messages += OPAL_SUCCESS == rc;
    }
    return OPAL_ERR_RESOURCE_BUSY != rc;
}

void fab_verbs_conn_send_due(fab_verbs_domain_t *dom)
{
    fab_verbs_conn_t *next;

    for (fab_verbs_conn_t *conn = LIST_FIRST(&dom->due); NULL != conn; conn = next) {
        next = LIST_NEXT(conn, due_link);
        if (conn_return_credits(conn)) {
            fab_verbs_conn_unschedule_credits(conn);
        }
    }
}
