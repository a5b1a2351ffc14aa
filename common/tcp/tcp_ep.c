/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints; and processes that are known and were not sent to: their address, in 32 bytes each.
 *
 * fab_peer_t.ep is a fab_tcp_known_t until the process is first sent to, or asks for a connection;
 * then it becomes a fab_tcp_ep_t, and stays one. What all processes of a host have in common is
 * kept once (fab_tcp_host_t). Records lie in slabs, which the domain frees at its end.
 */
#include "tcp/tcp.h"

#include <stdlib.h>
#include <string.h>

enum { FAB_TCP_SLAB = 1024 }; /* records: 32 KiB */

struct fab_tcp_known {
    union {
        fab_tcp_host_t *host;  /* where an endpoint has its peer */
        fab_tcp_known_t *next; /* of a free record */
    };
    uint8_t key[FAB_SOCK_KEY];
    uint16_t port;
};

_Static_assert(32 == sizeof(fab_tcp_known_t), "the file's head says so");
_Static_assert(0 == offsetof(fab_tcp_ep_t, peer), "it tells an endpoint from a known process");

struct fab_tcp_slab {
    fab_tcp_slab_t *next;
    fab_tcp_known_t known[FAB_TCP_SLAB];
};

/* What the addresses of a host's processes have in common. */
struct fab_tcp_host {
    fab_tcp_host_t *next; /* in its bucket */
    fab_tcp_domain_t *dom;
    uint32_t num; /* processes that refer to it */
    uint32_t eager_max;
    uint64_t host;
    uint8_t num_ips;
    uint8_t num_left_out;
    fab_sock_ip_t ips[]; /* without their port */
};

/* ---- hosts -------------------------------------------------------------- */

static fab_tcp_host_t **bucket_of(fab_tcp_domain_t *dom, uint64_t host)
{
    return &dom->hosts[host * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (FAB_TCP_HOSTS - 1)];
}

static bool is_same(const fab_tcp_host_t *host, const fab_tcp_addr_t *addr)
{
    return host->host == addr->host && host->eager_max == addr->eager_max &&
           host->num_ips == addr->num_ips && host->num_left_out == addr->num_left_out &&
           0 == memcmp(host->ips, addr->ips, addr->num_ips * sizeof(addr->ips[0]));
}

/* Of this address, whose ports are 0.  NULL: no memory. */
static fab_tcp_host_t *host_get(fab_tcp_domain_t *dom, const fab_tcp_addr_t *addr)
{
    fab_tcp_host_t **bucket = bucket_of(dom, addr->host);
    fab_tcp_host_t *host = *bucket;
    size_t len = addr->num_ips * sizeof(addr->ips[0]);

    while (NULL != host && !is_same(host, addr)) {
        host = host->next;
    }
    if (NULL == host) {
        host = malloc(sizeof(*host) + len);
        if (NULL == host) {
            return NULL;
        }
        *host = (fab_tcp_host_t){.next = *bucket,
                                 .dom = dom,
                                 .eager_max = addr->eager_max,
                                 .host = addr->host,
                                 .num_ips = addr->num_ips,
                                 .num_left_out = addr->num_left_out};
        memcpy(host->ips, addr->ips, len);
        *bucket = host;
    }
    host->num++;
    return host;
}

static void host_put(fab_tcp_host_t *host)
{
    fab_tcp_host_t **at = bucket_of(host->dom, host->host);

    if (0 == --host->num) {
        while (*at != host) {
            at = &(*at)->next;
        }
        *at = host->next;
        free(host);
    }
}

/* ---- records ------------------------------------------------------------ */

static fab_tcp_known_t *known_alloc(fab_tcp_domain_t *dom)
{
    fab_tcp_known_t *known = dom->free_known;
    fab_tcp_slab_t *slab;

    if (NULL != known) {
        dom->free_known = known->next;
        return known;
    }
    slab = malloc(sizeof(*slab));
    if (NULL == slab) {
        return NULL;
    }
    slab->next = dom->slabs;
    dom->slabs = slab;
    for (int i = 1; i < FAB_TCP_SLAB; i++) {
        slab->known[i].next = dom->free_known;
        dom->free_known = &slab->known[i];
    }
    return &slab->known[0];
}

/* What is common to the host, and the port.  False: there are several ports. */
static bool split(const fab_tcp_addr_t *addr, fab_tcp_addr_t *common, uint16_t *port)
{
    *common = *addr;
    *port = addr->ips[0].port;
    for (int i = 0; i < addr->num_ips; i++) {
        common->ips[i].port = 0;
        if (addr->ips[i].port != *port) {
            return false;
        }
    }
    return true;
}

static fab_tcp_addr_t join(const fab_tcp_known_t *known)
{
    const fab_tcp_host_t *host = known->host;
    fab_tcp_addr_t addr = {.version = FAB_TCP_VERSION,
                           .num_ips = host->num_ips,
                           .num_left_out = host->num_left_out,
                           .eager_max = host->eager_max,
                           .host = host->host};

    memcpy(addr.key, known->key, sizeof(addr.key));
    memcpy(addr.ips, host->ips, host->num_ips * sizeof(addr.ips[0]));
    for (int i = 0; i < addr.num_ips; i++) {
        addr.ips[i].port = known->port;
    }
    return addr;
}

