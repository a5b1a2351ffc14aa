/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages striped over the connection to a peer and its links.
 */
#ifndef FAB_TCP_STRIPE_H
#define FAB_TCP_STRIPE_H

#include "tcp/tcp_types.h"

/*
 * As fab_tcp_stream_send_from(), striped over all links that are ready.  Then out->len is set to
 * what goes at once of all bytes.
 */
int fab_tcp_stripe_send(fab_tcp_ep_t *ep, fab_hdr_t hdr, fab_out_t *out, size_t all);

/* The peer has so many pieces of this link: they are done, and the others are written. */
void fab_tcp_link_go_on(fab_tcp_ep_t *link, uint64_t got);

/* CONFIRM came. */
void fab_tcp_link_confirmed(fab_tcp_ep_t *link, fab_hdr_t hdr, size_t len);

/* The peer has the pieces of a link before number `until`, or they are given up. */
void fab_tcp_stripe_release(fab_tcp_ep_t *link, uint64_t until, int status);

/* STRIPE came. */
void fab_tcp_stripe_announced(fab_tcp_ep_t *ep, fab_hdr_t hdr);

/*
 * A part of len bytes begins: its destination.  NULL: it has to wait, or is illegal.  With
 * the part of an endpoint, what its links carry may be read: they are to be resumed.
 */
char *fab_tcp_stripe_place(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len);

/* The part is at its destination.  True: the message is complete, and was delivered. */
bool fab_tcp_stripe_done(fab_tcp_ep_t *ep);

/* Does the striped message that is arriving wait for a link that was lost? */
bool fab_tcp_stripe_is_lost(const fab_tcp_ep_t *ep);

#endif /* FAB_TCP_STRIPE_H */
