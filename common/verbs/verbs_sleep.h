/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions that end a sleep: see fab_sleep().
 */
#ifndef FAB_VERBS_SLEEP_H
#define FAB_VERBS_SLEEP_H

#include "verbs/verbs_types.h"

/* Before the completion queues are made: what they report to.  Without it sleeps just end later. */
void fab_verbs_sleep_open(fab_verbs_domain_t *dom);
/* After they are destroyed. */
void fab_verbs_sleep_close(fab_verbs_domain_t *dom);
/* Watch it with the sockets, as soon as both exist. */
void fab_verbs_sleep_watch(fab_verbs_domain_t *dom);
/*
 * The next completion is an event.  What came before is not: poll once more.  False: there is
 * nothing to arm.
 */
bool fab_verbs_sleep_arm(fab_verbs_domain_t *dom);
/* Take the events. */
void fab_verbs_sleep_disarm(fab_verbs_domain_t *dom);

#endif /* FAB_VERBS_SLEEP_H */
