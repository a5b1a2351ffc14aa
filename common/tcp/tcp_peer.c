/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tcp provider does for one peer: send, attach, detach, drop.
 *
 *      attach ──> endpoint, with a session (session.h)
 *      detach, drop ──> the session ends ──> gone
 */
#include "tcp/tcp.h"

#include <string.h>

#include "fabric/fab_params.h"

/* ---- sending ------------------------------------------------------------ */

/* Nothing can be sent to the peer now: connect, unless that is under way. */
static __attribute__((noinline)) int cannot_send(fab_tcp_ep_t *ep)
{
    fab_ses_want(&ep->ses);
    return FAB_PEER_UP == ep->peer->state ? OPAL_ERR_RESOURCE_BUSY : OPAL_ERR_UNREACH;
}

/* Not while nothing may be sent; the window itself is looked at later. */
static bool can_send(const fab_tcp_ep_t *ep)
{
    return 0 != ep->ses.window;
}

static int tcp_send(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    fab_tcp_ep_t *ep = peer->ep;

    if (__builtin_expect(!can_send(ep), 0)) {
        return cannot_send(ep);
    }
    if (len > peer->eager_max) {
        return OPAL_ERR_BAD_PARAM;
    }
    fab_tcp_expect(ep->dom);
    return fab_tcp_stream_is_ready(ep, len) ? fab_tcp_stream_send(ep, hdr, buf, len)
                                            : OPAL_ERR_RESOURCE_BUSY;
}

static void *tcp_reserve(fab_peer_t *peer, size_t max_len)
{
    fab_tcp_ep_t *ep = peer->ep;

    if (__builtin_expect(!can_send(ep), 0)) {
        (void) cannot_send(ep);
        return NULL;
    }
    return fab_tcp_stream_is_ready(ep, max_len) ? fab_tcp_stream_reserve(ep, max_len) : NULL;
}

/*
 * How much of a send from memory goes as one fragment.  Within the host each further write takes
 * the sender longer (1 MiB: 107 us in one write, 122 in four).  What is queued behind a fragment
 * waits for all of it.
 */
static size_t fragment(const fab_tcp_ep_t *ep, size_t len)
{
    size_t max = !ep->is_local ? FAB_FRAGMENT_MAX : len <= FAB_TCP_WHOLE ? len : FAB_TCP_LONG;

    return len < max ? len : max;
}

static int tcp_send_from(fab_peer_t *peer, fab_hdr_t hdr, fab_out_t *out)
{
    fab_tcp_ep_t *ep = peer->ep;

    if (__builtin_expect(!can_send(ep), 0)) {
        return cannot_send(ep);
    }
    fab_tcp_expect(ep->dom);
    if (!fab_tcp_stream_is_ready(ep, FAB_TCP_TOGETHER)) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    const size_t all = out->len;
    out->len = fragment(ep, out->head_len + all) - out->head_len;
    if (out->len < FAB_TCP_STRIPE_MIN) {
        return fab_tcp_stream_send_from(ep, hdr, out, 0, 0);
    }
    fab_tcp_links_ask(ep);
    return fab_tcp_stripe_send(ep, hdr, out, all);
}

static void tcp_commit(fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    fab_tcp_ep_t *ep = peer->ep;

    fab_tcp_expect(ep->dom);
    fab_tcp_stream_commit(ep, hdr, len);
}

static void tcp_batch(fab_peer_t *peer, bool is_begin)
{
    fab_tcp_ep_t *ep = peer->ep;

    ep->is_batch = is_begin;
    if (!is_begin && fab_tcp_is_up(ep)) {
        fab_tcp_stream_flush(ep);
    }
}

const fab_ops_t fab_tcp_ops = {
    .send = tcp_send,
    .reserve = tcp_reserve,
    .commit = tcp_commit,
    .batch = tcp_batch,
    .send_from = tcp_send_from,
};

/* ---- attach and detach -------------------------------------------------- */

static int addr_check(const fab_tcp_domain_t *dom, const fab_tcp_addr_t *addr, const char **why)
{
    if (FAB_TCP_VERSION != addr->version) {
        *why = fab_sentence(dom->fab, "its tcp has version %u, this process knows %d",
                            addr->version, FAB_TCP_VERSION);
        return OPAL_ERR_UNREACH;
    }
    if (0 == addr->num_ips || addr->num_ips > FAB_SOCK_IPS || addr->eager_max < FAB_TCP_EAGER_MIN ||
        addr->eager_max > FAB_TCP_EAGER_MAX) {
        *why = "its address for tcp is damaged";
        return OPAL_ERR_UNREACH;
    }
    return OPAL_SUCCESS;
}

int fab_tcp_attach(fab_domain_t *domain, fab_peer_t *peer, const void *address, const char **why)
{
    fab_tcp_domain_t *dom = (fab_tcp_domain_t *) domain;
    fab_tcp_addr_t addr;
    int rc;

    memcpy(&addr, address, sizeof(addr));
    rc = addr_check(dom, &addr, why);
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    peer->ep = fab_tcp_ep_new(dom, peer, &addr);
    if (NULL == peer->ep) {
        *why = "there is not enough memory";
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    peer->eager_max = fab_params_eager(fab_limits.tcp_eager, addr.eager_max);
    peer->caps = 0;
    return OPAL_SUCCESS;
}

void fab_tcp_ask_owed(fab_peer_t *peer)
{
    fab_tcp_ep_t *ep = peer->ep;

    fab_ses_ask_owed(&ep->ses);
}

void fab_tcp_detach(fab_domain_t *domain, fab_peer_t *peer)
{
    fab_tcp_ep_t *ep = peer->ep;

    (void) domain;
    if (fab_ses_close(&ep->ses)) {
        peer->ep = NULL;
        fab_tcp_ep_free(ep);
    }
}

bool fab_tcp_drop(fab_domain_t *domain, fab_peer_t *peer)
{
    fab_tcp_ep_t *ep = peer->ep;

    fab_ses_drop(&ep->ses);
    peer->ep = NULL;
    fab_tcp_ep_free(ep);
    (void) fab_tcp_complete((fab_tcp_domain_t *) domain);
    return true;
}
