/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection set-up: which side connects, which accepts, and what happens when both connect; and
 * what an end leads to.
 *
 *      IDLE ──first send──> ASKING ──WELCOME──> UP
 *        └──HELLO of the peer──┴────────────────^
 *
 * If the HELLOs of both cross, that of the process with the smaller name has precedence.  It parks
 * the other's HELLO.  The other answers the HELLO that it gets and gives up its own attempt.  If
 * the attempt of the process with precedence fails, it answers the parked HELLO.  As long as it has
 * not sent its own, nothing crosses, and it answers at once: perhaps only the other can connect.
 *
 * A HELLO that arrives while there is a connection is from a peer that has ended that connection:
 * it is parked until the end has arrived here as well. A HELLO that was
 * sent before the current connection was made is ignored; its serial number shows this.
 *
 * A HELLO for a link (tcp_link.c) is answered at once: only one side asks for a link, and only
 * while the connection is up.
 *
 * The end.  Each side's last message is CLOSE, LEAVE or REFUSE, after which it shuts its direction
 * down; the socket is closed when both are.  Any other end is a failure of the peer.
 */
#include "tcp/tcp.h"

#include <stdio.h>
#include <string.h>

#include "fabric/fab_params.h"

/* ---- connecting ------------------------------------------------------------- */

static fab_tcp_frame_t frame_of(const fab_tcp_ep_t *ep, fab_tcp_kind_t kind)
{
    return (fab_tcp_frame_t){.kind = kind, .serial = ep->serial, .addr = ep->dom->addr};
}

static fab_sock_t *ask(fab_tcp_ep_t *ep)
{
    fab_tcp_domain_t *dom = ep->dom;
    fab_sock_ip_t ips[FAB_SOCK_IPS];
    fab_tcp_frame_t hello;
    int num;

    hello = frame_of(ep, FAB_TCP_HELLO);
    memcpy(ips, ep->addr.ips, sizeof(ips));
    num = fab_sock_sort_ips(dom->addr.ips, dom->addr.num_ips, ep->is_local, ips, ep->addr.num_ips);
    return fab_sock_connect(dom->socks, ep, ep->peer->name, ep->addr.key, ips, num, &hello);
}

/*
 * HELLO is about to be sent, perhaps again: each has a number of its own, since the peer may have
 * answered one that this process got no answer to.
 */
void fab_tcp_on_proven(fab_sock_t *sock, void *bytes)
{
    fab_tcp_frame_t *hello = bytes;
    fab_tcp_ep_t *ep = sock->owner;

    if (NULL == ep->main) {
        hello->serial = ep->serial = ++ep->dom->serial;
    }
}

/* Is there a connection to the host?  The kernel checks that it answers. */
bool fab_tcp_is_alive(const fab_sock_t *sock)
{
    const fab_tcp_ep_t *ep = sock->owner, *at;

    LIST_FOREACH(at, &ep->dom->eps, entry) {
        if (FAB_TCP_UP == at->state && at->addr.host == ep->addr.host && 0 == at->silences) {
            return true;
        }
    }
    return false;
}

void fab_tcp_connect(fab_tcp_ep_t *ep)
{
    ep->sock = ask(ep);
    if (NULL == ep->sock) {
        fab_peer_fail(ep->peer, OPAL_ERR_OUT_OF_RESOURCE,
                      "There is not enough memory here for a connection to it.");
        return;
    }
    ep->state = FAB_TCP_ASKING;
    fab_tcp_expect(ep->dom);
}

/* The socket is the connection. */
static void connected(fab_tcp_ep_t *ep, fab_sock_t *sock)
{
    fab_sock_sealed_t left;
    size_t left_len;
    int fd = fab_sock_take(sock, &left, &left_len);

    fab_tcp_stream_open(ep, fd, &left, left_len);
    if (FAB_PEER_CLOSED == ep->peer->state) {
        fab_tcp_stream_end(ep, FAB_TCP_ID_CLOSE);
    }
}

/* ---- accepting ----------------------------------------------------------- */

