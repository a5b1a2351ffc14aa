/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the other side says while a connection is made: HELLO, REPLY, REFUSE, READY, and nothing any
 * more.  verbs_connect.c has the states.
 */
#include "verbs/verbs.h"

#include <string.h>

#include "fabric/fab_clock.h"
#include "verbs/verbs_cm.h"

enum { FAB_VERBS_DEFER_US = 3000000 }; /* longer than a connection lingers */

/* ---- frames ------------------------------------------------------------- */

/*
 * Is this a frame for this process, from one that got its address from the job, with values that a
 * QP can have?
 */
static bool frame_is_sound(const fab_verbs_domain_t *dom, const fab_verbs_frame_t *frame)
{
    bool has_qp = FAB_VERBS_HELLO == frame->kind || FAB_VERBS_REPLY == frame->kind ||
                  FAB_VERBS_RAIL == frame->kind;

    if (FAB_VERBS_MAGIC != frame->magic || FAB_VERBS_VERSION != frame->version ||
        frame->target != dom->fab->config.name || frame->name == dom->fab->config.name) {
        return false;
    }
    return !has_qp ||
           (frame->qpn > 0 && frame->qpn <= 0xffffff && frame->psn <= 0xffffff &&
            frame->window > 0 && frame->window <= FAB_VERBS_WINDOW_MAX &&
            frame->reads <= UINT8_MAX && frame->tm_qpn <= 0xffffff && frame->tm_psn <= 0xffffff);
}

/* The peer may have no record here, so the answer goes to the sender that the frame names. */
static void refuse(fab_sock_t *sock, const fab_verbs_frame_t *hello, fab_verbs_refusal_t reason)
{
    const fab_verbs_domain_t *dom = fab_sock_set_dom(sock->set);
    fab_verbs_frame_t frame = fab_verbs_frame(dom, FAB_VERBS_REFUSE, hello->name);

    frame.qpn = reason;
    fab_counters.refused++;
    fab_sock_send(sock, &frame);
    fab_sock_release(sock);
}

/* ---- HELLO -------------------------------------------------------------- */

static void cannot_answer(fab_verbs_ep_t *ep, fab_sock_t *sock, const fab_verbs_frame_t *hello,
                          const char *why)
{
    refuse(sock, hello, FAB_VERBS_REFUSED_RESOURCES);
    fab_verbs_ep_defer_failure(ep, OPAL_ERR_UNREACH, "%s", why);
}

static void answered(fab_verbs_ep_t *ep)
{
    fab_verbs_frame_t reply = fab_verbs_frame_of(ep, FAB_VERBS_REPLY);

    fab_verbs_set_state(ep, FAB_VERBS_ANSWERED);
    fab_sock_send(ep->sock, &reply);
}

/* Nothing was sent on its connection. */
static void forget_conn(fab_verbs_ep_t *ep)
{
    if (fab_verbs_conn_is_asking(ep->conn)) {
        fab_verbs_conn_linger(ep->conn);
    } else {
        fab_verbs_conn_destroy(ep->conn, OPAL_ERR_UNREACH);
    }
}

/* Answer the HELLO that came through sock, with the existing QP or a new one. */
static void answer(fab_verbs_ep_t *ep, fab_sock_t *sock, const fab_verbs_frame_t *hello)
{
    const char *why = NULL;

    fab_verbs_connect_cancel(ep);
    if (NULL != ep->conn && ep->conn->is_cm_begun) {
        forget_conn(ep);
    }
    if (NULL == ep->conn) {
        fab_verbs_make_room(ep->dom);
        ep->conn = fab_verbs_conn_open(ep, &why);
    }
    if (NULL != ep->conn) {
        why = fab_verbs_conn_connect(ep->conn, hello);
    }
    if (NULL != why) {
        cannot_answer(ep, sock, hello, why);
        return;
    }
    ep->sock = sock;
    sock->owner = ep;
    if (NULL != ep->conn->job) {
        fab_verbs_set_state(ep, FAB_VERBS_ANSWERING);
    } else {
        answered(ep);
    }
}

