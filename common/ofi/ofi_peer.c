/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *      attach ──> known ──first send──> IDLE ──> ... ──> UP        (ofi_known.c, ofi_connect.c)
 *      detach ──> CLOSE sent ──CLOSED, CLOSE or LEAVE of the peer──> gone
 *      CLOSE of the peer ──> CLOSED sent, IDLE again
 *      drop   ──> LEAVE sent, gone
 *
 * What is left to send when an endpoint is done with its peer is sent all the same: it lingers
 * without a peer until then.
 */
#include "ofi/ofi.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"

enum { FAB_OFI_LINGER_US = 3000000 };

/* ---- sending ------------------------------------------------------------- */

/* Says why no message can be sent to the peer now. Asks for a session, if that is the reason. */
static __attribute__((noinline)) int cannot_send(fab_ofi_ep_t *ep)
{
    if (NULL != ep->failure) {
        return OPAL_ERR_RESOURCE_BUSY; /* until it fails, in fab_progress() */
    }
    if (ep->has_left) {
        fab_peer_fail(ep->peer, OPAL_ERR_UNREACH,
                      "It takes no more messages: it has left, or refused this process.");
        return OPAL_ERR_UNREACH;
    }
    if (FAB_OFI_IDLE == ep->state) {
        fab_ofi_connect(ep);
    } else if (FAB_OFI_UP == ep->state && !fab_ofi_has_credit(ep)) {
        fab_counters.no_credit++;
    }
    return OPAL_ERR_RESOURCE_BUSY;
}

static int ofi_send_now(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    fab_ofi_ep_t *ep = peer->ep;

    if (__builtin_expect(!fab_ofi_can_send(ep), 0)) {
        return cannot_send(ep);
    }
    return len <= peer->eager_max ? fab_ofi_send_msg(ep, hdr, data, len) : OPAL_ERR_BAD_PARAM;
}

static int ofi_send(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    fab_ofi_ep_t *ep = peer->ep;

    if (fab_ofi_can_send(ep) && !fab_ofi_is_its_turn(ep, len)) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    return ofi_send_now(peer, hdr, data, len);
}

static void *ofi_reserve(fab_peer_t *peer, size_t max_len)
{
    fab_ofi_ep_t *ep = peer->ep;
    fab_ofi_pool_t *pool = &ep->dom->send_pool;

    (void) max_len;
    fab_ofi_send_pack(ep);
    if (__builtin_expect(!fab_ofi_can_send(ep), 0)) {
        (void) cannot_send(ep);
        return NULL;
    }
    ep->reserved = fab_ofi_pool_has_room(pool) ? fab_ofi_pool_get(pool) : NULL;
    return NULL != ep->reserved ? ep->reserved->data + sizeof(fab_ofi_hdr_t) : NULL;
}

static void ofi_commit(fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    fab_ofi_ep_t *ep = peer->ep;
    fab_ofi_sbuf_t *buf = ep->reserved;

    ep->reserved = NULL;
    fab_ofi_send_buf(ep, hdr, buf, len);
}

const fab_ops_t fab_ofi_ops = {
    .send = ofi_send,
    .reserve = ofi_reserve,
    .commit = ofi_commit,
    .expose = fab_ofi_expose,
    .unexpose = fab_ofi_unexpose,
    .rma = fab_ofi_rma,
    .batch = fab_ofi_batch,
    .send_now = ofi_send_now,
};

/* ---- attach -------------------------------------------------------------- */

/* NULL, or why it cannot be reached. */
static const char *addr_flaw(const fab_ofi_domain_t *dom, const fab_ofi_addr_t *addr)
{
    const fab_ofi_addr_t *own = &dom->addr;

    if (FAB_OFI_VERSION != addr->version) {
        return fab_sentence(dom->fab, "its ofi address has version %u, this process knows %d",
                            addr->version, FAB_OFI_VERSION);
    }
    if (addr->eager_max < FAB_OFI_EAGER_MIN || addr->eager_max > FAB_OFI_EAGER_MAX ||
        addr->name_len > FAB_OFI_NAME_MAX || addr->pid > INT32_MAX ||
        NULL == memchr(addr->provider, 0, sizeof(addr->provider)) || !fab_ofi_is_name(addr)) {
        return "its ofi address is damaged";
    }
    if (0 != strcmp(addr->provider, own->provider)) {
        return fab_sentence(dom->fab, "it uses libfabric's %s, this process %s", addr->provider,
                            own->provider);
    }
    if (addr->addr_format != own->addr_format || addr->name_len != own->name_len) {
        return "its address is of another kind than that of this process";
    }
    if (addr->protocol != own->protocol || addr->protocol_version != own->protocol_version ||
        0 != ((addr->flags ^ own->flags) & FAB_OFI_ADDR_VIRT)) {
        return "its libfabric speaks another protocol than that of this process";
    }
    return NULL;
}

