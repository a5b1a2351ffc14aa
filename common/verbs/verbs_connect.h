/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection set-up by frames over TCP.
 */
#ifndef FAB_VERBS_CONNECT_H
#define FAB_VERBS_CONNECT_H

#include "verbs/verbs_types.h"

enum {
    /* limit for connection requests under way at a time: each takes a file descriptor */
    FAB_VERBS_MAX_ASKING = 64,
};

/* Request a connection, which begins when its turn comes; no effect if one is being made. */
void fab_verbs_connect(fab_verbs_ep_t *ep);
void fab_verbs_connect_waiting(fab_verbs_domain_t *dom);
/* Drop all that is under way: sockets, place in the queue. */
void fab_verbs_connect_cancel(fab_verbs_ep_t *ep);
/* Active side: REPLY came, and the QPs are being made ready. */
void fab_verbs_connect_replied(fab_verbs_ep_t *ep);
/* Active side: the QPs are ready. Ends in fab_verbs_connected() or fab_verbs_connect_failed(). */
void fab_verbs_connect_probe(fab_verbs_ep_t *ep);
/* The peer's QP receives: send. */
void fab_verbs_connect_done(fab_verbs_ep_t *ep);

/* A frame without queue pairs. */
fab_verbs_frame_t fab_verbs_frame(const fab_verbs_domain_t *dom, fab_verbs_kind_t kind,
                                  uint64_t target);
/* One of an endpoint with a connection. */
fab_verbs_frame_t fab_verbs_frame_of(const fab_verbs_ep_t *ep, fab_verbs_kind_t kind);

#endif /* FAB_VERBS_CONNECT_H */
