/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions over TCP: what the state machine of session.h has this provider do, and what the sockets
 * tell it.
 *
 * The connection by which HELLO came is the session's path (FAB_SES_FIFO): it is up when WELCOME is
 * sent, or comes.  Each side shuts its direction down behind BYE; the session is over when both
 * have ended.  Any other end is a failure of the peer, or of a connection that was not used.
 *
 * A HELLO for a link (tcp_link.c) is answered at once: only one side asks for a link, and only
 * while the connection is up.
 */
#include "tcp/tcp.h"

#include <stdio.h>
#include <string.h>

#include "fabric/fab_params.h"

static fab_tcp_ep_t *ep_of(fab_ses_t *ses)
{
    return ses->peer->ep;
}

/* ---- what a session needs --------------------------------------------------- */

static const char *ses_ask(fab_ses_t *ses)
{
    fab_tcp_ep_t *ep = ep_of(ses);
    fab_tcp_domain_t *dom = ep->dom;
    const fab_tcp_frame_t hello = {.msg = {.kind = FAB_SES_HELLO}, .addr = dom->addr};
    fab_sock_ip_t ips[FAB_SOCK_IPS];
    int num;

    memcpy(ips, ep->addr.ips, sizeof(ips));
    num = fab_sock_sort_ips(dom->addr.ips, dom->addr.num_ips, ep->is_local, ips, ep->addr.num_ips);
    ep->sock = fab_sock_connect(dom->socks, ep, ep->peer->name, ep->addr.key, ips, num, &hello);
    if (NULL == ep->sock) {
        return "There is not enough memory here for a connection to it.";
    }
    fab_tcp_expect(dom);
    return NULL;
}

static void ses_cancel(fab_ses_t *ses)
{
    fab_tcp_stream_cancel(ep_of(ses));
}

static const char *ses_answer(fab_ses_t *ses, void *via, const fab_ses_msg_t *msg)
{
    fab_tcp_ep_t *ep = ep_of(ses);
    const fab_tcp_frame_t welcome = {.msg = *msg, .addr = ep->dom->addr};

    fab_sock_send(via, &welcome);
    fab_tcp_stream_take(ep, via);
    return NULL;
}

static const char *ses_accept(fab_ses_t *ses, const fab_ses_msg_t *welcome)
{
    fab_tcp_ep_t *ep = ep_of(ses);
    fab_sock_t *sock = ep->sock;

    (void) welcome;
    ep->sock = NULL;
    fab_tcp_stream_take(ep, sock);
    return NULL;
}

static void ses_refuse(fab_ses_domain_t *ses_dom, void *via, const fab_ses_msg_t *msg)
{
    fab_sock_t *sock = via;
    const fab_tcp_domain_t *dom = fab_sock_set_dom(sock->set);
    const fab_tcp_frame_t frame = {.msg = *msg, .addr = dom->addr};

    (void) ses_dom;
    fab_counters.refused++;
    fab_sock_send(sock, &frame);
    fab_sock_release(sock);
}

static void ses_up(fab_ses_t *ses, bool has_asked)
{
    (void) ses, (void) has_asked;
}

static void ses_bye(fab_ses_t *ses, fab_ses_bye_t bye)
{
    fab_tcp_stream_bye(ep_of(ses), bye);
}

static void ses_credit(fab_ses_t *ses)
{
    fab_tcp_stream_give_credit(ep_of(ses));
}

static void ses_close(fab_ses_t *ses, bool lingers)
{
    fab_tcp_ep_t *ep = ep_of(ses);

    (void) lingers; /* what was sent is in the kernel, or the connection has failed */
    if (fab_tcp_is_up(ep)) {
        fab_tcp_ep_close(ep);
    }
}

static void ses_gone(fab_ses_t *ses)
{
    fab_tcp_ep_finish(ep_of(ses));
}

static bool ses_is_drained(const fab_ses_t *ses)
{
    return ((const fab_tcp_ep_t *) ses->peer->ep)->is_eof;
}

const fab_ses_ops_t fab_tcp_ses_ops = {
    .shape = FAB_SES_VIA | FAB_SES_FIFO,
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
    .is_drained = ses_is_drained,
};

/* ---- HELLO ------------------------------------------------------------------- */

/*
 * HELLO is about to be sent, perhaps again: each has a number of its own, since the peer may have
 * answered one that this process got no answer to.
 */
void fab_tcp_on_proven(fab_sock_t *sock, void *bytes)
{
    fab_tcp_frame_t *hello = bytes;
    fab_tcp_ep_t *ep = sock->owner;

    if (NULL == ep->main) {
        fab_ses_stamp(&ep->ses, &hello->msg);
    }
}

/* The endpoint of the process that connects.  NULL: it is refused. */
static fab_tcp_ep_t *asker(fab_tcp_domain_t *dom, const fab_sock_t *sock,
                           const fab_tcp_frame_t *hello, bool *is_later)
{
    fab_peer_t *peer = fab_peer_from_wire(dom->fab, dom->provider, sock->greeting.name,
                                          &hello->addr, sizeof(hello->addr), is_later);
    fab_tcp_ep_t *ep = NULL != peer ? peer->ep : NULL;

    return NULL != ep && 0 == memcmp(&ep->addr, &hello->addr, sizeof(ep->addr)) ? ep : NULL;
}

