/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is done with messages that came: they are checked, their credits taken, and delivered.
 */
#include "verbs/verbs.h"

#include <endian.h>
#include <string.h>

static bool take_credit(fab_ses_t *ses, const fab_verbs_tmh_t *tmh)
{
    /* a FIN that hardware made is a copy of our own request's header */
    return FAB_AM_FIN == tmh->opcode || fab_ses_on_credit16(ses, be16toh(tmh->credits));
}

static inline void fab_verbs_credit_return(fab_verbs_conn_t *conn)
{
    if (__builtin_expect(fab_verbs_owes_credit(conn), 0)) {
        fab_verbs_conn_schedule_credits(conn);
    }
}

static inline uint8_t fab_verbs_id(const fab_verbs_tmh_t *tmh)
{
    bool is_in_id = FAB_AM_NO_TAG == tmh->opcode ||
                    (FAB_AM_EAGER == tmh->opcode && FAB_AM_RNDV == tmh->id);

    return is_in_id ? tmh->id : tmh->opcode;
}

/* A message of a user's. */
static inline void took(fab_verbs_ep_t *ep)
{
    ep->ses.consumed++;
    ep->ses.is_used = true;
}

/* A message of the fabric's. */
static void deliver(fab_verbs_conn_t *conn, const fab_verbs_tmh_t *tmh, const void *data,
                    size_t len)
{
    fab_verbs_domain_t *dom = conn->dom;
    fab_rndv_t rndv;

    took(conn->ep);
    if (FAB_AM_RNDV == tmh->opcode && NULL != conn->tm_qp) {
        if (sizeof(fab_verbs_rvh_t) != len) {
            fab_peer_bad_message(conn->ep->peer, "rendezvous: length of the request");
            return;
        }
        rndv = fab_verbs_rndv(data);
        data = &rndv;
        len = sizeof(rndv);
    }
    fab_deliver(dom->fab, conn->ep->peer,
                fab_hdr(fab_verbs_id(tmh), be64toh(tmh->tag), be32toh(tmh->app_ctx)), data, len);
    fab_verbs_credit_return(conn);
}

/*
 * The peer's device has done a rendezvous, or so it says. Not one of the messages that are counted.
 */
static void device_answered(fab_verbs_conn_t *conn, const unsigned char *data, size_t len)
{
    fab_verbs_tmh_t tmh = {.opcode = FAB_AM_NO_TAG};

    memcpy(&tmh, data, len < sizeof(tmh) ? len : sizeof(tmh));
    if (FAB_AM_FIN == tmh.opcode && len >= sizeof(tmh)) {
        fab_deliver(conn->dom->fab, conn->ep->peer,
                    fab_hdr(FAB_AM_FIN, be64toh(tmh.tag), be32toh(tmh.app_ctx)), NULL, 0);
    } else {
        fab_peer_bad_message(conn->ep->peer,
                             "it came on a queue pair where only the device may answer");
    }
}

static bool id_is_known(const fab_verbs_tmh_t *tmh)
{
    if (FAB_AM_NO_TAG != tmh->opcode) {
        return tmh->opcode <= FAB_AM_EAGER;
    }
    return tmh->id < FAB_AM_MAX || (tmh->id >= FAB_VERBS_ID_CREDIT && tmh->id <= FAB_VERBS_ID_TRY);
}

/* This direction carries packets; whether the sender hears so, its first word tells. */
static bool is_try(const fab_verbs_tmh_t *tmh)
{
    return FAB_AM_NO_TAG == tmh->opcode && FAB_VERBS_ID_TRY == tmh->id;
}

/* The session is not up yet, or ends.  False: nothing may come now. */
static __attribute__((noinline)) bool may_come(fab_verbs_ep_t *ep, const fab_verbs_tmh_t *tmh)
{
    if (FAB_SES_ASKED == ep->ses.state && is_try(tmh)) {
        return true;
    }
    fab_ses_first(&ep->ses);
    return FAB_SES_UP == ep->ses.state || FAB_SES_CLOSING == ep->ses.state;
}

static void arrived(fab_verbs_conn_t *conn, const unsigned char *data, size_t len)
{
    fab_verbs_ep_t *ep = conn->ep;
    fab_verbs_tmh_t tmh;

    if (len < sizeof(tmh)) {
        fab_peer_bad_message(ep->peer, "it is shorter than a header");
        return;
    }
    memcpy(&tmh, data, sizeof(tmh));
    if (!id_is_known(&tmh)) {
        fab_peer_bad_message(ep->peer, "there is no such id");
    } else if (__builtin_expect(FAB_SES_UP != ep->ses.state, 0) && !may_come(ep, &tmh)) {
        fab_peer_bad_message(ep->peer, "there is no session that it belongs to");
    } else if (!take_credit(&ep->ses, &tmh)) {
        fab_peer_bad_message(ep->peer, "it takes credit for more than was sent");
    } else if (FAB_AM_NO_TAG == tmh.opcode && tmh.id >= FAB_VERBS_ID_CREDIT) {
        fab_verbs_ep_on_control(ep, tmh.id, be32toh(tmh.app_ctx));
    } else {
        deliver(conn, &tmh, data + sizeof(tmh), len - sizeof(tmh));
    }
}

void fab_verbs_on_recv(fab_verbs_domain_t *dom, const struct ibv_wc *wc)
{
    fab_verbs_buf_t *buf = (fab_verbs_buf_t *) (uintptr_t) wc->wr_id;
    fab_verbs_conn_t *conn = dom->last_conn;

    if (__builtin_expect(!fab_verbs_collect(dom, buf), 0)) {
        fab_verbs_give_up(dom, "reported a message twice", "a buffer that it did not have");
        return;
    }
    if (NULL == conn || fab_verbs_conn_recv_qpn(conn) != wc->qp_num) {
        conn = fab_verbs_conn_by_qpn(dom, wc->qp_num);
    }
    if (NULL != conn && NULL != conn->ep && FAB_PEER_FAILED != conn->ep->peer->state) {
        dom->last_conn = conn;
        if (__builtin_expect(
                wc->qp_num != fab_verbs_conn_recv_qpn(conn) && IBV_WC_SUCCESS == wc->status, 0)) {
            device_answered(conn, buf->data, wc->byte_len);
        } else if (__builtin_expect(IBV_WC_SUCCESS == wc->status, 1)) {
            arrived(conn, buf->data, wc->byte_len);
        } else if (IBV_WC_WR_FLUSH_ERR != wc->status) {
            fab_verbs_broke(conn->ep, OPAL_ERR_COMM_FAILURE,
                            "A message from it could not be received (%s: %s).", dom->name,
                            ibv_wc_status_str(wc->status));
        }
    }
}

void fab_verbs_on_matched(fab_verbs_conn_t *conn)
{
    if (__builtin_expect(FAB_SES_UP != conn->ep->ses.state, 0)) {
        fab_ses_first(&conn->ep->ses);
    }
    took(conn->ep);
    fab_verbs_credit_return(conn);
}

void fab_verbs_take_credits(fab_verbs_conn_t *conn, uint16_t taken)
{
    if (!fab_ses_on_credit16(&conn->ep->ses, taken)) {
        fab_peer_bad_message(conn->ep->peer, "it takes credit for more than was sent");
    }
}
