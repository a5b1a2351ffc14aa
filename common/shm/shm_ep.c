/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: what the shm provider does for one peer.
 *
 *      attach ──> known ──first send──> connected ──detach──> closing ──peer left──> gone
 *                                          └─────────────────drop─────────────────────┘
 *
 * closing: this process has closed its ring to the peer; the ring from the peer stays.
 * When the peer left and no user needs it, a connected endpoint becomes known again (let_go() in
 * shm_progress.c), and what is sent then fails the peer.
 * In a job with few processes on the host they connect at once (fab_peer_prepare()).
 * Connecting needs no action of the peer: the sender maps the peer's segment and claims a ring
 * there (fab_shm_connect()).
 */
#include "shm/shm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"

/* ---- connecting --------------------------------------------------------- */

/*
 * An attempt to connect failed because something is used up, or the peer was asked for its segment.
 * Wait before the next attempt.  Up to shm_connect_timeout for memory or file descriptors; false:
 * this time is over.  For a ring or the answer without limit, since another process may rightly be
 * using the ring, and the owner may rightly be computing; then the user is told, once.
 */
static bool wait_to_connect(fab_shm_ep_t *ep, int rc, const char *why, uint64_t now)
{
    if (0 == ep->waits_since) {
        ep->waits_since = now;
        fab_counters.shm_rings_exhausted += OPAL_ERR_RESOURCE_BUSY == rc;
        fab_log(ep->dom->fab, 1, "messages to process %u wait: %s", ep->addr.pid, why);
    }
    if (now - ep->waits_since >= fab_limits.shm_connect_timeout * UINT64_C(1000000)) {
        if (OPAL_ERR_OUT_OF_RESOURCE == rc) {
            return false;
        }
        if (!ep->dom->has_said_wait) {
            ep->dom->has_said_wait = true;
            fab_log(ep->dom->fab, 0,
                    "messages to process %u of this host have waited for %u s, and wait on: %s",
                    ep->addr.pid, fab_limits.shm_connect_timeout, why);
        }
    }
    fab_counters.shm_connect_retries++;
    ep->retry_at = now + FAB_SHM_RETRY_US;
    return true;
}

static int connect_ep(fab_shm_ep_t *ep, const char **why)
{
    int rc = fab_shm_connect(ep, why);

    if (OPAL_SUCCESS == rc) {
        (void) fab_shm_xpmem_connect(ep);
        ep->waits_since = 0;
    }
    return rc;
}

/* Returns what make_room() returns. */
static int try_to_connect(fab_shm_ep_t *ep)
{
    uint64_t now = fab_now_us();
    const char *why;
    char text[512];
    int rc;

    if (ep->is_left && NULL == ep->seg) { /* its users know */
        fab_peer_fail(ep->peer, OPAL_ERR_UNREACH, "It takes no more messages: it has left.");
        return OPAL_ERR_UNREACH;
    }
    if (now < ep->retry_at) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    rc = connect_ep(ep, &why);
    if (OPAL_SUCCESS == rc) {
        return OPAL_SUCCESS;
    }
    if (OPAL_ERR_UNREACH != rc) {
        if (wait_to_connect(ep, rc, why, now)) {
            return OPAL_ERR_RESOURCE_BUSY;
        }
        snprintf(text, sizeof(text), "%s This was tried for %u s.", why,
                 fab_limits.shm_connect_timeout);
        why = text;
    }
    fab_peer_fail(ep->peer, OPAL_ERR_UNREACH, why);
    return OPAL_ERR_UNREACH;
}

/* ---- sending ------------------------------------------------------------ */

/*
 * There was no room for a message: connect if that was not done yet, else look for some.
 * OPAL_SUCCESS: try again.  OPAL_ERR_RESOURCE_BUSY: no room now.  OPAL_ERR_UNREACH: the peer
 * failed.
 */
static __attribute__((noinline)) int make_room(fab_shm_ep_t *ep)
{
    const uint64_t limit = ep->tx.limit;

    if (0 == limit) {
        return try_to_connect(ep);
    }
    if (!fab_shm_tx_refresh(&ep->tx)) {
        fab_peer_fail(ep->peer, OPAL_ERR_COMM_FAILURE,
                      "Its side of the shared memory has been overwritten.");
        return OPAL_ERR_UNREACH;
    }
    if (limit != ep->tx.limit) {
        return OPAL_SUCCESS;
    }
    if (atomic_load_explicit(&ep->tx.ctl->is_refused, memory_order_relaxed)) {
        fab_peer_fail(ep->peer, OPAL_ERR_UNREACH,
                      "It takes no more messages: it has left, or refused this process.");
        return OPAL_ERR_UNREACH;
    }
    fab_counters.shm_ring_full++;
    return OPAL_ERR_RESOURCE_BUSY;
}