/* Set the HELLO aside: this process has sent its own, and has precedence by its name. */
static void park(fab_verbs_ep_t *ep, fab_sock_t *sock)
{
    if (NULL != ep->parked) {
        fab_sock_release(ep->parked);
    }
    ep->parked = sock;
    sock->owner = ep;
    fab_counters.crossed++;
}

/*
 * There is a connection already.  If the HELLO names its QP, both sides connected at once, and the
 * peer has answered meanwhile: ignore the HELLO.  If it names another QP, the peer connects again,
 * after it failed or left this process.
 */
static void hello_while_connected(fab_verbs_ep_t *ep, fab_sock_t *sock,
                                  const fab_verbs_frame_t *hello)
{
    if (hello->qpn == ep->conn->peer_qpn && hello->psn == ep->conn->peer_psn) {
        fab_counters.crossed++;
        fab_sock_release(sock);
        return;
    }
    if (ep->has_left || ep->conn->is_broken || 0 == ep->conn->sent) {
        fab_verbs_rails_end(ep);
        fab_verbs_conn_linger(ep->conn);
        ep->is_bound = false;
        ep->has_left = false;
        ep->dom->num_ending -= 0 != ep->end_by;
        ep->end_by = 0;
        answer(ep, sock, hello);
        return;
    }
    refuse(sock, hello, FAB_VERBS_REFUSED_PEER);
    fab_verbs_ep_defer_failure(ep, OPAL_ERR_COMM_FAILURE,
                               "It gave up the connection and requested another one.");
}

static void handle_hello(fab_verbs_ep_t *ep, fab_sock_t *sock, const fab_verbs_frame_t *hello)
{
    switch (ep->state) {
    case FAB_VERBS_IDLE:
    case FAB_VERBS_WAITING:
        answer(ep, sock, hello);
        break;
    case FAB_VERBS_ASKING:
        if (hello->name < ep->dom->fab->config.name || !ep->sock->has_sent) {
            answer(ep, sock, hello);
        } else {
            park(ep, sock);
        }
        break;
    default:
        hello_while_connected(ep, sock, hello);
        break;
    }
}

/*
 * The connection that the peer has ended is still there: what it sent before is not delivered yet,
 * its answer to CLOSE or EVICT last.  False: it does not come.
 */
static bool is_ending(fab_verbs_ep_t *ep, fab_sock_t *sock)
{
    uint64_t now = fab_now_us();
    bool is_closing = ep->is_closing && FAB_VERBS_UP == ep->state;
    bool has_asked = FAB_VERBS_EVICTING == ep->state || is_closing;

    if (!has_asked || ep->has_left) {
        return false;
    }
    sock->deadline = 0 != sock->deadline ? sock->deadline : now + FAB_VERBS_DEFER_US;
    if (now > sock->deadline && ep->is_closing) {
        fab_verbs_ep_finish(ep);
        return true;
    }
    return now <= sock->deadline;
}

/*
 * The endpoint of the process that sent HELLO.  NULL: refuse it, or, with *is_later, look at the
 * HELLO again later.
 */
static fab_verbs_ep_t *asker(fab_sock_t *sock, const fab_verbs_frame_t *hello, bool *is_later)
{
    fab_verbs_domain_t *dom = fab_sock_set_dom(sock->set);
    fab_peer_t *peer = fab_peer_from_wire(dom->fab, dom->provider, hello->name, &hello->addr,
                                          sizeof(hello->addr));
    fab_verbs_ep_t *ep;

    if (NULL == peer || FAB_PEER_FAILED == peer->state || NULL == peer->ep) {
        return NULL;
    }
    if (dom->provider != fab_peer_provider(peer)) {
        *is_later = fab_peer_is_moving(peer); /* maybe to verbs */
        return NULL;
    }
    ep = peer->ep;
    if (0 != memcmp(&ep->addr, &hello->addr, sizeof(ep->addr))) {
        return NULL;
    }
    *is_later = is_ending(ep, sock);
    if (*is_later) {
        return NULL;
    }
    /* it will be tried by another port, or not */
    *is_later = NULL != ep->failure && !ep->is_bound;
    return NULL != ep->failure || fab_peer_is_moving(peer) ? NULL : ep;
}

