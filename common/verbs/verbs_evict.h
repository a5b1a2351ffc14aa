/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bound on connections (verbs_max_connections): before another one is made, an idle one is given
 * up, in order (verbs_end.h), to be made again when it is needed.
 *
 *      this side: UP ──EVICT──> EVICTING ──EVICTED──> IDLE
 *                                   └──────STAY─────> UP
 *      the other: UP ──EVICT came: EVICTED, if it is idle here, too──> IDLE
 *
 * Nobody waits for room, so nobody waits for each other: if all are busy, there are more for a
 * while.  A connection is busy for as long as a program likes, with a rendezvous for which its
 * receiver has posted no receive.
 *
 * What belongs to the process and not to the connection stays: listed receives, registered memory.
 */
#ifndef FAB_VERBS_EVICT_H
#define FAB_VERBS_EVICT_H

#include "verbs/verbs_types.h"

/* Is nothing under way on it but messages, which will be delivered? */
bool fab_verbs_is_idle(const fab_verbs_conn_t *conn);
/* Another connection is to be made. */
void fab_verbs_make_room(fab_verbs_domain_t *dom);
/* Give up those that are too many in this process, as far as they are idle. */
void fab_verbs_evict_surplus(fab_verbs_domain_t *first);

#endif /* FAB_VERBS_EVICT_H */
