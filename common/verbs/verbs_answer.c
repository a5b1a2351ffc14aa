/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions over verbs: what the state machine of session.h has this provider do, and what sockets
 * and queue pairs tell it while the path is made.  verbs_connect.c has the steps.
 */
#include "verbs/verbs.h"

#include <stdlib.h>
#include <string.h>

#include "verbs/verbs_cm.h"

/* ---- what the session needs ----------------------------------------------- */

static const char *ses_ask(fab_ses_t *ses)
{
    fab_verbs_ep_t *ep = fab_verbs_ep_of(ses);

    TAILQ_INSERT_TAIL(&ep->dom->waiting, ep, waiting_link);
    fab_verbs_set_path(ep, FAB_VERBS_WAITING);
    fab_verbs_connect_waiting(ep->dom);
    return NULL; /* what fails is told later */
}

/* The queue pairs of HELLO stay, for an answer. */
static void ses_cancel(fab_ses_t *ses)
{
    fab_verbs_connect_cancel(fab_verbs_ep_of(ses));
}

/* HELLO and WELCOME are in frames. */
static const fab_verbs_frame_t *frame_at(const fab_ses_msg_t *msg)
{
    return (const fab_verbs_frame_t *) (const void *) msg;
}

static const char *ses_answer(fab_ses_t *ses, void *via, const fab_ses_msg_t *welcome)
{
    fab_verbs_ep_t *ep = fab_verbs_ep_of(ses);
    const char *why = fab_verbs_conn_prepare(ep);

    (void) welcome; /* the session keeps what is in it */
    why = NULL == why ? fab_verbs_conn_connect(ep->conn, frame_at(fab_sock_via_hello(via))) : why;
    if (NULL != why) {
        return why;
    }
    ep->sock = via;
    ep->sock->owner = ep;
    fab_verbs_set_path(ep, FAB_VERBS_OPENING);
    if (NULL == ep->conn->job) {
        fab_verbs_welcome(ep);
    }
    return NULL;
}

static void ses_refuse(fab_ses_domain_t *ses_dom, void *via, const fab_ses_msg_t *msg)
{
    fab_sock_t *sock = via;
    const fab_verbs_domain_t *dom = fab_sock_set_dom(sock->set);
    const fab_verbs_frame_t frame = {.msg = *msg, .addr = dom->addr};

    (void) ses_dom;
    fab_counters.refused++;
    fab_sock_send(sock, &frame);
    fab_sock_release(sock);
}

/* WELCOME came: the path is made, or proved. */
static void make_path(fab_verbs_ep_t *ep)
{
    if (fab_verbs_is_iwarp(ep->dom)) {
        ep->dom->cm_ops->connect(ep);
    } else {
        TAILQ_INSERT_TAIL(&ep->dom->probing, ep, waiting_link);
        fab_verbs_set_path(ep, FAB_VERBS_PROBING);
        fab_verbs_conn_send_control(ep->conn, FAB_VERBS_WORD_TRY);
    }
}

static const char *ses_accept(fab_ses_t *ses, const fab_ses_msg_t *welcome)
{
    fab_verbs_ep_t *ep = fab_verbs_ep_of(ses);
    const char *why = fab_verbs_conn_connect(ep->conn, frame_at(welcome));

    if (NULL != why) {
        return why;
    }
    fab_verbs_set_path(ep, FAB_VERBS_OPENING);
    if (NULL == ep->conn->job) {
        make_path(ep);
    }
    return NULL;
}

static void ses_up(fab_ses_t *ses, bool has_asked)
{
    fab_verbs_ep_t *ep = fab_verbs_ep_of(ses);

    if (has_asked && FAB_VERBS_OPEN != ep->path) { /* not where the peer's STAY came */
        fab_verbs_stop_waiting(ep);
        fab_verbs_set_path(ep, FAB_VERBS_OPEN);
        fab_verbs_conn_send_control(ep->conn, FAB_VERBS_WORD_CREDIT);
    } else if (!has_asked) {
        fab_verbs_release_sock(ep);
    }
    fab_verbs_conn_schedule_credits(ep->conn); /* none went while this side wanted to pause */
}

static void ses_bye(fab_ses_t *ses, fab_ses_bye_t bye)
{
    fab_verbs_ep_t *ep = fab_verbs_ep_of(ses);

    if (FAB_SES_BYE_STAY != bye) {
        fab_verbs_rails_end(ep);
    }
    if (NULL != ep->conn && !ep->conn->is_broken) {
        fab_verbs_conn_send_control(ep->conn, (fab_verbs_word_t) bye);
    }
}

static void ses_credit(fab_ses_t *ses)
{
    fab_verbs_conn_schedule_credits(fab_verbs_ep_of(ses)->conn);
}

