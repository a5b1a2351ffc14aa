/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection set-up, and what an end leads to.
 */
#ifndef FAB_TCP_CONNECT_H
#define FAB_TCP_CONNECT_H

#include "tcp/tcp_types.h"

/* Connect to the peer. */
void fab_tcp_connect(fab_tcp_ep_t *ep);

/* If both directions have ended, close it; ep may be gone then. */
void fab_tcp_connect_end_if_done(fab_tcp_ep_t *ep);

/* fab_tcp_domain_t.on_ended. */
void fab_tcp_on_ended(fab_tcp_ep_t *ep, int error);

/* Upcalls of the sockets. */
void fab_tcp_on_proven(fab_sock_t *sock, void *frame);
bool fab_tcp_is_alive(const fab_sock_t *sock);
void fab_tcp_on_frame(fab_sock_t *sock, const void *frame);
void fab_tcp_on_broken(fab_sock_t *sock, const char *why);

#endif /* FAB_TCP_CONNECT_H */