int fab_ofi_attach(fab_domain_t *domain, fab_peer_t *peer, const void *address, const char **why)
{
    fab_ofi_domain_t *dom = (fab_ofi_domain_t *) domain;
    fab_ofi_addr_t addr;

    memcpy(&addr, address, sizeof(addr));
    *why = addr_flaw(dom, &addr);
    if (NULL != *why) {
        return OPAL_ERR_UNREACH;
    }
    if (!fab_ofi_know(dom, peer, &addr)) {
        *why = "there is not enough memory";
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    peer->caps = 0 != (addr.flags & dom->addr.flags & FAB_OFI_ADDR_RMA) ? FAB_CAP_GET | FAB_CAP_PUT
                                                                        : 0;
    peer->eager_max = fab_ofi_min(addr.eager_max, (uint32_t) dom->eager_limit);
    return OPAL_SUCCESS;
}

/* ---- the end ------------------------------------------------------------- */

void fab_ofi_ep_free(fab_ofi_ep_t *ep)
{
    fab_ofi_send_drop(ep);
    fab_ofi_early_drop(ep);
    LIST_REMOVE(ep, link);
    free(ep->spare);
    free(ep);
}

/* It is done with its peer. */
static void ep_release(fab_ofi_ep_t *ep)
{
    fab_ofi_domain_t *dom = ep->dom;

    fab_ofi_session_end(ep);
    fab_ofi_rma_drop(ep);
    fab_ofi_ep_forget_failure(ep);
    ep->peer->ep = NULL;
    ep->peer = NULL;
    if (NULL == ep->to_send) {
        fab_ofi_ep_free(ep);
        return;
    }
    ep->deadline = fab_now_us() + FAB_OFI_LINGER_US;
    LIST_REMOVE(ep, link);
    LIST_INSERT_HEAD(&dom->lingering, ep, link);
}

void fab_ofi_ep_end_lingering(fab_ofi_domain_t *dom, uint64_t now)
{
    fab_ofi_ep_t *ep, *next;

    for (ep = LIST_FIRST(&dom->lingering); NULL != ep; ep = next) {
        next = LIST_NEXT(ep, link);
        if (NULL == ep->to_send || now > ep->deadline) {
            fab_ofi_ep_free(ep);
        }
    }
}

void **fab_ofi_spare(const fab_peer_t *peer)
{
    fab_ofi_ep_t *ep = peer->ep;

    if (fab_ofi_is_known(peer)) {
        return fab_ofi_known_spare(peer);
    }
    return ep->was_up ? NULL : &ep->spare;
}

/* It is done with a peer that this process has closed. */
static void ep_finish(fab_ofi_ep_t *ep)
{
    fab_peer_t *peer = ep->peer;

    ep_release(ep);
    if (FAB_PEER_CLOSED == peer->state) {
        fab_peer_left(peer);
    }
}

void fab_ofi_detach(fab_domain_t *domain, fab_peer_t *peer)
{
    fab_ofi_ep_t *ep = peer->ep;

    (void) domain;
    if (fab_ofi_is_known(peer)) {
        fab_ofi_forget(peer);
        return;
    }
    ep->is_closing = true;
    fab_ofi_rma_drop(ep);
    if (FAB_OFI_IDLE == ep->state) {
        ep_release(ep);
    } else if (FAB_OFI_UP == ep->state) {
        (void) fab_ofi_send_own(ep, FAB_OFI_ID_CLOSE, 0, NULL, 0);
    } /* else CLOSE is sent once it is up: the peer may be about to send */
}

bool fab_ofi_drop(fab_domain_t *domain, fab_peer_t *peer)
{
    fab_ofi_ep_t *ep = peer->ep;

    (void) domain;
    if (fab_ofi_is_known(peer)) {
        fab_ofi_forget(peer);
        return true;
    }
    ep->is_dropping = true;
    if (ep->num_xfers > 0) {
        return false; /* libfabric still has the user's memory */
    }
    if (FAB_OFI_UP == ep->state) {
        (void) fab_ofi_send_own(ep, FAB_OFI_ID_LEAVE, 0, NULL, 0);
    } else {
        fab_ofi_send_drop(ep); /* HELLO, perhaps, which nobody is to answer */
    }
    ep_release(ep);
    return true;
}

/* ---- the peer ends the session ------------------------------------------- */

static void unexpected(fab_ofi_ep_t *ep)
{
    fab_counters.bad_messages++;
    fab_ofi_ep_defer_failure(ep, OPAL_ERR_COMM_FAILURE,
                             "It agreed to end a session that nobody had ended.");
}

/* CLOSE: it was the peer's last message of this session. */
static void closed_by_peer(fab_ofi_ep_t *ep)
{
    if (ep->is_closing) { /* and so does this process */
        ep_finish(ep);
        return;
    }
    (void) fab_ofi_send_own(ep, FAB_OFI_ID_CLOSED, 0, NULL, 0);
    fab_ofi_session_end(ep);
    fab_peer_has_left(ep->peer);
}

static void left(fab_ofi_ep_t *ep)
{
    if (!ep->is_leaving) {
        (void) fab_ofi_send_own(ep, FAB_OFI_ID_LEFT, 0, NULL, 0);
    }
    ep->has_left = true;
    fab_ofi_session_end(ep);
    if (ep->is_closing) {
        ep_finish(ep);
    } else if (!TAILQ_EMPTY(&ep->ops) || !TAILQ_EMPTY(&ep->posted)) {
        fab_ofi_ep_defer_failure(
            ep, OPAL_ERR_UNREACH,
            "It has left, or given this process up, while its memory was read or written.");
    } else {
        fab_peer_has_left(ep->peer);
    }
}

void fab_ofi_ep_on_end(fab_ofi_ep_t *ep, uint8_t id)
{
    if (FAB_OFI_ID_CLOSE == id) {
        closed_by_peer(ep);
    } else if (FAB_OFI_ID_LEAVE == id) {
        left(ep);
    } else if (FAB_OFI_ID_CLOSED == id && ep->is_closing) {
        ep_finish(ep);
    } else if (FAB_OFI_ID_LEFT == id && ep->is_leaving) {
        fab_ofi_session_end(ep);
    } else {
        unexpected(ep);
    }
}
