/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a connection that broke, for the next one, by other ports.
 *
 * No device knows which of the unacknowledged messages have arrived.  So each side says, when they
 * connect again, how many it has received (fab_verbs_frame_t.received, counted over all connections
 * that broke), and the other sends what comes after these again, before anything new.  A message in
 * a buffer is there still; one that went inline is, if it was composed in conn->composed.
 *
 * So it is with a peer that this process has closed: CLOSE is sent after them.  The other side may
 * have had all, CLOSE too, and its answer was lost: it refuses the next connection (has_ended() in
 * verbs_answer.c).
 */
#include "verbs/verbs.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

typedef struct fab_verbs_kept {
    STAILQ_ENTRY(fab_verbs_kept) link;
    uint32_t len;         /* of data */
    unsigned char data[]; /* TMH, then payload */
} fab_verbs_kept_t;

typedef STAILQ_HEAD(fab_verbs_kept_queue, fab_verbs_kept) fab_verbs_kept_queue_t;

struct fab_verbs_keep {
    fab_verbs_kept_queue_t messages; /* to be sent again */
    fab_verbs_kept_queue_t later; /* what was not sent again yet when that connection broke, too */
    uint16_t num;                 /* of messages */
    uint16_t next;                /* number of the first */
    uint16_t received;            /* of the peer's */
    bool is_open;                 /* the broken connection is not drained */
};

bool fab_verbs_can_keep(const fab_verbs_conn_t *conn)
{
    const fab_verbs_ep_t *ep = conn->ep;

    return NULL != conn->composed && NULL != ep && 0 != conn->peer_qpn && !conn->dom->is_dead &&
           (FAB_VERBS_UP == ep->state || FAB_VERBS_ANSWERED == ep->state) && !ep->has_left &&
           0 == ep->end_by;
}

void fab_verbs_keep_begin(fab_verbs_conn_t *conn)
{
    fab_verbs_ep_t *ep = conn->ep;

    if (NULL == ep->keep) {
        ep->keep = calloc(1, sizeof(*ep->keep));
        if (NULL == ep->keep) {
            return; /* then the peer fails */
        }
        STAILQ_INIT(&ep->keep->messages);
        STAILQ_INIT(&ep->keep->later);
        ep->dom->first->num_keeping++;
    }
    if (!ep->keep->is_open) {
        ep->keep->is_open = true;
        ep->keep->num = 0;
        STAILQ_CONCAT(&ep->keep->later, &ep->keep->messages);
    }
}

static void keep_at(const fab_verbs_conn_t *conn, uint32_t at)
{
    const fab_verbs_wqe_t *wqe = &conn->sq[at & conn->sq_mask];
    const unsigned char *data = NULL != wqe->buf ? wqe->buf->data : fab_verbs_composed(conn, at);
    fab_verbs_keep_t *keep = conn->ep->keep;
    fab_verbs_kept_t *kept;
    fab_verbs_tmh_t tmh;

    if (NULL != wqe->op || wqe->len < sizeof(tmh)) {
        return;
    }
    memcpy(&tmh, data, sizeof(tmh));
    if (FAB_AM_NO_TAG == tmh.opcode && tmh.id >= FAB_VERBS_ID_CREDIT) {
        return; /* of this connection alone */
    }
    kept = malloc(sizeof(*kept) + wqe->len);
    if (NULL == kept) {
        fab_verbs_ep_refused_for_good(conn->ep);
        return;
    }
    kept->len = wqe->len;
    memcpy(kept->data, data, wqe->len);
    STAILQ_INSERT_TAIL(&keep->messages, kept, link);
    keep->num++;
}

void fab_verbs_keep_oldest(const fab_verbs_conn_t *conn)
{
    if (NULL != conn->ep && NULL != conn->ep->keep && conn->ep->keep->is_open) {
        keep_at(conn, conn->tail);
    }
}

