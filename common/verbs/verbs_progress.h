/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is done with completions.
 */
#ifndef FAB_VERBS_PROGRESS_H
#define FAB_VERBS_PROGRESS_H

#include "verbs/verbs_types.h"

enum {
    /* completions per poll: one call, and other work waits for no more */
    FAB_VERBS_BATCH = 32,
};

int fab_verbs_progress(fab_domain_t *dom);
/* A message came into a receive buffer: deliver it, collect the buffer. */
void fab_verbs_on_recv(fab_verbs_domain_t *dom, const struct ibv_wc *wc);
/* The device matched a message of this connection: at the first completion of one or two. */
void fab_verbs_on_matched(fab_verbs_conn_t *conn);
/* A count of credits came outside of a header. */
void fab_verbs_take_credits(fab_verbs_conn_t *conn, uint16_t taken);
int fab_verbs_poll_send(fab_verbs_domain_t *dom);

#endif /* FAB_VERBS_PROGRESS_H */
