/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *      attach ──> endpoint, with a session (session.h)
 *      detach, drop ──> the session ends ──> gone
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

/* Nothing can be sent to the peer now: ask for a session, unless there is one. */
static __attribute__((noinline)) int cannot_send(fab_ofi_ep_t *ep)
{
    fab_counters.no_credit += 0 != ep->ses.window && !fab_ses_may_send(&ep->ses);
    fab_ses_want(&ep->ses);
    return FAB_PEER_UP == ep->peer->state ? OPAL_ERR_RESOURCE_BUSY : OPAL_ERR_UNREACH;
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
    .rma = fab_ofi_rma,
    .batch = fab_ofi_batch,
    .send_now = ofi_send_now,
};

/* ---- attach -------------------------------------------------------------- */

fab_ofi_ep_t *fab_ofi_ep_new(fab_ofi_domain_t *dom, fab_peer_t *peer, const fab_ofi_addr_t *addr)
{
    fab_ofi_ep_t *ep = malloc(sizeof(*ep));

    if (NULL != ep) {
        *ep = (fab_ofi_ep_t){.peer = peer,
                             .dom = dom,
                             .to = FI_ADDR_NOTAVAIL,
                             .index = FAB_OFI_NO_INDEX,
                             .addr = *addr,
                             .is_local = addr->host == dom->addr.host && addr->pid > 0};
        fab_ses_init(&ep->ses, &dom->ses, peer);
        TAILQ_INIT(&ep->ops);
        TAILQ_INIT(&ep->posted);
        LIST_INSERT_HEAD(NULL != peer ? &dom->eps : &dom->lingering, ep, link);
    }
    return ep;
}

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
        NULL == memchr(addr->provider, 0, sizeof(addr->provider))) {
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
    peer->ep = fab_ofi_ep_new(dom, peer, &addr);
    if (NULL == peer->ep) {
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

void fab_ofi_ep_release(fab_ofi_ep_t *ep)
{
    fab_ofi_domain_t *dom = ep->dom;

    fab_ofi_rma_drop(ep);
    fab_ofi_dequeue(&dom->broken, &ep->broken);
    fab_ses_fini(&ep->ses);
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

    return ep->ses.is_used ? NULL : &ep->spare;
}

fab_moves_t fab_ofi_asked_by_later(fab_peer_t *peer)
{
    fab_ofi_ep_t *ep = peer->ep;

    ep->dom->has_clocks = true;
    return fab_ses_asked_by_later(&ep->ses);
}

void fab_ofi_ask_owed(fab_peer_t *peer)
{
    fab_ofi_ep_t *ep = peer->ep;

    fab_ses_ask_owed(&ep->ses);
}

void fab_ofi_detach(fab_domain_t *domain, fab_peer_t *peer)
{
    fab_ofi_ep_t *ep = peer->ep;

    (void) domain;
    fab_ofi_rma_drop(ep);
    if (fab_ses_close(&ep->ses)) {
        fab_ofi_ep_release(ep);
    }
}

bool fab_ofi_drop(fab_domain_t *domain, fab_peer_t *peer)
{
    fab_ofi_ep_t *ep = peer->ep;

    (void) domain;
    ep->is_dropping = true;
    if (ep->num_xfers > 0) {
        return false; /* libfabric still has the user's memory */
    }
    if (ep->ses.is_broken) {
        fab_ofi_send_drop(ep);
    }
    fab_ses_drop(&ep->ses);
    fab_ofi_ep_release(ep);
    return true;
}