static void on_rail(fab_verbs_ep_t *ep, fab_sock_t *sock, const fab_verbs_frame_t *hello)
{
    fab_verbs_ep_t *rail = fab_verbs_rail_asked(ep, hello->pair);

    if (NULL == rail) {
        refuse(sock, hello, FAB_VERBS_REFUSED_PORT);
    } else {
        handle_hello(rail, sock, hello);
    }
}

static void on_hello(fab_sock_t *sock, const fab_verbs_frame_t *hello)
{
    bool is_later = false;
    fab_verbs_ep_t *ep;

    if (!fab_sock_is_open(sock)) {
        /*
         * the peer has closed this socket: this process's own HELLO crossed it and was answered;
         * that connection may even be closed again
         */
        fab_counters.crossed++;
        fab_sock_release(sock);
        return;
    }
    ep = asker(sock, hello, &is_later);
    if (is_later) {
        fab_sock_defer(sock);
        return;
    }
    if (NULL == ep) {
        refuse(sock, hello, FAB_VERBS_REFUSED_PEER);
        return;
    }
    if (FAB_VERBS_RAIL == hello->kind) {
        on_rail(ep, sock, hello);
    } else if (hello->pair == ep->pair) {
        handle_hello(ep, sock, hello);
    } else if (fab_verbs_move_to(ep, hello->pair)) {
        fab_sock_defer(sock); /* the peer may be closed now: looked up again */
    } else {
        refuse(sock, hello, FAB_VERBS_REFUSED_PORT);
    }
}

/* ---- answers ------------------------------------------------------------ */

void fab_verbs_connected(fab_verbs_ep_t *ep)
{
    fab_verbs_frame_t ready = fab_verbs_frame_of(ep, FAB_VERBS_READY);

    if (ep->dom->cm_ops->is_iwarp) {
        /* the peer's QP may send when something came */
        fab_verbs_conn_send_control(ep->conn, FAB_VERBS_ID_CREDIT);
    }
    fab_sock_send(ep->sock, &ready);
    fab_verbs_connect_done(ep);
}

/* NULL: it is not known yet; "": a packet has passed. */
static const char *probe_result(const fab_verbs_ep_t *ep)
{
    const fab_verbs_conn_t *conn = ep->conn;

    if (NULL != ep->failure ||
        (!conn->is_broken && (conn->head != conn->tail || 0 != conn->to_send))) {
        return NULL;
    }
    return conn->is_broken
               ? fab_sentence(ep->dom->fab, "No packet passes between %s here and its port (%s).",
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
            fab_verbs_connected(ep);
        } else if (NULL != why) {
            fab_counters.verbs_no_path++;
            fab_verbs_connect_failed(ep, why);
        }
    }
}

static void cannot_connect(fab_verbs_ep_t *ep, const char *why)
{
    fab_verbs_connect_cancel(ep);
    fab_verbs_ep_defer_failure(ep, OPAL_ERR_UNREACH, "%s", why);
}

static void on_reply(fab_verbs_ep_t *ep, const fab_verbs_frame_t *reply)
{
    const char *why = fab_verbs_conn_connect(ep->conn, reply);

    if (NULL != why) {
        cannot_connect(ep, why);
    } else if (NULL != ep->conn->job) {
        fab_verbs_connect_replied(ep);
    } else {
        ep->dom->cm_ops->connect(ep);
    }
}

void fab_verbs_connect_resolved(const fab_verbs_job_t *job)
{
    fab_verbs_ep_t *ep = job->conn->ep;
    bool is_awaited = NULL != ep && NULL == ep->failure &&
                      (FAB_VERBS_REPLIED == ep->state || FAB_VERBS_ANSWERING == ep->state);
    const char *why = is_awaited ? fab_verbs_conn_connected(job->conn, job->error) : NULL;

    if (!is_awaited) {
        return;
    }
    if (FAB_VERBS_REPLIED == ep->state && NULL == why) {
        ep->dom->cm_ops->connect(ep);
    } else if (FAB_VERBS_REPLIED == ep->state) {
        cannot_connect(ep, why);
    } else if (NULL == why) {
        answered(ep);
    } else {
        fab_sock_t *sock = ep->sock;
        ep->sock = NULL;
        fab_verbs_connect_cancel(ep);
        cannot_answer(ep, sock, &job->frame, why);
    }
}