/* Not inline: a short message needs few registers. */
static __attribute__((noinline)) int send_long(fab_shm_ep_t *ep, fab_hdr_t hdr, const void *buf,
                                               size_t len)
{
    const uint32_t n = fab_shm_num_slots(len);
    int rc;

    if (len > ep->peer->eager_max) {
        return OPAL_ERR_BAD_PARAM;
    }
    while (!fab_shm_tx_send_any(&ep->tx, hdr, buf, len)) {
        rc = make_room(ep);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    }
    fab_shm_tx_wrap_early(&ep->tx, ep->rx, n);
    fab_counters.shm_msgs_sent++;
    return OPAL_SUCCESS;
}

static int shm_send(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    fab_shm_ep_t *ep = peer->ep;

    if (__builtin_expect(len <= FAB_SHM_SHORT_MAX, 1) &&
        __builtin_expect(fab_shm_tx_send_short(&ep->tx, hdr, buf, len), 1)) {
        fab_counters.shm_msgs_sent++;
        return OPAL_SUCCESS;
    }
    return send_long(ep, hdr, buf, len);
}

static void *shm_reserve(fab_peer_t *peer, size_t max_len)
{
    fab_shm_ep_t *ep = peer->ep;
    uint32_t n = fab_shm_num_slots(max_len);
    fab_shm_slot_t *slot;

    while (NULL == (slot = fab_shm_tx_reserve(&ep->tx, n))) {
        if (OPAL_SUCCESS != make_room(ep)) {
            return NULL;
        }
    }
    return fab_shm_payload(slot);
}

static void shm_commit(fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    fab_shm_ep_t *ep = peer->ep;

    fab_shm_tx_commit(&ep->tx, fab_shm_tx_slot(&ep->tx), hdr, len, fab_shm_num_slots(len));
    fab_shm_tx_wrap_early(&ep->tx, ep->rx, fab_shm_num_slots(len));
    fab_counters.shm_msgs_sent++;
}

/* ---- the table ---------------------------------------------------------- */

/* If it fails, the first message tries again, and says why. */
static void shm_prepare(fab_peer_t *peer)
{
    fab_shm_ep_t *ep = peer->ep;
    const uint64_t num_local = ep->dom->fab->config.num_local;
    const char *why;

    if (NULL == ep->entry && NULL != ep->seg &&
        num_local * fab_shm_first_size(&ep->addr) <= FAB_SHM_AT_ONCE) {
        (void) connect_ep(ep, &why);
    }
}

const fab_ops_t fab_shm_ops = {
    .send = shm_send,
    .reserve = shm_reserve,
    .commit = shm_commit,
    .rma = fab_shm_rma,
    .rma_now = fab_shm_rma_now,
    .prepare = shm_prepare,
};

/* ---- attach and detach -------------------------------------------------- */

static bool addr_is_sound(const fab_shm_addr_t *addr)
{
    uint32_t size = addr->ring_size;

    return addr->page >= FAB_SHM_PAGE_MIN && size >= FAB_SHM_RING_MIN && size <= FAB_SHM_RING_MAX &&
           0 == (size & (size - 1)) && addr->num_rings > 0 &&
           addr->num_rings <= FAB_SHM_RINGS_MAX && addr->num_ahead <= addr->num_rings &&
           addr->eager_max >= FAB_SHM_EAGER_MIN &&
           addr->eager_max <= fab_shm_ring_eager_max(size) && addr->pid > 0 &&
           addr->pid <= INT32_MAX && addr->fd >= 0;
}