bool fab_tcp_is_known(const fab_peer_t *peer)
{
    return *(void **) peer->ep != peer;
}

fab_tcp_known_t *fab_tcp_know(fab_tcp_domain_t *dom, const fab_tcp_addr_t *addr)
{
    fab_tcp_addr_t common;
    fab_tcp_known_t *known;
    uint16_t port;

    if (!split(addr, &common, &port)) {
        return NULL;
    }
    known = known_alloc(dom);
    if (NULL == known) {
        return NULL;
    }
    *known = (fab_tcp_known_t){.host = host_get(dom, &common), .port = port};
    memcpy(known->key, addr->key, sizeof(known->key));
    if (NULL == known->host) {
        known->next = dom->free_known;
        dom->free_known = known;
        return NULL;
    }
    return known;
}

void fab_tcp_forget(fab_peer_t *peer)
{
    fab_tcp_known_t *known = peer->ep;
    fab_tcp_domain_t *dom = known->host->dom;

    host_put(known->host);
    known->next = dom->free_known;
    dom->free_known = known;
    peer->ep = NULL;
}

fab_tcp_ep_t *fab_tcp_ep_of(fab_peer_t *peer)
{
    if (fab_tcp_is_known(peer)) {
        const fab_tcp_known_t *known = peer->ep;
        fab_tcp_addr_t addr = join(known);
        fab_tcp_ep_t *ep = fab_tcp_ep_new(known->host->dom, peer, &addr);
        if (NULL == ep) {
            return NULL;
        }
        fab_tcp_forget(peer);
        peer->ep = ep;
        if (&fab_tcp_known_ops == peer->ops) {
            peer->ops = ep->dom->provider->ops;
        }
    }
    return peer->ep;
}

void fab_tcp_forget_all(fab_tcp_domain_t *dom)
{
    while (NULL != dom->slabs) {
        fab_tcp_slab_t *slab = dom->slabs;
        dom->slabs = slab->next;
        free(slab);
    }
    for (int i = 0; i < FAB_TCP_HOSTS; i++) {
        while (NULL != dom->hosts[i]) {
            fab_tcp_host_t *host = dom->hosts[i];
            dom->hosts[i] = host->next;
            free(host);
        }
    }
}

/* ---- the first message -------------------------------------------------- */

/* Of a peer with an endpoint. */
static const fab_ops_t *ops_of(const fab_peer_t *peer)
{
    const fab_tcp_ep_t *ep = peer->ep;

    return ep->dom->provider->ops;
}

/* False: the peer has failed. */
static bool begin(fab_peer_t *peer)
{
    if (NULL == fab_tcp_ep_of(peer)) {
        fab_peer_fail(peer, OPAL_ERR_OUT_OF_RESOURCE,
                      "There is not enough memory here for a connection to it.");
        return false;
    }
    return true;
}

static int known_send(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    return begin(peer) ? ops_of(peer)->send(peer, hdr, buf, len) : OPAL_ERR_UNREACH;
}

static void *known_reserve(fab_peer_t *peer, size_t max_len)
{
    return begin(peer) ? ops_of(peer)->reserve(peer, max_len) : NULL;
}

static int known_send_from(fab_peer_t *peer, fab_hdr_t hdr, fab_out_t *out)
{
    return begin(peer) ? ops_of(peer)->send_from(peer, hdr, out) : OPAL_ERR_UNREACH;
}

static void known_commit(fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    (void) peer, (void) hdr, (void) len; /* nothing was reserved */
}

/* ---- the table ---------------------------------------------------------- */

const fab_ops_t fab_tcp_known_ops = {
    .send = known_send,
    .reserve = known_reserve,
    .commit = known_commit,
    .send_from = known_send_from,
};

/* ---- endpoints --------------------------------------------------------- */

fab_tcp_ep_t *fab_tcp_ep_new(fab_tcp_domain_t *dom, fab_peer_t *peer, const fab_tcp_addr_t *addr)
{
    fab_tcp_ep_t *ep = malloc(sizeof(*ep));

    if (NULL == ep) {
        return NULL;
    }
    *ep = (fab_tcp_ep_t){
        .peer = peer,
        .dom = dom,
        .fd = -1,
        .is_local = addr->host == dom->addr.host ||
                    fab_sock_is_one_net(dom->addr.ips, dom->addr.num_ips, addr->ips, addr->num_ips),
        .addr = *addr};
    fab_ses_init(&ep->ses, &dom->ses, peer);
    LIST_INSERT_HEAD(&dom->eps, ep, entry);
    return ep;
}

void fab_tcp_ep_close(fab_tcp_ep_t *ep)
{
    fab_tcp_links_close(ep);
    fab_tcp_stream_close(ep);
}

void fab_tcp_ep_free(fab_tcp_ep_t *ep)
{
    fab_tcp_stream_cancel(ep);
    fab_ses_fini(&ep->ses);
    if (FAB_TCP_UP == ep->state) {
        fab_tcp_ep_close(ep);
    }
    if (ep == ep->dom->to_check) {
        ep->dom->to_check = LIST_NEXT(ep, entry);
    }
    LIST_REMOVE(ep, entry);
    free(ep);
}

void fab_tcp_ep_finish(fab_tcp_ep_t *ep)
{
    fab_peer_t *peer = ep->peer;

    peer->ep = NULL;
    fab_tcp_ep_free(ep);
    fab_peer_left(peer);
}