void fab_verbs_keep_end(fab_verbs_conn_t *conn)
{
    fab_verbs_keep_t *keep = conn->ep->keep;

    for (uint32_t at = conn->tail; at != conn->head; at++) {
        keep_at(conn, at); /* the device did not say how it ended */
    }
    keep->is_open = false;
    keep->next = (uint16_t) (conn->base_sent + conn->sent - keep->num);
    keep->received = (uint16_t) (conn->base_consumed + conn->consumed);
    STAILQ_CONCAT(&keep->messages, &keep->later);
}

uint32_t fab_verbs_keep_received(const fab_verbs_ep_t *ep)
{
    return NULL == ep->keep
               ? 0
               : FAB_VERBS_RECEIVED_VALID | (ep->is_closing ? FAB_VERBS_RECEIVED_CLOSING : 0u) |
                     ep->keep->received;
}

static void drop_first(fab_verbs_keep_t *keep)
{
    fab_verbs_kept_t *kept = STAILQ_FIRST(&keep->messages);

    STAILQ_REMOVE_HEAD(&keep->messages, link);
    free(kept);
}

bool fab_verbs_keep_go_on(fab_verbs_conn_t *conn, uint32_t received)
{
    fab_verbs_keep_t *keep = conn->ep->keep;

    if (NULL == keep) {
        return 0 == (uint16_t) received; /* it was up for the other side alone */
    }
    for (; keep->next != (uint16_t) received; keep->next++) {
        if (STAILQ_EMPTY(&keep->messages)) {
            return false;
        }
        drop_first(keep);
    }
    conn->base_sent = keep->next;
    conn->base_consumed = keep->received;
    return true;
}

/* False: not now. */
static bool send_first(fab_verbs_conn_t *conn, const fab_verbs_kept_t *kept)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    fab_verbs_tmh_t tmh;

    memcpy(&tmh, kept->data, sizeof(tmh));
    tmh.credits = htobe16(conn->consumed);
    if (!fab_verbs_has_credit(conn) || fab_verbs_sq_room(conn) <= FAB_VERBS_SQ_RESERVED ||
        conn->dom->sq_used >= conn->dom->sq_used_max ||
        OPAL_SUCCESS != fab_verbs_conn_send(conn, &wr, &tmh, kept->data + sizeof(tmh),
                                            kept->len - sizeof(tmh), NULL)) {
        return false;
    }
    conn->sent++;
    conn->advertised = FAB_AM_FIN != tmh.opcode ? conn->consumed : conn->advertised;
    fab_counters.verbs_sent_again++;
    return true;
}

static void ep_send(fab_verbs_ep_t *ep)
{
    fab_verbs_keep_t *keep = ep->keep;

    while (!STAILQ_EMPTY(&keep->messages)) {
        if (!send_first(ep->conn, STAILQ_FIRST(&keep->messages))) {
            return;
        }
        drop_first(keep);
    }
    fab_verbs_keep_free(ep);
    ep->conn->is_ready = true;
    if (ep->is_closing && 0 == ep->end_by) { /* else CLOSED is sent */
        fab_verbs_conn_send_control(ep->conn, FAB_VERBS_ID_CLOSE);
    }
}

void fab_verbs_keep_send(fab_verbs_domain_t *dom)
{
    fab_verbs_ep_t *ep;

    LIST_FOREACH(ep, &dom->eps, link) {
        if (NULL != ep->keep && FAB_VERBS_UP == ep->state && NULL == ep->failure) {
            ep_send(ep);
        }
    }
}

void fab_verbs_keep_free(fab_verbs_ep_t *ep)
{
    fab_verbs_keep_t *keep = ep->keep;

    if (NULL == keep) {
        return;
    }
    STAILQ_CONCAT(&keep->messages, &keep->later);
    while (!STAILQ_EMPTY(&keep->messages)) {
        drop_first(keep);
    }
    free(keep);
    ep->keep = NULL;
    ep->dom->first->num_keeping--;
}