/* The peer asks for a link beside the connection that is up. */
static void on_link_hello(fab_sock_t *sock, const fab_tcp_frame_t *hello, fab_tcp_ep_t *ep)
{
    fab_tcp_domain_t *dom = fab_sock_set_dom(sock->set);
    fab_tcp_ep_t *link = NULL;

    if (NULL != ep && fab_tcp_is_up(ep) && hello->msg.serial == ep->ses.asked) {
        link = fab_tcp_link_accept(ep, hello->link);
    }
    if (NULL == link) {
        fab_ses_refuse(&dom->ses, sock, FAB_SES_REASON_PEER);
        return;
    }
    const fab_tcp_frame_t welcome = {.msg = {.kind = FAB_SES_WELCOME,
                                             .serial = hello->msg.serial,
                                             .other = ep->links->got[link->link]},
                                     .addr = dom->addr};
    fab_sock_send(sock, &welcome);
    fab_tcp_stream_take(link, sock);
}

static void on_hello(fab_sock_t *sock, const fab_tcp_frame_t *hello)
{
    fab_tcp_domain_t *dom = fab_sock_set_dom(sock->set);
    bool is_later = false;
    fab_tcp_ep_t *ep;

    if (!fab_sock_via_is_open(sock)) {
        fab_sock_via_free(sock); /* it has an answer by now, or wants none any more */
        return;
    }
    ep = asker(dom, sock, hello, &is_later);
    if (0 != hello->link) {
        on_link_hello(sock, hello, ep);
    } else if (is_later) {
        fab_sock_via_again(sock);
    } else if (NULL == ep || !fab_ses_msg_is_sound(&hello->msg)) {
        fab_ses_refuse(&dom->ses, sock, FAB_SES_REASON_PEER);
    } else {
        sock->owner = ep; /* if it is parked */
        fab_ses_on_hello(&ep->ses, sock);
    }
}

/* ---- the end ------------------------------------------------------------ */

void fab_tcp_connect_end_if_done(fab_tcp_ep_t *ep)
{
    if (fab_tcp_is_up(ep) && ep->is_eof && ep->is_shut && NULL == ep->main) {
        fab_ses_path_ended(&ep->ses);
    }
}

/* Nothing comes any more by the connection: error is errno, or 0 at the end of the stream. */
static void ep_ended(fab_tcp_ep_t *ep, int error)
{
    fab_ses_t *ses = &ep->ses;
    char why[256];

    ep->is_eof = true;
    fab_tcp_watch(ep);
    if (FAB_SES_BYE_NONE != ses->peer_bye) {
        ep->is_shut = ep->is_shut || 0 != error;
        fab_tcp_connect_end_if_done(ep);
        return;
    }
    fab_counters.connections_lost += ses->is_used && !ses->is_closed;
    if (ses->is_broken) {
        fab_ses_drained(ses);
        return;
    }
    snprintf(why, sizeof(why), "The TCP connection to it (%s) was lost: %s.", ep->to,
             0 != error ? strerror(error) : "closed by its host; its process has probably ended");
    fab_ses_path_broke(ses, 0 != error ? OPAL_ERR_UNREACH : OPAL_ERR_PROC_ABORTED, why);
}

void fab_tcp_on_ended(fab_tcp_ep_t *ep, int error)
{
    if (NULL != ep->main) {
        fab_tcp_link_ended(ep, error);
    } else {
        ep_ended(ep, error);
    }
}

/* ---- answers ------------------------------------------------------------ */

static void on_link_answer(fab_tcp_ep_t *link, const fab_ses_msg_t *msg)
{
    fab_sock_t *sock = link->sock;

    if (FAB_SES_REFUSE == msg->kind) {
        fab_tcp_link_refused(link);
        return;
    }
    link->sock = NULL;
    fab_tcp_stream_take(link, sock);
    fab_tcp_link_go_on(link, msg->other);
}

void fab_tcp_on_frame(fab_sock_t *sock, const void *bytes)
{
    fab_tcp_ep_t *ep = sock->owner;
    fab_tcp_frame_t frame;

    memcpy(&frame, bytes, sizeof(frame));
    bool is_answer = NULL != ep && ep->sock == sock &&
                     0 == memcmp(&frame.addr, &ep->addr, sizeof(ep->addr)) &&
                     (FAB_SES_WELCOME == frame.msg.kind || FAB_SES_REFUSE == frame.msg.kind);
    if (NULL == ep && !sock->is_asking && FAB_SES_HELLO == frame.msg.kind) {
        on_hello(sock, &frame);
    } else if (is_answer && NULL != ep->main) {
        on_link_answer(ep, &frame.msg);
    } else if (is_answer && frame.msg.serial == ep->ses.serial &&
               fab_ses_msg_is_sound(&frame.msg)) {
        fab_ses_on_answer(&ep->ses, &frame.msg);
    } else {
        fab_counters.bad_messages++;
        fab_sock_broken(sock);
    }
}

/* Why, and that the peer had no room for addresses, of which one may have worked. */
static const char *with_left_out(const fab_tcp_ep_t *ep, const char *why)
{
    return 0 == ep->addr.num_left_out
               ? why
               : fab_sentence(ep->dom->fab,
                              "%s  %u further addresses of its host were not published: see "
                              "pml_tm_tcp_if_include.",
                              why, ep->addr.num_left_out);
}

void fab_tcp_on_broken(fab_sock_t *sock, const char *why)
{
    fab_tcp_ep_t *ep = sock->owner;

    if (NULL != ep && ep->sock == sock && NULL != ep->main) {
        fab_tcp_link_refused(ep);
    } else if (NULL != ep && ep->sock == sock) {
        fab_ses_via_broke(&ep->ses, with_left_out(ep, why)); /* releases it */
    } else if (NULL != ep && ep->ses.parked == sock) {
        fab_ses_parked_broke(&ep->ses); /* releases it, too */
    } else {
        fab_sock_release(sock);
    }
}
