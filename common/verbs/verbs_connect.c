/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The making of a session's path: the steps.  verbs_answer.c has what leads from one to the next.
 *
 * HELLO comes over TCP (FAB_SES_VIA), the session's path is a connection of queue pairs:
 *
 *      asking side   NO_PATH ──> WAITING ──turn──> ASKING ──WELCOME──> OPENING ──> PROBING ──> OPEN
 *      asked side    NO_PATH ──HELLO──> OPENING ──> OPEN, WELCOME is sent
 *
 * The queue pairs of two ports that do not reach each other become ready like others: the subnets
 * of two switches have the same prefix, a VLAN ends somewhere, a switch drops long packets.  So a
 * path works when packets as long as may be have passed both ways: a message and a READ, which the
 * peer's device answers while its program computes.  If they do not, nothing of a user was sent,
 * and the peer is reached in another way (verbs_move.c, fab_move.c).  How long that takes the
 * device decides (verbs_timeout).
 *
 * OPENING: with RoCE the kernel looks for the other port, in a thread of its own
 * (verbs_resolve.c); with iWARP verbs_cm_rdma.c connects the queue pairs, and the path works then.
 *
 * If both ask at once, the queue pair that this side has made for its HELLO answers the peer's.
 *
 * No time limit applies while a peer's program may be computing: TCP reports a peer that is gone.
 */
#include "verbs/verbs.h"

#include <string.h>

#include "verbs/verbs_cm.h"

/* ---- frames ------------------------------------------------------------- */

static fab_verbs_frame_t frame_of(const fab_verbs_ep_t *ep, const fab_ses_msg_t *msg)
{
    const fab_verbs_conn_t *conn = ep->conn;
    fab_verbs_frame_t frame = {.msg = *msg,
                               .qpn = conn->qp->qp_num,
                               .psn = conn->psn,
                               .tm_qpn = NULL != conn->tm_qp ? conn->tm_qp->qp_num : 0,
                               .tm_psn = conn->tm_psn,
                               .reads = fab_verbs_reads_served(ep->dom),
                               .pair = ep->pair,
                               .is_rail = NULL != ep->main,
                               .probe_rkey = ep->dom->page_mr->rkey,
                               .probe_addr = (uintptr_t) ep->dom->page,
                               .addr = ep->dom->first->addr};

    frame.msg.window = conn->granted;
    return frame;
}

/* ---- asking ------------------------------------------------------------- */

void fab_verbs_stop_waiting(fab_verbs_ep_t *ep)
{
    if (FAB_VERBS_WAITING == ep->path) {
        TAILQ_REMOVE(&ep->dom->waiting, ep, waiting_link);
    } else if (FAB_VERBS_PROBING == ep->path) {
        TAILQ_REMOVE(&ep->dom->probing, ep, waiting_link);
    }
    fab_verbs_set_path(ep, FAB_VERBS_NO_PATH);
}

static fab_sock_t *oob_connect(fab_verbs_ep_t *ep, const fab_verbs_frame_t *frame)
{
    const fab_verbs_addr_t *own = &ep->dom->first->addr;
    fab_sock_ip_t ips[FAB_VERBS_IPS];
    int num = ep->addr.num_ips;
    bool is_same_host = ep->is_local ||
                        fab_sock_is_one_net(own->ips, own->num_ips, ep->addr.ips, num);

    memcpy(ips, ep->addr.ips, (size_t) num * sizeof(ips[0]));
    num = fab_sock_sort_ips(own->ips, own->num_ips, is_same_host, ips, num);
    return fab_sock_connect(ep->dom->socks, ep, ep->peer->name, ep->addr.key, ips, num, frame);
}

/* The connection, from what there is already. NULL, or why not. */
const char *fab_verbs_conn_prepare(fab_verbs_ep_t *ep)
{
    const char *why = NULL;

    if (NULL != ep->conn && ep->conn->is_cm_begun) {
        fab_verbs_conn_release(ep);
    }
    if (NULL == ep->conn) {
        fab_verbs_make_room(ep->dom->first, 1);
        ep->conn = fab_verbs_conn_open(ep, &why);
    }
    return why;
}

void fab_verbs_connect_waiting(fab_verbs_domain_t *dom)
{
    const fab_ses_msg_t hello = {.kind = FAB_SES_HELLO}; /* on_proven: the rest */

    while (!TAILQ_EMPTY(&dom->waiting) && dom->num_asking < FAB_VERBS_MAX_ASKING) {
        fab_verbs_ep_t *ep = TAILQ_FIRST(&dom->waiting);
        const char *why = fab_verbs_conn_prepare(ep);
        if (NULL != why) {
            fab_verbs_stop_waiting(ep);
            fab_verbs_broke(ep, OPAL_ERR_UNREACH, "%s", why);
            continue;
        }
        const fab_verbs_frame_t frame = frame_of(ep, &hello);
        ep->sock = oob_connect(ep, &frame);
        if (NULL == ep->sock) {
            return; /* later */
        }
        fab_verbs_stop_waiting(ep);
        fab_verbs_set_path(ep, FAB_VERBS_ASKING);
    }
}

void fab_verbs_on_proven(fab_sock_t *sock, void *bytes)
{
    fab_verbs_frame_t *hello = bytes;
    fab_verbs_ep_t *ep = sock->owner;

    fab_ses_stamp(&ep->ses, &hello->msg);
    hello->msg.window = ep->conn->granted;
}

void fab_verbs_release_sock(fab_verbs_ep_t *ep)
{
    if (NULL != ep->sock) {
        fab_sock_release(ep->sock);
        ep->sock = NULL;
    }
}

void fab_verbs_connect_cancel(fab_verbs_ep_t *ep)
{
    fab_verbs_stop_waiting(ep);
    fab_verbs_release_sock(ep);
    fab_verbs_forget_failure(ep);
}

/* ---- answering ---------------------------------------------------------- */

void fab_verbs_welcome(fab_verbs_ep_t *ep)
{
    const fab_ses_msg_t msg = {
        .kind = FAB_SES_WELCOME, .serial = ep->ses.asked, .other = ep->ses.serial};
    const fab_verbs_frame_t welcome = frame_of(ep, &msg);

    fab_verbs_set_path(ep, FAB_VERBS_OPEN);
    fab_sock_send(ep->sock, &welcome);
}
