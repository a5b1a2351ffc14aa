/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is done with messages that came.
 */
#ifndef FAB_VERBS_RECV_H
#define FAB_VERBS_RECV_H

#include "verbs/verbs_types.h"

/* A message came into a receive buffer: deliver it, collect the buffer. */
void fab_verbs_on_recv(fab_verbs_domain_t *dom, const struct ibv_wc *wc);
/* The device matched a message of this connection: at the first completion of one or two. */
void fab_verbs_on_matched(fab_verbs_conn_t *conn);
/* A count of credits came outside of a header. */
void fab_verbs_take_credits(fab_verbs_conn_t *conn, uint16_t taken);

#endif /* FAB_VERBS_RECV_H */
