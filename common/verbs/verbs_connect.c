/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection set-up: active side (ASKING), passive side (ANSWERED), and both sides connecting at
 * once.  Here is what begins and ends an attempt; verbs_answer.c has what the other side says.
 *
 *      IDLE ──first send──> WAITING ──turn──> ASKING ──REPLY──> PROBING ──acknowledged──> UP
 *        └──────┬──────────────┴────────────────┘                                         ^
 *               └──HELLO of the peer──> ANSWERED ──READY, or a message but PROBE──────────┘
 *
 * If both connect at once, the process with the smaller name stays active and sets the other's
 * HELLO aside.  The other process, when it gets this HELLO, becomes passive: it answers with the QP
 * that it has already made and drops its own request.  If the active process's request fails (it
 * cannot reach the peer over TCP, but the peer can reach it), it answers the HELLO that it has set
 * aside.
 *
 * The queue pairs of two ports that do not reach each other become ready like others: the subnets
 * of two switches have the same prefix, a VLAN ends somewhere.  So a connection is up when a packet
 * has passed and was acknowledged.  If none does, nothing of a user was sent, and the peer moves to
 * its next provider (fab_move.c).  How long that takes the device decides (verbs_timeout).
 *
 * RoCE: between REPLY and PROBING (REPLIED), and between HELLO and ANSWERED (ANSWERING), the kernel
 * looks for the other port, in a thread of its own (verbs_resolve.c).
 *
 * iWARP: between REPLY and UP verbs_cm_rdma.c connects the queue pairs, and from ANSWERED only the
 * first message leads to UP.
 *
 * No time limit applies while a peer's program may be computing: TCP reports a peer that is gone.
 */
#include "verbs/verbs.h"

#include <string.h>

/* ---- frames ------------------------------------------------------------- */

fab_verbs_frame_t fab_verbs_frame(const fab_verbs_domain_t *dom, fab_verbs_kind_t kind,
                                  uint64_t target)
{
    return (fab_verbs_frame_t){
        .magic = FAB_VERBS_MAGIC,
        .version = FAB_VERBS_VERSION,
        .kind = (uint16_t) kind,
        .name = dom->fab->config.name,
        .target = target,
        .addr = dom->first->addr,
    };
}

fab_verbs_frame_t fab_verbs_frame_of(const fab_verbs_ep_t *ep, fab_verbs_kind_t kind)
{
    const fab_verbs_conn_t *conn = ep->conn;
    fab_verbs_frame_t frame = fab_verbs_frame(ep->dom, kind, ep->peer->name);

    frame.qpn = conn->qp->qp_num;
    frame.psn = conn->psn;
    frame.tm_qpn = NULL != conn->tm_qp ? conn->tm_qp->qp_num : 0;
    frame.tm_psn = conn->tm_psn;
    frame.window = conn->granted;
    frame.reads = fab_verbs_reads_served(ep->dom);
    frame.pair = ep->pair;
    return frame;
}

/* ---- asking ------------------------------------------------------------- */

static void verbs_wait(fab_verbs_ep_t *ep)
{
    TAILQ_INSERT_TAIL(&ep->dom->waiting, ep, waiting_link);
    fab_verbs_set_state(ep, FAB_VERBS_WAITING);
}

static void stop_waiting(fab_verbs_ep_t *ep)
{
    TAILQ_REMOVE(&ep->dom->waiting, ep, waiting_link);
    fab_verbs_set_state(ep, FAB_VERBS_IDLE);
}

/*
 * The same host is reached through its loopback device first: no other address is more certain to
 * work.
 */
