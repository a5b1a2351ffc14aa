/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What has died: events of the device, and the processes of this host.
 *
 * The death of a peer on another host is noticed when something is sent to it: the device gets no
 * answer (verbs_conn.c). On this host every connected peer is looked up in /proc within two
 * seconds, so that a death is noticed even if this process only waits for the peer.  While it waits
 * for the peer's BYE it sends no messages: then a READ of no bytes tells whether there is a path.
 */
#include "verbs/verbs.h"

#include <string.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_host.h"

enum {
    /* ticks in which every connected peer of this host is looked at once: 2 s */
    FAB_VERBS_TICKS_PER_ROUND = 8,
    FAB_VERBS_PORT_GRACE_US = 10000000, /* time for a port to come back */
    FAB_VERBS_QUIET = 8, /* ticks without a message, after which a window is given back: 2 s */
};

/* ---- events of the device ----------------------------------------------- */

static void qp_event(fab_verbs_domain_t *dom, const struct ibv_async_event *event)
{
    fab_verbs_conn_t *conn = fab_verbs_conn_by_qpn(dom, event->element.qp->qp_num);

    if (NULL != conn && NULL != conn->ep) {
        fab_verbs_broke(conn->ep, OPAL_ERR_COMM_FAILURE, "The connection to it broke (%s: %s).",
                        dom->name, ibv_event_type_str(event->event_type));
    }
}

static void qp_ended(fab_verbs_domain_t *dom, const struct ibv_async_event *event)
{
    fab_verbs_conn_t *conn = fab_verbs_conn_by_qpn(dom, event->element.qp->qp_num);

    if (NULL != conn) {
        conn->num_ended++;
        conn->drained_at = dom->empty_polls;
    }
}

static void handle_event(fab_verbs_domain_t *dom, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        qp_event(dom, event);
        break;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        qp_ended(dom, event);
        break;
    case IBV_EVENT_PORT_ERR:
        if (event->element.port_num == dom->port_num) {
            dom->port_down_since = fab_now_us();
            fab_log(dom->fab, 1, "%s has gone down", dom->name);
        }
        break;
    case IBV_EVENT_PORT_ACTIVE:
        if (event->element.port_num == dom->port_num) {
            dom->port_down_since = 0;
        }
        break;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
        /* what was in it is lost without a completion, and new connections would use it too */
        fab_verbs_give_up(dom, "lost a queue", ibv_event_type_str(event->event_type));
        break;
    case IBV_EVENT_DEVICE_FATAL:
        fab_verbs_give_up(dom, "failed", ibv_event_type_str(event->event_type));
        break;
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER: /* another subnet manager */
    case IBV_EVENT_SM_CHANGE:
        /* the probe of a connection finds out whether peers, who know the old address, reach it */
        if (event->element.port_num == dom->port_num) {
            fab_log(dom->fab, 1, "%s reports: %s", dom->name,
                    ibv_event_type_str(event->event_type));
        }
        break;
    default: /* of no importance */
        break;
    }
}

void fab_verbs_async(fab_verbs_domain_t *dom)
{
    struct ibv_async_event event;

    while (0 == ibv_get_async_event(dom->ctx, &event)) {
        fab_counters.verbs_async_events++;
        handle_event(dom, &event);
        ibv_ack_async_event(&event);
    }
}

/* ---- processes of this host --------------------------------------------- */

static void check_alive(fab_verbs_conn_t *conn)
{
    fab_verbs_ep_t *ep = conn->ep;

    if (NULL == ep || NULL != ep->main || !ep->is_local || NULL != ep->failure ||
        !fab_proc_is_gone(ep->addr.pid, ep->addr.start_time)) {
        return;
    }
    fab_counters.peers_died++;
    fab_verbs_broke(ep, OPAL_ERR_PROC_ABORTED,
                    "Its process (pid %u on this host) has ended without leaving the job.",
                    ep->addr.pid);
}

static void check_path(fab_verbs_conn_t *conn)
{
    struct ibv_sge nothing = {0};
    struct ibv_send_wr wr = {.sg_list = &nothing, .opcode = IBV_WR_RDMA_READ};

    if (NULL != conn->ep && FAB_SES_CLOSING == conn->ep->ses.state && conn->head == conn->tail &&
        conn->reads > 0) {
        wr.send_flags = IBV_SEND_SIGNALED;
        (void) fab_verbs_conn_post(conn, &wr, NULL, NULL);
    }
}

/* Windows grow and shrink with use (verbs_srq.c). */
static void follow_use(fab_verbs_conn_t *conn)
{
    fab_ses_t *ses = &conn->ep->ses;

    fab_verbs_srq_follow(conn);
    if (ses->sent != conn->seen_sent || !fab_ses_may_send(ses)) {
        conn->num_quiet = 0;
    } else if (conn->num_quiet < FAB_VERBS_QUIET) {
        conn->num_quiet++;
    } else if (conn->more > 0) {
        fab_ses_resize(ses, ses->peer_window - conn->more);
        conn->to_return = (uint16_t) (conn->to_return + conn->more);
        conn->more = 0;
    }
    conn->seen_consumed = ses->consumed;
    conn->seen_sent = ses->sent;
    if (0 != conn->to_grant || 0 != conn->to_return) {
        fab_verbs_conn_schedule_credits(conn);
    }
}

/* How long a last word that does not come is waited for: few sessions, if any. */
static void tick_sessions(fab_verbs_domain_t *dom)
{
    fab_verbs_conn_t *conn, *next;

    for (conn = TAILQ_FIRST(&dom->conns); NULL != conn; conn = next) {
        next = TAILQ_NEXT(conn, link);
        if (NULL != conn->ep && fab_verbs_is_up(conn->ep)) {
            follow_use(conn);
        }
        if (NULL != conn->ep && 0 == conn->ep->late_bye) {
            fab_ses_tick(&conn->ep->ses);
        }
    }
}

/* The port may be up again: the event that says so may have been lost. */
static void check_port(fab_verbs_domain_t *dom)
{
    struct ibv_port_attr port;

    memset(&port, 0, sizeof(port));
    if (0 != ibv_query_port(dom->ctx, dom->port_num, &port) || IBV_PORT_ACTIVE != port.state) {
        fab_verbs_fail_all(dom, "is down");
    }
}

void fab_verbs_tick(fab_verbs_domain_t *dom, uint64_t now)
{
    uint32_t n = (dom->num_conns + FAB_VERBS_TICKS_PER_ROUND - 1) / FAB_VERBS_TICKS_PER_ROUND;

    for (; n > 0; n--) {
        fab_verbs_conn_t *conn = TAILQ_FIRST(&dom->conns);
        TAILQ_REMOVE(&dom->conns, conn, link);
        TAILQ_INSERT_TAIL(&dom->conns, conn, link);
        check_alive(conn);
        check_path(conn);
    }
    tick_sessions(dom);
    if (0 != dom->port_down_since && now > dom->port_down_since + FAB_VERBS_PORT_GRACE_US) {
        dom->port_down_since = 0;
        check_port(dom);
    }
}
