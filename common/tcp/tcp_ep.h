/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints, and the processes that have none yet.
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

/* ---- processes without an endpoint ---------------------------------------- */

extern const fab_ops_t fab_tcp_known_ops;

/*
 * For fab_peer_t.ep of a process with this address.  NULL: no memory, or the address has several
 * ports.
 */
fab_tcp_known_t *fab_tcp_know(fab_tcp_domain_t *dom, const fab_tcp_addr_t *addr);

/* Is the peer's ep a fab_tcp_known_t? */
bool fab_tcp_is_known(const fab_peer_t *peer);

/* Release it; ep is NULL then. */
void fab_tcp_forget(fab_peer_t *peer);
void fab_tcp_forget_all(fab_tcp_domain_t *dom);

/* The peer's endpoint, made if there is none yet.  NULL: no memory. */
fab_tcp_ep_t *fab_tcp_ep_of(fab_peer_t *peer);

#endif /* FAB_TCP_EP_H */