static fab_sock_t *oob_connect(fab_verbs_ep_t *ep, const fab_verbs_frame_t *frame)
{
    const fab_verbs_addr_t *own = &ep->dom->first->addr;
    fab_sock_ip_t ips[FAB_VERBS_IPS + 1] = {
        {.ip = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, .port = ep->addr.ips[0].port}};
    int num = ep->addr.num_ips, first = ep->is_local ? 1 : 0;
    bool is_one_net = fab_sock_is_one_net(own->ips, own->num_ips, ep->addr.ips, num);

    memcpy(ips + first, ep->addr.ips, sizeof(ep->addr.ips));
    num = fab_sock_sort_ips(own->ips, own->num_ips, ep->is_local || is_one_net, ips + first, num);
    return fab_sock_connect(ep->dom->socks, ep, ep->peer->name, ep->addr.key, ips, first + num,
                            frame);
}

/* False: no socket now. */
static bool ask(fab_verbs_ep_t *ep)
{
    const char *why = "";
    fab_verbs_frame_t hello;

    if (NULL == ep->conn) {
        fab_verbs_make_room(ep->dom);
        ep->conn = fab_verbs_conn_open(ep, &why);
    }
    if (NULL == ep->conn) {
        fab_verbs_set_state(ep, FAB_VERBS_IDLE);
        fab_verbs_ep_defer_failure(ep, OPAL_ERR_UNREACH, "%s", why);
        return true;
    }
    hello = fab_verbs_frame_of(ep, NULL == ep->main ? FAB_VERBS_HELLO : FAB_VERBS_RAIL);
    ep->sock = oob_connect(ep, &hello);
    if (NULL == ep->sock) {
        return false;
    }
    fab_verbs_set_state(ep, FAB_VERBS_ASKING);
    return true;
}

void fab_verbs_connect_waiting(fab_verbs_domain_t *dom)
{
    while (!TAILQ_EMPTY(&dom->waiting) && dom->num_asking < FAB_VERBS_MAX_ASKING) {
        fab_verbs_ep_t *ep = TAILQ_FIRST(&dom->waiting);
        stop_waiting(ep);
        if (!ask(ep)) {
            verbs_wait(ep);
            return;
        }
    }
}

void fab_verbs_connect(fab_verbs_ep_t *ep)
{
    if (FAB_VERBS_IDLE == ep->state && NULL == ep->failure && !ep->has_left) {
        verbs_wait(ep);
        fab_verbs_connect_waiting(ep->dom);
    }
}

static void forget_parked(fab_verbs_ep_t *ep)
{
    if (NULL != ep->parked) {
        fab_sock_release(ep->parked);
        ep->parked = NULL;
    }
}

void fab_verbs_connect_cancel(fab_verbs_ep_t *ep)
{
    if (FAB_VERBS_WAITING == ep->state) {
        stop_waiting(ep);
    }
    if (FAB_VERBS_PROBING == ep->state) {
        TAILQ_REMOVE(&ep->dom->probing, ep, waiting_link);
    }
    if (NULL != ep->sock) {
        fab_sock_release(ep->sock);
        ep->sock = NULL;
    }
    forget_parked(ep);
    fab_verbs_set_state(ep, FAB_VERBS_IDLE);
}

/* What was set aside named the QP that has answered. */
void fab_verbs_connect_replied(fab_verbs_ep_t *ep)
{
    forget_parked(ep);
    fab_verbs_set_state(ep, FAB_VERBS_REPLIED);
}

void fab_verbs_connect_probe(fab_verbs_ep_t *ep)
{
    forget_parked(ep);
    TAILQ_INSERT_TAIL(&ep->dom->probing, ep, waiting_link);
    fab_verbs_set_state(ep, FAB_VERBS_PROBING);
    fab_verbs_conn_send_control(ep->conn, FAB_VERBS_ID_PROBE);
}

void fab_verbs_connect_done(fab_verbs_ep_t *ep)
{
    fab_verbs_connect_cancel(ep);
    fab_verbs_set_state(ep, FAB_VERBS_UP);
    ep->is_bound = true;
    ep->conn->is_ready = true;
    if (ep->is_closing) {
        fab_verbs_conn_send_control(ep->conn, FAB_VERBS_ID_CLOSE);
    }
}
