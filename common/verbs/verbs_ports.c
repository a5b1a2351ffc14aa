/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports of this process, and the pairs that they form with those of a peer.
 *
 * Further ports are known, and in the address, from the start; one is opened when a peer is to be
 * reached by it.  Each is a domain with queues, buffers and a cache of registrations of its own;
 * sockets and address are the first port's.
 *
 * Both processes number the pairs of their ports in the same way, and try them in this order:
 *
 *      0                   the first port of both, which each has chosen as the best
 *      then                ports with the same rail: what is wired alike may share a switch
 *      then                all others
 *
 * by the ports of the process with the smaller name first.  A pair with a flaw is left out: both
 * see the same flaws.
 */
#include "verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* ---- flaws -------------------------------------------------------------- */

static const char *layer(uint8_t link_layer)
{
    return IBV_LINK_LAYER_ETHERNET == link_layer ? "Ethernet" : "InfiniBand";
}

/*
 * InfiniBand: subnets with different prefixes may have a router between them, which the probe of a
 * connection finds out; but the default prefix is that of subnets without configuration.
 */
static const char *subnet_flaw(const fab_verbs_domain_t *dom, const fab_verbs_port_addr_t *own,
                               const fab_verbs_port_addr_t *port)
{
    static const uint8_t standard[8] = {0xfe, 0x80};
    uint16_t part = port->pkey & FAB_VERBS_PKEY_PART;

    if (0 != memcmp(port->gid, own->gid, 8) &&
        (0 == memcmp(port->gid, standard, 8) || 0 == memcmp(own->gid, standard, 8))) {
        return fab_sentence(dom->fab, "its port is in another InfiniBand subnet than %s",
                            dom->name);
    }
    if (part != (own->pkey & FAB_VERBS_PKEY_PART)) {
        return fab_sentence(dom->fab, "its port is in partition 0x%x, %s here in 0x%x", part,
                            dom->name, own->pkey & FAB_VERBS_PKEY_PART);
    }
    return 0 == ((port->pkey | own->pkey) & FAB_VERBS_PKEY_FULL)
               ? fab_sentence(dom->fab, "its port and %s are limited members of partition 0x%x",
                              dom->name, part)
               : NULL;
}

/* NULL, or why the one port cannot reach the other. */
static const char *pair_flaw(const fab_verbs_domain_t *dom, const fab_verbs_addr_t *addr,
                             uint8_t own, uint8_t remote)
{
    const fab_verbs_port_addr_t *here = &dom->addr.ports[own], *there = &addr->ports[remote];

    if (addr->link_layer != dom->addr.link_layer) {
        return fab_sentence(dom->fab, "its port is %s, %s here is %s", layer(addr->link_layer),
                            dom->name, layer(dom->addr.link_layer));
    }
    if (0 != ((addr->flags ^ dom->addr.flags) & FAB_VERBS_ADDR_CM)) {
        return fab_sentence(dom->fab, "its port is %siWARP, %s here is %siWARP",
                            fab_verbs_is_iwarp(dom) ? "not " : "", dom->name,
                            fab_verbs_is_iwarp(dom) ? "" : "not ");
    }
    if (IBV_LINK_LAYER_INFINIBAND == addr->link_layer) {
        return subnet_flaw(dom, here, there);
    }
    return there->gid_type != here->gid_type ? "its port speaks another version of RoCE" : NULL;
}

/* ---- order -------------------------------------------------------------- */

/* When a pair is tried: 0 first. */
static int turn(const fab_verbs_addr_t *one, uint8_t i, const fab_verbs_addr_t *two, uint8_t j)
{
    if (0 == i && 0 == j) {
        return 0;
    }
    return one->ports[i].rail == two->ports[j].rail ? 1 : 2;
}

/* The ports of a pair, those of the process with the smaller name first. */
static bool pair_of(const fab_verbs_addr_t *one, const fab_verbs_addr_t *two, uint32_t pair,
                    uint8_t *i, uint8_t *j)
{
    for (int when = 0; when < 3; when++) {
        for (*i = 0; *i < one->num_ports; ++*i) {
            for (*j = 0; *j < two->num_ports; ++*j) {
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

    while (ports_of(first, name, addr, *pair, own, remote) &&
           NULL != (flaw = pair_flaw(first, addr, *own, *remote))) {
        ++*pair;
    }
    return flaw;
}

/* ---- further ports ------------------------------------------------------ */

static const char *use_named(fab_verbs_domain_t *dom, const fab_verbs_port_name_t *name)
{
    int num = 0;
    struct ibv_device **devices = ibv_get_device_list(&num);
    const char *why = NULL;
    int i = 0;

    while (i < num && 0 != strcmp(ibv_get_device_name(devices[i]), name->device)) {
        i++;
    }
    why = i < num ? fab_verbs_port_use(dom, devices[i], name->num)
                  : fab_sentence(dom->fab, "%s is not there any more.", name->device);
    if (NULL != devices) {
        ibv_free_device_list(devices);
    }
    return why;
}

static const char *port_open(fab_verbs_domain_t *dom)
{
    const fab_verbs_port_name_t *name = &dom->first->names[dom->index];
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = dom};
    const char *why;

    dom->provider = dom->first->provider;
    dom->is_standby = true; /* no receives are listed on it */
    dom->socks = dom->first->socks;
    dom->epoll = dom->first->epoll;
    why = use_named(dom, name);
    why = NULL == why ? fab_verbs_domain_prepare(dom) : why;
    if (NULL == why && 0 != epoll_ctl(dom->epoll, EPOLL_CTL_ADD, dom->ctx->async_fd, &event)) {
        why = fab_sentence(dom->fab, "epoll cannot be used: %s.", strerror(errno));
    }
    return why;
}

fab_verbs_domain_t *fab_verbs_port_domain(fab_verbs_domain_t *first, uint8_t index,
                                          const char **why)
{
    fab_verbs_domain_t *dom = first;

    while (NULL != dom && index != dom->index) {
        dom = dom->next;
    }
    if (NULL != dom) {
        return dom;
    }
    dom = fab_verbs_domain_alloc(first->fab, first);
    if (NULL == dom) {
        *why = "there is not enough memory";
        return NULL;
    }
    dom->index = index;
    *why = port_open(dom);
    if (NULL != *why) {
        fab_log(first->fab, 1, "another port cannot be used: %s", *why);
        fab_verbs_domain_free(dom);
        return NULL;
    }
    dom->next = first->next;
    first->next = dom;
    return dom;
}

fab_verbs_domain_t *fab_verbs_ports_choose(fab_verbs_domain_t *first, uint64_t name,
                                           const fab_verbs_addr_t *addr, uint32_t *pair,
                                           uint8_t *remote, const char **why)
{
    fab_verbs_domain_t *dom = NULL;
    uint8_t own;

    while (NULL == dom) {
        const char *flaw = fab_verbs_pair_find(first, name, addr, pair, &own, remote);
        if (NULL != flaw) {
            *why = flaw;
            return NULL;
        }
        dom = fab_verbs_port_domain(first, own, why);
        *pair += NULL == dom;
    }
    return dom;
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
