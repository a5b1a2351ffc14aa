/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that are known and were not sent to: what of their address is not the same as in that
 * of this process, in some 100 bytes.
 *
 * fab_peer_t.ep is a fab_ofi_known_t until the process is first sent to, its memory is used, or it
 * asks for a session; then it becomes a fab_ofi_ep_t, and stays one.
 */
#include "ofi/ofi.h"

#include <stdlib.h>
#include <string.h>

struct fab_ofi_known {
    fab_ofi_domain_t *dom;          /* where an endpoint has its peer */
    LIST_ENTRY(fab_ofi_known) link; /* in dom->known */
    void *spare;                    /* the fabric's: fab_provider_t.spare */
    uint64_t host;
    uint64_t start_time;
    uint8_t key[FAB_OFI_KEY];
    uint32_t pid;
    uint32_t eager_max;
    uint32_t flags;
    uint8_t name[]; /* as long as that of this process */
};

_Static_assert(0 == offsetof(fab_ofi_ep_t, peer), "it tells an endpoint from a known process");

/* ---- addresses ----------------------------------------------------------- */

bool fab_ofi_is_name(const fab_ofi_addr_t *addr)
{
    return FI_ADDR_STR != addr->addr_format || 0 == addr->name[sizeof(addr->name) - 1];
}

static fab_ofi_addr_t join(const fab_ofi_known_t *known)
{
    fab_ofi_addr_t addr = known->dom->addr;

    addr.eager_max = known->eager_max;
    addr.flags = known->flags;
    addr.pid = known->pid;
    addr.host = known->host;
    addr.start_time = known->start_time;
    memcpy(addr.key, known->key, sizeof(addr.key));
    memcpy(addr.name, known->name, addr.name_len);
    return addr;
}

/* NULL: no memory, or there is more in the address. */
static fab_ofi_known_t *known_new(fab_ofi_domain_t *dom, const fab_ofi_addr_t *addr)
{
    const size_t name_len = dom->addr.name_len;
    fab_ofi_known_t *known = malloc(sizeof(*known) + name_len);
    fab_ofi_addr_t joined;

    if (NULL == known) {
        return NULL;
    }
    *known = (fab_ofi_known_t){.dom = dom,
                               .host = addr->host,
                               .start_time = addr->start_time,
                               .pid = addr->pid,
                               .eager_max = addr->eager_max,
                               .flags = addr->flags};
    memcpy(known->key, addr->key, sizeof(known->key));
    memcpy(known->name, addr->name, name_len);
    joined = join(known);
    if (0 != memcmp(&joined, addr, sizeof(joined))) {
        free(known);
        return NULL;
    }
    LIST_INSERT_HEAD(&dom->known, known, link);
    return known;
}

/* All but what it keeps for the fabric. */
static void known_free(fab_ofi_known_t *known)
{
    LIST_REMOVE(known, link);
    free(known);
}

static fab_ofi_ep_t *ep_new(fab_ofi_domain_t *dom, fab_peer_t *peer, const fab_ofi_addr_t *addr)
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
        LIST_INSERT_HEAD(&dom->eps, ep, link);
    }
    return ep;
}

/* ---- operations: the first makes an endpoint ----------------------------- */

bool fab_ofi_is_known(const fab_peer_t *peer)
{
    return *(void **) peer->ep != peer;
}

void **fab_ofi_known_spare(const fab_peer_t *peer)
{
    fab_ofi_known_t *known = peer->ep;

    return &known->spare;
}

void fab_ofi_forget(fab_peer_t *peer)
{
    fab_ofi_known_t *known = peer->ep;

    free(known->spare);
    known_free(known);
    peer->ep = NULL;
}

void fab_ofi_forget_all(fab_ofi_domain_t *dom)
{
    while (!LIST_EMPTY(&dom->known)) {
        fab_ofi_known_t *known = LIST_FIRST(&dom->known);
        free(known->spare);
        known_free(known);
    }
}

fab_ofi_ep_t *fab_ofi_ep_of(fab_peer_t *peer)
{
    if (fab_ofi_is_known(peer)) {
        fab_ofi_known_t *known = peer->ep;
        const fab_ofi_addr_t addr = join(known);
        fab_ofi_ep_t *ep = ep_new(known->dom, peer, &addr);
        if (NULL == ep) {
            return NULL;
        }
        ep->spare = known->spare;
        known_free(known);
        peer->ep = ep;
        if (&fab_ofi_known_ops == peer->ops) {
            peer->ops = ep->dom->provider->ops;
        }
    }
    return peer->ep;
}

/* The operations of a peer that has an endpoint from now on.  NULL: the peer has failed. */
static const fab_ops_t *begin(fab_peer_t *peer)
{
    const fab_ofi_ep_t *ep = fab_ofi_ep_of(peer);

    if (NULL == ep) {
        fab_peer_fail(peer, OPAL_ERR_OUT_OF_RESOURCE,
                      "There is not enough memory here for a session with it.");
        return NULL;
    }
    return ep->dom->provider->ops;
}

static int known_send(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    const fab_ops_t *ops = begin(peer);

    return NULL != ops ? ops->send(peer, hdr, data, len) : OPAL_ERR_UNREACH;
}

static void *known_reserve(fab_peer_t *peer, size_t max_len)
{
    const fab_ops_t *ops = begin(peer);

    return NULL != ops ? ops->reserve(peer, max_len) : NULL;
}

static void known_commit(fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    (void) peer, (void) hdr, (void) len; /* nothing was reserved */
}

static int known_expose(fab_peer_t *peer, const void *buf, size_t len, unsigned access,
                        fab_rkey_t *rkey)
{
    const fab_ops_t *ops = begin(peer);

    return NULL != ops ? ops->expose(peer, buf, len, access, rkey) : OPAL_ERR_UNREACH;
}

static void known_unexpose(fab_peer_t *peer, fab_rkey_t *rkey)
{
    (void) peer, (void) rkey; /* nothing was exposed */
}

static int known_rma(fab_rma_t *rma)
{
    const fab_ops_t *ops = begin(rma->peer);

    return NULL != ops ? ops->rma(rma) : OPAL_ERR_UNREACH;
}

const fab_ops_t fab_ofi_known_ops = {
    .send = known_send,
    .reserve = known_reserve,
    .commit = known_commit,
    .expose = known_expose,
    .unexpose = known_unexpose,
    .rma = known_rma,
};

bool fab_ofi_know(fab_ofi_domain_t *dom, fab_peer_t *peer, const fab_ofi_addr_t *addr)
{
    peer->ep = known_new(dom, addr);
    if (NULL != peer->ep) {
        peer->ops = &fab_ofi_known_ops;
        return true;
    }
    peer->ep = ep_new(dom, peer, addr);
    return NULL != peer->ep;
}
