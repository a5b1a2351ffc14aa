/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One progress call.
 */
#ifndef FAB_VERBS_PROGRESS_H
#define FAB_VERBS_PROGRESS_H

#include "verbs/verbs_types.h"

int fab_verbs_progress(fab_domain_t *dom);
/* A sleep has ended, by something that came. */
void fab_verbs_is_awake(fab_domain_t *dom);
int fab_verbs_poll_send(fab_verbs_domain_t *dom);

#endif /* FAB_VERBS_PROGRESS_H */