static void refuse(fab_sock_t *sock)
{
    fab_tcp_domain_t *dom = fab_sock_set_dom(sock->set);
    fab_tcp_frame_t frame = {.kind = FAB_TCP_REFUSE, .addr = dom->addr};

    fab_counters.refused++;
    fab_sock_send(sock, &frame);
    fab_sock_release(sock);
}

static void answer(fab_tcp_ep_t *ep, fab_sock_t *sock)
{
    const fab_tcp_frame_t *hello = (const fab_tcp_frame_t *) sock->frame;
    fab_tcp_frame_t welcome;

    fab_tcp_stream_cancel(ep);
    ep->peer_void = hello->serial;
    welcome = frame_of(ep, FAB_TCP_WELCOME);
    fab_sock_send(sock, &welcome);
    connected(ep, sock);
}

static void park(fab_tcp_ep_t *ep, fab_sock_t *sock)
{
    fab_tcp_ep_unpark(ep);
    ep->parked = sock;
    sock->owner = ep;
}

/* The connection has ended: answer the parked HELLO, if there is one. */
static void again(fab_tcp_ep_t *ep)
{
    fab_sock_t *parked = ep->parked;

    ep->parked = NULL;
    if (NULL != parked) {
        answer(ep, parked);
    } else if (FAB_PEER_CLOSED == ep->peer->state) {
        fab_tcp_ep_finish(ep);
    }
}

/* The endpoint of the process that connects.  NULL: it is refused. */
static fab_tcp_ep_t *asker(fab_tcp_domain_t *dom, const fab_sock_t *sock,
                           const fab_tcp_frame_t *hello, bool *is_later)
{
    uint64_t name = sock->greeting.name;
    fab_peer_t *peer = NULL;
    fab_tcp_ep_t *ep;

    if (name != dom->fab->config.name) {
        peer = fab_peer_from_wire(dom->fab, dom->provider, name, &hello->addr, sizeof(hello->addr));
    }
    *is_later = NULL != peer && fab_peer_is_moving(peer);
    if (NULL == peer || *is_later || FAB_PEER_FAILED == peer->state || NULL == peer->ep ||
        dom->provider != fab_peer_provider(peer)) {
        return NULL;
    }
    ep = fab_tcp_ep_of(peer);
    return NULL != ep && 0 == memcmp(&ep->addr, &hello->addr, sizeof(ep->addr)) && !ep->has_left
               ? ep
               : NULL;
}

/* The peer asks for a link beside the connection that is up. */
static void on_link_hello(fab_sock_t *sock, const fab_tcp_frame_t *hello)
{
    fab_tcp_domain_t *dom = fab_sock_set_dom(sock->set);
    bool is_later;
    fab_tcp_ep_t *ep = asker(dom, sock, hello, &is_later);
    fab_tcp_ep_t *link = NULL;
    fab_sock_sealed_t left;
    fab_tcp_frame_t welcome;
    size_t left_len;

    if (NULL != ep && FAB_TCP_UP == ep->state && hello->serial == ep->peer_void) {
        link = fab_tcp_link_accept(ep, hello->link);
    }
    if (NULL == link) {
        refuse(sock);
        return;
    }
    welcome = frame_of(ep, FAB_TCP_WELCOME);
    welcome.serial = ep->links->got[link->link];
    fab_sock_send(sock, &welcome);
    int fd = fab_sock_take(sock, &left, &left_len);
    fab_tcp_link_open(link, fd, &left, left_len);
}

static void on_hello(fab_sock_t *sock, const fab_tcp_frame_t *hello)
{
    fab_tcp_domain_t *dom = fab_sock_set_dom(sock->set);
    bool is_later;
    fab_tcp_ep_t *ep;

    if (!fab_sock_is_open(sock)) {
        fab_counters.crossed++; /* it has an answer by now, or wants none any more */
        fab_sock_release(sock);
        return;
    }
    if (0 != hello->link) {
        on_link_hello(sock, hello);
        return;
    }
    ep = asker(dom, sock, hello, &is_later);
    if (is_later) {
        fab_sock_defer(sock);
    } else if (NULL == ep) {
        refuse(sock);
    } else if (hello->serial <= ep->peer_void) {
        fab_counters.crossed++;
        fab_sock_release(sock);
    } else if (FAB_TCP_UP == ep->state) {
        park(ep, sock);
    } else if (FAB_TCP_ASKING == ep->state && ep->sock->has_sent &&
               ep->peer->name > dom->fab->config.name) {
        fab_counters.crossed++;
        park(ep, sock);
    } else {
        answer(ep, sock);
    }
}

