/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: how they come and go. */
#include "tcp/tcp.h"

#include <stdlib.h>

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
    if (fab_tcp_is_up(ep)) {
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
