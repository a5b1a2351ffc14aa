/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs of ports, one of each of two processes, over which they may reach each other.  Both number
 * them in the same way, and try them in this order:
 *
 *      0                   the first port of both, which each has chosen as the best
 *      then                ports with the same rail: what is wired alike may share a switch
 *      then                all others
 *
 * by the ports of the process with the smaller name first.  A pair with a flaw is left out: both
 * see the same flaws.
 */
#include "verbs/verbs.h"

#include <stdlib.h>
#include <string.h>

#include "verbs/verbs_cm.h"

/* ---- addresses ---------------------------------------------------------- */

fab_verbs_addr_t fab_verbs_addr_at(const fab_verbs_addr_t *addr, uint8_t port)
{
    fab_verbs_addr_t at = {0};

    memcpy(&at, addr, fab_verbs_addr_len(addr));
    if (port > 0) {
        const fab_verbs_port_addr_t *other = &addr->others[port - 1];
        memcpy(at.gid, other->gid, sizeof(at.gid));
        at.lid = other->lid;
        at.pkey = other->pkey;
        at.mtu = other->mtu;
        at.gid_type = other->gid_type;
        at.flags = other->flags;
        at.rail = other->rail;
        at.speed = other->speed;
    }
    return at;
}

uint16_t fab_verbs_peer_flags(const fab_verbs_ep_t *ep)
{
    return 0 == ep->remote ? ep->addr.flags : ep->addr.others[ep->remote - 1].flags;
}

fab_verbs_ep_t *fab_verbs_ep_new(fab_verbs_domain_t *dom, fab_peer_t *peer,
                                 const fab_verbs_addr_t *addr, uint32_t pair, uint8_t remote)
{
    const size_t len = fab_verbs_addr_len(addr);
    fab_verbs_ep_t *ep = calloc(1, offsetof(fab_verbs_ep_t, addr) + len);

    if (NULL == ep) {
        return NULL;
    }
    ep->peer = peer;
    ep->dom = dom;
    ep->is_local = addr->host == dom->first->addr.host;
    ep->pair = (uint8_t) pair;
    ep->remote = remote;
    memcpy(&ep->addr, addr, len);
    STAILQ_INIT(&ep->ops);
    fab_ses_init(&ep->ses, &dom->first->ses, peer);
    LIST_INSERT_HEAD(&dom->eps, ep, link);
    return ep;
}

/* ---- flaws -------------------------------------------------------------- */

static const char *layer(uint8_t link_layer)
{
    return IBV_LINK_LAYER_ETHERNET == link_layer ? "Ethernet" : "InfiniBand";
}

/*
 * InfiniBand: subnets with different prefixes may have a router between them, which the probe of a
 * connection finds out; but the default prefix is that of subnets without configuration.
 */
static const char *subnet_flaw(const fab_verbs_domain_t *dom, const fab_verbs_addr_t *own,
                               const fab_verbs_addr_t *addr)
{
    static const uint8_t standard[8] = {0xfe, 0x80};
    uint16_t part = addr->pkey & FAB_VERBS_PKEY_PART;

    if (0 != memcmp(addr->gid, own->gid, 8) &&
        (0 == memcmp(addr->gid, standard, 8) || 0 == memcmp(own->gid, standard, 8))) {
        return fab_sentence(dom->fab, "its port is in another InfiniBand subnet than %s",
                            dom->name);
    }
    if (part != (own->pkey & FAB_VERBS_PKEY_PART)) {
        return fab_sentence(dom->fab, "its port is in partition 0x%x, %s here in 0x%x", part,
                            dom->name, own->pkey & FAB_VERBS_PKEY_PART);
    }
    return 0 == ((addr->pkey | own->pkey) & FAB_VERBS_PKEY_FULL)
               ? fab_sentence(dom->fab, "its port and %s are limited members of partition 0x%x",
                              dom->name, part)
               : NULL;
}

/* NULL, or why it cannot be reached. */
static const char *pair_flaw(const fab_verbs_domain_t *dom, const fab_verbs_addr_t *own,
                             const fab_verbs_addr_t *addr)
{
    if (addr->link_layer != own->link_layer) {
        return fab_sentence(dom->fab, "its port is %s, %s here is %s", layer(addr->link_layer),
                            dom->name, layer(own->link_layer));
    }
    if (0 != ((addr->flags ^ own->flags) & FAB_VERBS_ADDR_CM)) {
        return fab_sentence(dom->fab, "its port is %siWARP, %s here is %siWARP",
                            dom->cm_ops->is_iwarp ? "not " : "", dom->name,
                            dom->cm_ops->is_iwarp ? "" : "not ");
    }
    if (IBV_LINK_LAYER_ETHERNET == addr->link_layer && addr->gid_type != own->gid_type) {
        return "its port speaks another version of RoCE";
    }
    return IBV_LINK_LAYER_INFINIBAND == addr->link_layer ? subnet_flaw(dom, own, addr) : NULL;
}

/* ---- order -------------------------------------------------------------- */

static uint8_t rail(const fab_verbs_addr_t *addr, uint8_t port)
{
    return 0 == port ? addr->rail : addr->others[port - 1].rail;
}

/* When a pair is tried: 0 first. */
static int turn(const fab_verbs_addr_t *one, uint8_t i, const fab_verbs_addr_t *two, uint8_t j)
{
    if (0 == i && 0 == j) {
        return 0;
    }
    return rail(one, i) == rail(two, j) ? 1 : 2;
}

/* The ports of a pair, those of the process with the smaller name first. */
static bool pair_of(const fab_verbs_addr_t *one, const fab_verbs_addr_t *two, uint32_t pair,
                    uint8_t *i, uint8_t *j)
{
    for (int when = 0; when < 3; when++) {
        for (*i = 0; *i <= one->num_others; ++*i) {
            for (*j = 0; *j <= two->num_others; ++*j) {
                if (when == turn(one, *i, two, *j) && 0 == pair--) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* The same, this process's and the other's. */
static bool ports_of(const fab_verbs_domain_t *first, uint64_t name, const fab_verbs_addr_t *addr,
                     uint32_t pair, uint8_t *own, uint8_t *remote)
{
    return first->fab->config.name < name ? pair_of(&first->addr, addr, pair, own, remote)
                                          : pair_of(addr, &first->addr, pair, remote, own);
}

const char *fab_verbs_pair_find(const fab_verbs_domain_t *first, uint64_t name,
                                const fab_verbs_addr_t *addr, uint32_t *pair, uint8_t *own,
                                uint8_t *remote)
{
    const char *flaw = "there is no other port";

    for (; ports_of(first, name, addr, *pair, own, remote); ++*pair) {
        fab_verbs_addr_t here = fab_verbs_addr_at(&first->addr, *own);
        fab_verbs_addr_t there = fab_verbs_addr_at(addr, *remote);
        flaw = pair_flaw(first, &here, &there);
        if (NULL == flaw) {
            break;
        }
    }
    return flaw;
}
