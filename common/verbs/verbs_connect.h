/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection set-up by frames over TCP.
 */
#ifndef FAB_VERBS_CONNECT_H
#define FAB_VERBS_CONNECT_H

#include "sock/sock.h"
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
/* The peer's QP receives: send. */
void fab_verbs_connect_done(fab_verbs_ep_t *ep);
/* iWARP, active side: the QP is connected, or cannot be; why is a sentence. */
void fab_verbs_connected(fab_verbs_ep_t *ep);
void fab_verbs_connect_failed(fab_verbs_ep_t *ep, const char *why);

/* What the sockets (verbs_oob.c) report. */
void fab_verbs_on_frame(fab_sock_t *sock, const void *frame);
void fab_verbs_on_broken(fab_sock_t *sock, const char *why);

#endif /* FAB_VERBS_CONNECT_H */