/* After a last word the peer waits for all that was sent; if it is refused, not for long. */
static void ses_close(fab_ses_t *ses, bool lingers)
{
    fab_verbs_ep_t *ep = fab_verbs_ep_of(ses);
    fab_verbs_conn_t *conn = ep->conn;
    const bool is_awaited = lingers && FAB_SES_BYE_NONE != ses->bye &&
                            FAB_SES_BYE_REFUSE != ses->bye;

    fab_verbs_connect_cancel(ep);
    fab_verbs_rails_end(ep);
    fab_verbs_forget_late_bye(ep);
    if (NULL != conn && NULL == conn->job && is_awaited) {
        fab_verbs_conn_linger(conn);
        conn->linger_until = UINT64_MAX;
    } else {
        fab_verbs_conn_release(ep);
    }
}

static void ses_gone(fab_ses_t *ses)
{
    fab_verbs_ep_finish(fab_verbs_ep_of(ses));
}

static bool ses_is_idle(const fab_ses_t *ses)
{
    const fab_verbs_ep_t *ep = ses->peer->ep; /* a rail is never asked */

    return NULL != ep->conn && fab_verbs_is_idle(ep->conn);
}

static bool ses_is_drained(const fab_ses_t *ses)
{
    (void) ses; /* fab_verbs_broke() tells the session when it is */
    return true;
}

const fab_ses_ops_t fab_verbs_ses_ops = {
    .shape = FAB_SES_VIA,
    .ask = ses_ask,
    .cancel = ses_cancel,
    .answer = ses_answer,
    .accept = ses_accept,
    .refuse = ses_refuse,
    .hello = fab_sock_via_hello,
    .is_open = fab_sock_via_is_open,
    .free_via = fab_sock_via_free,
    .again = fab_sock_via_again,
    .up = ses_up,
    .bye = ses_bye,
    .credit = ses_credit,
    .close = ses_close,
    .gone = ses_gone,
    .cannot = fab_verbs_cannot,
    .is_idle = ses_is_idle,
    .is_drained = ses_is_drained,
};
/* ---- HELLO -------------------------------------------------------------- */

/* Has it values that a QP can have? */
static bool frame_is_sound(const fab_verbs_frame_t *frame)
{
    return fab_ses_msg_is_sound(&frame->msg) &&
           (FAB_SES_REFUSE == frame->msg.kind ||
            (frame->qpn > 0 && frame->qpn <= 0xffffff && frame->psn <= 0xffffff &&
             frame->msg.window <= FAB_VERBS_WINDOW_MAX && frame->tm_qpn <= 0xffffff &&
             frame->tm_psn <= 0xffffff && frame->pair < FAB_VERBS_PAIRS));
}

/*
 * The endpoint of the process that sent HELLO.  NULL: refuse it, or, with *is_later, look at the
 * HELLO again later.
 */
static fab_verbs_ep_t *asker(fab_verbs_domain_t *dom, const fab_sock_t *sock,
                             const fab_verbs_frame_t *hello, bool *is_later)
{
    fab_peer_t *peer = fab_peer_from_wire(dom->fab, dom->provider, sock->greeting.name,
                                          &hello->addr, sizeof(hello->addr), is_later);
    fab_verbs_ep_t *ep = NULL != peer ? peer->ep : NULL;

    if (NULL == ep || 0 != memcmp(&ep->addr, &hello->addr, fab_verbs_addr_len(&ep->addr))) {
        return NULL;
    }
    *is_later = NULL != ep->failure; /* its last word may be here, or another port's turn be next */
    return *is_later ? NULL : ep;
}

/* For shares of long data.  NULL: there is no such rail, or no more. */
static void on_rail_hello(fab_verbs_ep_t *ep, fab_sock_t *sock, const fab_verbs_frame_t *hello)
{
    fab_verbs_ep_t *rail = fab_verbs_rail_asked(ep, hello->pair);

    if (NULL == rail) {
        fab_ses_refuse(ep->ses.dom, sock, FAB_SES_REASON_WAY);
    } else {
        sock->owner = rail; /* if it is parked */
        fab_ses_on_hello(&rail->ses, sock);
    }
}

static void on_hello(fab_sock_t *sock, const fab_verbs_frame_t *hello)
{
    fab_verbs_domain_t *dom = fab_sock_set_dom(sock->set);
    bool is_later = false;
    fab_verbs_ep_t *ep;

    if (!fab_sock_via_is_open(sock)) {
        fab_sock_via_free(sock); /* it has an answer by now, or wants none any more */
        return;
    }
    ep = asker(dom, sock, hello, &is_later);
    if (is_later) {
        fab_sock_via_again(sock);
    } else if (NULL == ep) {
        fab_ses_refuse(&dom->ses, sock, FAB_SES_REASON_PEER);
    } else if (0 != hello->is_rail) {
        on_rail_hello(ep, sock, hello);
    } else if (hello->pair == ep->pair) {
        sock->owner = ep;
        fab_ses_on_hello(&ep->ses, sock);
    } else {
        fab_verbs_move_asked_by(ep, sock, hello);
    }
}

