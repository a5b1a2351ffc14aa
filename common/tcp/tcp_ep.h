/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: they are made, and freed.
 */
#ifndef FAB_TCP_EP_H
#define FAB_TCP_EP_H

#include "tcp/tcp_types.h"

/* NULL: no memory. */
fab_tcp_ep_t *fab_tcp_ep_new(fab_tcp_domain_t *dom, fab_peer_t *peer, const fab_tcp_addr_t *addr);

/* Give up the peer's HELLO that is parked here. */
void fab_tcp_ep_unpark(fab_tcp_ep_t *ep);

/* Close the connection, and all links. */
void fab_tcp_ep_close(fab_tcp_ep_t *ep);

void fab_tcp_ep_free(fab_tcp_ep_t *ep);

/* This process closed the peer, and the connection has ended: free both. */
void fab_tcp_ep_finish(fab_tcp_ep_t *ep);

#endif /* FAB_TCP_EP_H */