static int addr_check(fab_shm_domain_t *dom, const fab_shm_addr_t *addr, const char **why)
{
    if (FAB_SHM_VERSION != addr->version) {
        *why = fab_sentence(dom->fab, "its shared memory has version %u, this process knows %d",
                            addr->version, FAB_SHM_VERSION);
        return OPAL_ERR_UNREACH;
    }
    if (addr->host != dom->addr.host) {
        *why = "it is on another host, or in a container with process ids of its own";
        return OPAL_ERR_UNREACH;
    }
    if (addr->user_ns != dom->addr.user_ns) {
        if (!fab_shm_pass_is_possible(dom, addr)) {
            *why = "it is in another user namespace, and in another network namespace or has no "
                   "Unix socket";
            return OPAL_ERR_UNREACH;
        }
    } else if (addr->uid != dom->addr.uid) {
        *why = fab_sentence(dom->fab, "it belongs to user %u, this process to user %u", addr->uid,
                            dom->addr.uid);
        return OPAL_ERR_UNREACH;
    }
    if (addr->page != dom->addr.page) {
        *why = fab_sentence(dom->fab, "its kernel has pages of %u bytes, this process's of %u",
                            addr->page, dom->addr.page);
        return OPAL_ERR_UNREACH;
    }
    if (!addr_is_sound(addr)) {
        *why = "its address for shared memory is damaged";
        return OPAL_ERR_UNREACH;
    }
    return OPAL_SUCCESS;
}

static fab_shm_ep_t *ep_new(fab_shm_domain_t *dom, fab_peer_t *peer, const fab_shm_addr_t *addr)
{
    fab_shm_ep_t *ep = aligned_alloc(64, (sizeof(*ep) + 63) & ~(size_t) 63);

    if (NULL == ep) {
        return NULL;
    }
    *ep = (fab_shm_ep_t){.peer = peer, .dom = dom, .addr = *addr};
    STAILQ_INIT(&ep->later);
    LIST_INSERT_HEAD(&dom->eps, ep, link);
    dom->num_eps++;
    return ep;
}

int fab_shm_attach(fab_domain_t *domain, fab_peer_t *peer, const void *address, const char **why)
{
    fab_shm_domain_t *dom = (fab_shm_domain_t *) domain;
    fab_shm_addr_t addr;
    fab_shm_ep_t *ep;
    int rc;

    memcpy(&addr, address, sizeof(addr));
    rc = addr_check(dom, &addr, why);
    if (OPAL_SUCCESS != rc) {
        ++dom->num_refused;
        snprintf(dom->why_refused, sizeof(dom->why_refused), "%s", *why);
        return rc;
    }
    ep = ep_new(dom, peer, &addr);
    if (NULL == ep) {
        *why = "there is not enough memory";
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (fab_params_is_none(fab_params.shm_single_copy)) {
        ep->access = FAB_SHM_ACCESS_REFUSED;
    } else {
        peer->caps = FAB_CAP_GET | FAB_CAP_PUT;
    }
    peer->caps |= FAB_CAP_RING;
    peer->eager_max = fab_params_eager(fab_limits.shm_eager, addr.eager_max);
    peer->ep = ep;
    fab_shm_find(ep);
    return OPAL_SUCCESS;
}

void fab_shm_ep_free(fab_shm_ep_t *ep)
{
    fab_shm_domain_t *dom = ep->dom;

    fab_shm_xpmem_disconnect(ep);
    fab_shm_disconnect(ep);
    dom->alive_next = ep == dom->alive_next ? LIST_NEXT(ep, link) : dom->alive_next;
    dom->look_next = ep == dom->look_next ? LIST_NEXT(ep, link) : dom->look_next;
    LIST_REMOVE(ep, link);
    dom->num_eps--;
    free(ep->ways);
    free(ep);
}

void fab_shm_detach(fab_domain_t *domain, fab_peer_t *peer)
{
    fab_shm_domain_t *dom = (fab_shm_domain_t *) domain;
    fab_shm_ep_t *ep = peer->ep;

    fab_shm_coop_forget(dom, peer);
    fab_shm_disconnect(ep);
    fab_shm_rma_drop(dom, peer);
    if (NULL == ep->in) {
        peer->ep = NULL;
        fab_shm_ep_free(ep);
    }
}

bool fab_shm_drop(fab_domain_t *domain, fab_peer_t *peer)
{
    fab_shm_domain_t *dom = (fab_shm_domain_t *) domain;
    fab_shm_ep_t *ep = peer->ep;

    fab_shm_coop_forget(dom, peer);
    if (NULL != ep->in && fab_shm_rx_has_retained(&ep->in->rx)) {
        return false;
    }
    fab_shm_disconnect(ep);
    if (NULL != ep->in) {
        fab_shm_in_release(dom, ep->in, ep->is_died);
    }
    fab_shm_rma_drop(dom, peer);
    peer->ep = NULL;
    fab_shm_ep_free(ep);
    return true;
}