/* ---- answers ------------------------------------------------------------ */

void fab_verbs_on_frame(fab_sock_t *sock, const void *bytes)
{
    fab_verbs_ep_t *ep = sock->owner;
    const fab_verbs_frame_t frame = *(const fab_verbs_frame_t *) bytes;
    const bool is_sound = frame_is_sound(&frame);
    const bool is_from_peer = is_sound && NULL != ep && ep->sock == sock &&
                              0 == memcmp(&frame.addr, &ep->addr, fab_verbs_addr_len(&ep->addr));

    if (is_sound && NULL == ep && !sock->is_asking && FAB_SES_HELLO == frame.msg.kind) {
        on_hello(sock, &frame);
    } else if (is_from_peer && FAB_VERBS_ASKING == ep->path && FAB_SES_HELLO != frame.msg.kind &&
               frame.msg.serial == ep->ses.serial) {
        ep->is_refused = FAB_SES_REFUSE == frame.msg.kind &&
                         FAB_SES_REASON_PEER == frame.msg.reason;
        fab_ses_on_answer(&ep->ses, &frame.msg);
    } else {
        fab_counters.verbs_bad_frames++;
        fab_sock_broken(sock);
    }
}

void fab_verbs_on_broken(fab_sock_t *sock, const char *why)
{
    fab_verbs_ep_t *ep = sock->owner;

    if (NULL != ep && ep->ses.parked == sock) {
        fab_ses_parked_broke(&ep->ses); /* releases it */
        return;
    }
    fab_sock_release(sock);
    if (NULL == ep || ep->sock != sock) {
        return;
    }
    ep->sock = NULL;
    if (FAB_SES_ASKED == ep->ses.state) {
        /* the first word may be here, and not be polled yet */
        fab_verbs_via_lost(ep);
    } else {
        fab_ses_via_broke(&ep->ses, why); /* up: nothing, the asked side is up, too */
    }
}

/* ---- the path ----------------------------------------------------------- */

/* The asked side cannot connect its queue pairs. */
static void cannot_welcome(fab_verbs_ep_t *ep, const char *why)
{
    fab_sock_t *sock = ep->sock;

    fab_log(ep->dom->fab, 1, "process 0x%llx cannot be answered: %s",
            (unsigned long long) ep->peer->name, why);
    ep->sock = NULL;
    if (NULL != sock) {
        fab_ses_refuse(ep->ses.dom, sock, FAB_SES_REASON_RESOURCES);
    }
    fab_ses_via_broke(&ep->ses, why);
}

/* The QPs were made ready to receive in a thread, or cannot be. */
static void resolved(const fab_verbs_job_t *job)
{
    fab_verbs_ep_t *ep = job->conn->ep;
    const char *why;

    if (NULL == ep || NULL != ep->failure || FAB_VERBS_OPENING != ep->path) {
        return;
    }
    why = fab_verbs_conn_connected(job->conn, job->error);
    if (FAB_SES_TRYING == ep->ses.state && NULL == why) {
        make_path(ep);
    } else if (FAB_SES_TRYING == ep->ses.state) {
        fab_ses_path_broke(&ep->ses, OPAL_ERR_UNREACH, why);
    } else if (NULL == why) {
        fab_verbs_welcome(ep);
    } else {
        cannot_welcome(ep, why);
    }
}

void fab_verbs_connect_resolved(fab_verbs_domain_t *dom)
{
    fab_verbs_job_t *job;

    while (NULL != (job = fab_verbs_resolve_poll(dom))) {
        if (fab_verbs_is_iwarp(dom)) {
            dom->cm_ops->asked(job);
        } else {
            resolved(job);
        }
        free(job);
    }
}

/* NULL: it is not known yet; "": packets have passed. */
static const char *probe_result(const fab_verbs_ep_t *ep)
{
    const fab_verbs_conn_t *conn = ep->conn;

    if (NULL != ep->failure ||
        (!conn->is_broken && (conn->head != conn->tail || 0 != conn->to_send))) {
        return NULL;
    }
    return conn->is_broken
               ? fab_sentence(ep->dom->fab,
                              "No packet passes between %s here and its port (%s), or no long one.",
                              ep->dom->name,
                              ibv_wc_status_str((enum ibv_wc_status) conn->broken_by))
               : "";
}

void fab_verbs_connect_probed(fab_verbs_domain_t *dom)
{
    fab_verbs_ep_t *next;

    for (fab_verbs_ep_t *ep = TAILQ_FIRST(&dom->probing); NULL != ep; ep = next) {
        const char *why = probe_result(ep);
        next = TAILQ_NEXT(ep, waiting_link);
        if (NULL != why && '\0' == *why) {
            fab_ses_path_works(&ep->ses);
        } else if (NULL != why) {
            fab_counters.verbs_no_path++;
            fab_ses_path_broke(&ep->ses, OPAL_ERR_UNREACH, why);
        }
    }
}
