/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions of matching hardware.
 */
#ifndef FAB_VERBS_TM_POLL_H
#define FAB_VERBS_TM_POLL_H

#include "verbs/verbs_types.h"

/* Poll and handle completions; at most a batch. */
int fab_verbs_tm_poll(fab_verbs_domain_t *dom);

#endif /* FAB_VERBS_TM_POLL_H */
