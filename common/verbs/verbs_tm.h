/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching hardware.
 */
#ifndef FAB_VERBS_TM_H
#define FAB_VERBS_TM_H

#include "fabric/fab_tm.h"
#include "verbs/verbs_types.h"

/*
 * Make the TM-SRQ and its completion queue, if the device has such and the user wants it.  False:
 * use plain ones.
 */
bool fab_verbs_tm_open(fab_verbs_domain_t *dom);
/* Free the rest, after the queues have been destroyed. */
void fab_verbs_tm_close(fab_verbs_domain_t *dom);
bool fab_verbs_tm_use(fab_domain_t *dom, const fab_tm_user_t *user, void *ctx,
                      fab_tm_device_t *device);
/* May no buffers be given to the device now? */
bool fab_verbs_tm_must_hold(const fab_verbs_domain_t *dom);
/*
 * The QPs of the connection are destroyed: what the device began to receive on them and did not
 * complete is lost.
 */
void fab_verbs_tm_conn_gone(fab_verbs_conn_t *conn);
/* Poll and handle completions; at most a batch. */
int fab_verbs_tm_poll(fab_verbs_domain_t *dom);

#endif /* FAB_VERBS_TM_H */
