/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: further connections to a peer.
 */
#ifndef FAB_TCP_LINK_H
#define FAB_TCP_LINK_H

#include "tcp/tcp_types.h"

/* Ask for links to the peer, once: a long message is about to be sent. */
void fab_tcp_links_ask(fab_tcp_ep_t *ep);

/* The peer asks for this link, once more if it has lost it.  NULL: no. */
fab_tcp_ep_t *fab_tcp_link_accept(fab_tcp_ep_t *ep, uint32_t number);

/* The link is up. */
void fab_tcp_link_open(fab_tcp_ep_t *link, int fd, const void *left, size_t left_len);

/* The link could not be made. */
void fab_tcp_link_refused(fab_tcp_ep_t *link);

/* The link has ended, by error (errno, or 0). */
void fab_tcp_link_ended(fab_tcp_ep_t *link, int error);

/* fab_tcp_stream_check() of those on which this process sends. */
void fab_tcp_links_check(const fab_tcp_ep_t *ep);

/* The process leaves: write what links have to write, and read what the peer confirms. */
void fab_tcp_links_leave(const fab_tcp_ep_t *ep);

/* Close all links of an endpoint. */
void fab_tcp_links_close(fab_tcp_ep_t *ep);

/* Free closed links: no event of epoll refers to them any more. */
void fab_tcp_links_reap(fab_tcp_domain_t *dom);

#endif /* FAB_TCP_LINK_H */