/* ---- the end ------------------------------------------------------------ */

void fab_tcp_connect_end_if_done(fab_tcp_ep_t *ep)
{
    if (FAB_TCP_UP == ep->state && ep->is_eof && ep->is_shut && NULL == ep->main) {
        fab_tcp_ep_close(ep);
        again(ep);
    }
}

/* Nothing comes any more by the connection: error is errno, or 0 at the end of the stream. */
static void ep_ended(fab_tcp_ep_t *ep, int error)
{
    char why[256];

    if (ep->is_end_come || !ep->is_used) {
        /* an unused connection is one that the peer requested and did not need */
        ep->is_eof = true;
        ep->is_shut = ep->is_shut || 0 != error || !ep->is_used;
        fab_tcp_watch(ep);
        fab_tcp_connect_end_if_done(ep);
        return;
    }
    ep->is_eof = true;
    fab_tcp_watch(ep);
    fab_counters.tcp_peers_lost++;
    error = 0 != ep->error ? ep->error : error;
    snprintf(why, sizeof(why), "The TCP connection to it (%s) was lost: %s.", ep->to,
             0 != error ? strerror(error) : "closed by its host; its process has probably ended");
    fab_peer_fail(ep->peer, 0 != error ? OPAL_ERR_UNREACH : OPAL_ERR_PROC_ABORTED, why);
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

static void on_welcome(fab_tcp_ep_t *ep, const fab_tcp_frame_t *welcome)
{
    fab_sock_t *sock = ep->sock;

    ep->sock = NULL;
    if (NULL != ep->main) {
        fab_sock_sealed_t left;
        size_t left_len; /* 0: the answer to all that was written is here */
        int fd = fab_sock_take(sock, &left, &left_len);
        fab_tcp_link_open(ep, fd, &left, left_len);
        fab_tcp_link_go_on(ep, welcome->serial);
        return;
    }
    ep->peer_void = welcome->serial;
    fab_tcp_ep_unpark(ep);
    connected(ep, sock);
}

/* The attempt has failed. */
static void not_connected(fab_tcp_ep_t *ep, const char *why)
{
    if (NULL != ep->main) {
        fab_tcp_link_refused(ep);
        return;
    }
    fab_tcp_stream_cancel(ep);
    if (NULL != ep->parked || FAB_PEER_CLOSED == ep->peer->state) {
        again(ep);
    } else {
        fab_peer_fail(ep->peer, OPAL_ERR_UNREACH, why);
    }
}

void fab_tcp_on_frame(fab_sock_t *sock, const void *bytes)
{
    fab_tcp_ep_t *ep = sock->owner;
    fab_tcp_frame_t frame;

    memcpy(&frame, bytes, sizeof(frame));
    bool is_answer = NULL != ep && ep->sock == sock &&
                     0 == memcmp(&frame.addr, &ep->addr, sizeof(ep->addr));
    if (NULL == ep && !sock->is_asking && FAB_TCP_HELLO == frame.kind) {
        on_hello(sock, &frame);
    } else if (is_answer && FAB_TCP_WELCOME == frame.kind) {
        on_welcome(ep, &frame);
    } else if (is_answer && FAB_TCP_REFUSE == frame.kind) {
        not_connected(ep, "It refused the connection: this process has failed for it, or it "
                          "reaches this process in another way.");
    } else {
        fab_counters.bad_messages++;
        fab_sock_reject(sock);
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

    if (NULL != ep && ep->sock == sock) {
        not_connected(ep, with_left_out(ep, why)); /* releases it */
        return;
    }
    if (NULL != ep && ep->parked == sock) {
        ep->parked = NULL;
    }
    fab_sock_release(sock);
}
