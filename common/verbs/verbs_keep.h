/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a connection that broke, for the next one, by other ports.
 *
 * No device knows which of the unacknowledged messages have arrived.  So each side says, when they
 * connect again, how many it has received (fab_verbs_frame_t.received, counted over all connections
 * that broke), and the other sends what comes after these again, before anything new.  A message in
 * a buffer is there still; one that went inline is, if it was composed in conn->composed.
 */
#ifndef FAB_VERBS_KEEP_H
#define FAB_VERBS_KEEP_H

#include "verbs/verbs_types.h"

/* Can its messages be kept, once it breaks?  Not what a device has matched. */
bool fab_verbs_can_keep(const fab_verbs_conn_t *conn);
/* It broke: messages that end in error are kept from now on. */
void fab_verbs_keep_begin(fab_verbs_conn_t *conn);
/* The oldest work request has ended in error. */
void fab_verbs_keep_oldest(const fab_verbs_conn_t *conn);
/* The connection is drained, and will be destroyed. */
void fab_verbs_keep_end(fab_verbs_conn_t *conn);

/* fab_verbs_frame_t.received of this side; 0: no connection broke. */
uint32_t fab_verbs_keep_received(const fab_verbs_ep_t *ep);
/* The other side's, for a new connection.  False: the two do not fit together. */
bool fab_verbs_keep_go_on(fab_verbs_conn_t *conn, uint32_t received);
/* Send again what can be now, by the connections that are up. */
void fab_verbs_keep_send(fab_verbs_domain_t *dom);
void fab_verbs_keep_free(fab_verbs_ep_t *ep);

#endif /* FAB_VERBS_KEEP_H */