static void on_refuse(fab_verbs_ep_t *ep, uint32_t reason)
{
    fab_verbs_connect_cancel(ep);
    fab_verbs_ep_defer_failure(
        ep, OPAL_ERR_UNREACH, "It refused the connection: %s.",
        FAB_VERBS_REFUSED_RESOURCES == reason ? "it could not make a queue pair"
        : FAB_VERBS_REFUSED_PORT == reason
            ? "it does not use these ports for it"
            : "this process has failed for it, or it reaches this process in another way");
    if (FAB_VERBS_REFUSED_PEER == reason) {
        fab_verbs_ep_refused_for_good(ep);
    }
}

void fab_verbs_on_frame(fab_sock_t *sock, const void *bytes)
{
    const fab_verbs_domain_t *dom = fab_sock_set_dom(sock->set);
    const fab_verbs_frame_t *frame = bytes;
    fab_verbs_ep_t *ep = sock->owner;
    bool is_sound = frame_is_sound(dom, frame);
    bool is_from_peer = NULL != ep && is_sound && frame->name == ep->peer->name &&
                        ep->sock == sock && 0 == memcmp(&frame->addr, &ep->addr, sizeof(ep->addr));

    if (is_sound && NULL == ep &&
        (FAB_VERBS_HELLO == frame->kind || FAB_VERBS_RAIL == frame->kind)) {
        on_hello(sock, frame);
    } else if (is_from_peer && FAB_VERBS_ASKING == ep->state && FAB_VERBS_REPLY == frame->kind &&
               !ep->conn->is_cm_begun) {
        on_reply(ep, frame);
    } else if (is_from_peer && FAB_VERBS_ASKING == ep->state && FAB_VERBS_REFUSE == frame->kind) {
        on_refuse(ep, frame->qpn);
    } else if (is_from_peer && FAB_VERBS_ANSWERED == ep->state && FAB_VERBS_READY == frame->kind) {
        ep->dom->cm_ops->ready(ep);
    } else {
        fab_counters.verbs_bad_frames++;
        fab_sock_reject(sock);
    }
}

/* ---- a socket broke ----------------------------------------------------- */

void fab_verbs_connect_failed(fab_verbs_ep_t *ep, const char *why)
{
    fab_sock_t *parked = ep->parked;

    if (NULL != parked) {
        ep->parked = NULL;
        answer(ep, parked, (const fab_verbs_frame_t *) parked->frame);
        return;
    }
    fab_verbs_connect_cancel(ep);
    if (ep->is_closing) { /* nobody waits for it */
        fab_verbs_ep_finish(ep);
    } else {
        fab_verbs_ep_defer_failure(ep, OPAL_ERR_UNREACH, "%s", why);
    }
}

void fab_verbs_on_broken(fab_sock_t *sock, const char *why)
{
    fab_verbs_ep_t *ep = sock->owner;

    fab_sock_release(sock);
    if (NULL == ep) {
        return;
    }
    if (ep->parked == sock) {
        ep->parked = NULL;
        return;
    }
    ep->sock = NULL;
    if (FAB_VERBS_ASKING == ep->state || FAB_VERBS_REPLIED == ep->state ||
        FAB_VERBS_PROBING == ep->state) {
        fab_verbs_connect_failed(ep, why);
        return;
    }
    /*
     * The peer sent HELLO and left before READY: nothing was sent. A later send to it connects
     * again, and fails then.
     */
    forget_conn(ep);
    fab_verbs_connect_cancel(ep);
    if (ep->is_closing) {
        fab_verbs_ep_finish(ep);
    }
}
