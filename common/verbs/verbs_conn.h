/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: the queue pairs of a pair of processes and what is under way on them.
 */
#ifndef FAB_VERBS_CONN_H
#define FAB_VERBS_CONN_H

#include "verbs/verbs_types.h"

/* Make the QPs, in state INIT: their numbers go to the peer. NULL: *why. */
fab_verbs_conn_t *fab_verbs_conn_open(fab_verbs_ep_t *ep, const char **why);
void fab_verbs_set_state(fab_verbs_ep_t *ep, fab_verbs_state_t state);
/* A work request on its QP number is complete, and with it all before it. */
void fab_verbs_conn_complete(fab_verbs_conn_t *conn, const struct ibv_wc *wc);
/*
 * Drain the connection: the device may have begun to receive a message, or received one that was
 * not polled. Stops the QPs and waits until all their completions have been seen; destroying a QP
 * earlier would discard its completions, and the receive buffers with them. Called repeatedly;
 * true: the connection can be destroyed.
 */
bool fab_verbs_conn_drain(fab_verbs_conn_t *conn, uint64_t now);
/* Destroy it at once. Its operations end with this status. */
void fab_verbs_conn_destroy(fab_verbs_conn_t *conn, int status);
/* The endpoint is done with its connection: one that was used lingers, else it is destroyed. */
void fab_verbs_conn_release(fab_verbs_ep_t *ep);
/* Detach it from its endpoint; it ends when all messages on it are delivered. */
void fab_verbs_conn_linger(fab_verbs_conn_t *conn);
void fab_verbs_conn_end_lingering(fab_verbs_domain_t *dom, uint64_t now);

#endif /* FAB_VERBS_CONN_H */
