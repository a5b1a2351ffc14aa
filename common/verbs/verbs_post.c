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
        fab_verbs_broke(conn->ep, OPAL_ERR_UNREACH, "%s refused to send to it: %s.",
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
        buf = fab_verbs_pool_get(&conn->dom->send_pool);
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

/* As long as a packet may be on this path: what follows the header means nothing. */
static int send_try(fab_verbs_conn_t *conn, struct ibv_send_wr *wr, const fab_verbs_tmh_t *tmh)
{
    const fab_verbs_domain_t *dom = conn->dom;
    uint32_t len = (uint32_t) (conn->probe_len - sizeof(*tmh));

    return fab_verbs_conn_send(conn, wr, tmh, dom->page,
                               fab_verbs_min(len, conn->ep->peer->eager_max), NULL);
}

int fab_verbs_conn_send_id(fab_verbs_conn_t *conn, uint8_t id, uint32_t app_ctx)
{
    fab_ses_t *ses = NULL != conn->ep ? &conn->ep->ses : NULL;
    fab_verbs_tmh_t tmh = {
        .id = id,
        .credits = htobe16(NULL != ses ? (uint16_t) ses->consumed : conn->credits),
        .app_ctx = htobe32(app_ctx),
    };
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    int rc;

    if (0 == fab_verbs_sq_room(conn)) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    if (FAB_VERBS_ID_CREDIT != id) {
        wr.send_flags = IBV_SEND_SIGNALED;
    }
    rc = FAB_VERBS_ID_TRY == id ? send_try(conn, &wr, &tmh)
                                : fab_verbs_conn_send(conn, &wr, &tmh, NULL, 0, NULL);
    if (OPAL_SUCCESS == rc && NULL != ses) {
        fab_ses_told(ses);
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

/* Does what a READ of the peer's page brings pass, too? */
static int read_page(fab_verbs_conn_t *conn)
{
    struct ibv_sge sge = {.addr = (uintptr_t) (conn->dom->page + FAB_VERBS_PACKET),
                          .length = conn->probe_len,
                          .lkey = conn->dom->page_mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED};

    wr.wr.rdma.remote_addr = conn->probe_addr;
    wr.wr.rdma.rkey = conn->probe_rkey;
    return conn->reads > 0 ? fab_verbs_conn_post(conn, &wr, NULL, NULL) : OPAL_SUCCESS;
}

/* With what has changed of the two windows. */
static int send_credit(fab_verbs_conn_t *conn)
{
    const uint32_t changes = conn->to_grant | (uint32_t) conn->to_return << FAB_VERBS_BACK_AT;
    int rc = fab_verbs_conn_send_id(conn, FAB_VERBS_ID_CREDIT, changes);

    if (OPAL_SUCCESS == rc) {
        conn->to_grant = conn->to_return = 0;
    }
    return rc;
}

static int send_word(fab_verbs_conn_t *conn, unsigned word)
{
    int rc;

    if (FAB_VERBS_WORD_CREDIT == word) {
        return send_credit(conn);
    }
    if (FAB_VERBS_WORD_TRY != word) {
        return fab_verbs_conn_send_id(conn, FAB_VERBS_ID_BYE, word);
    }
    rc = fab_verbs_sq_room(conn) < 2 ? OPAL_ERR_RESOURCE_BUSY
                                     : fab_verbs_conn_send_id(conn, FAB_VERBS_ID_TRY, 0);
    return OPAL_SUCCESS == rc ? read_page(conn) : rc;
}

/* What waits, in the order in which it came to be.  False: there is no room. */
static bool send_words(fab_verbs_conn_t *conn)
{
    static const uint8_t order[] = {FAB_VERBS_WORD_TRY, FAB_VERBS_WORD_CREDIT, FAB_SES_BYE_STAY,
                                    FAB_SES_BYE_PAUSE,  FAB_SES_BYE_CLOSE,     FAB_SES_BYE_LEAVE,
                                    FAB_SES_BYE_REFUSE};

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]) && 0 != conn->to_send; i++) {
        const uint8_t bit = (uint8_t) (1u << order[i]);
        if (0 == (conn->to_send & bit)) {
            continue;
        }
        if (OPAL_ERR_RESOURCE_BUSY == send_word(conn, order[i])) {
            return false;
        }
        conn->to_send &= (uint8_t) ~bit;
    }
    return true;
}

void fab_verbs_conn_send_control(fab_verbs_conn_t *conn, fab_verbs_word_t word)
{
    conn->to_send |= (uint8_t) (1u << word);
    if (!send_words(conn)) {
        fab_verbs_conn_schedule_credits(conn);
    }
}

/*
 * Send what is due to the peer: words that found no room before; unless BYE was sent, changed
 * windows, and credits, if enough have come together and no message carried them.  False: not
 * possible yet.
 */
static bool conn_return_credits(fab_verbs_conn_t *conn)
{
    const fab_verbs_ep_t *ep = conn->ep;
    int rc = OPAL_SUCCESS;

    if (NULL != ep && NULL != ep->main && ep->ses.consumed != ep->ses.told) {
        fab_verbs_broke(ep->main, OPAL_ERR_COMM_FAILURE,
                        "It sent a message over a connection for shares of long ones.");
        return true;
    }
    if (conn->is_broken) {
        return true;
    }
    if (!send_words(conn)) {
        return false;
    }
    if (NULL != ep && FAB_SES_UP == ep->ses.state) {
        const bool is_owed = fab_verbs_owes_credit(conn);
        fab_verbs_srq_follow(conn);
        rc = is_owed || 0 != conn->to_grant || 0 != conn->to_return ? send_credit(conn) : rc;
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
