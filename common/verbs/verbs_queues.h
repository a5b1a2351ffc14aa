/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The domain's queues and buffers, which are made when they are needed.
 */
#ifndef FAB_VERBS_QUEUES_H
#define FAB_VERBS_QUEUES_H

#include "verbs/verbs_types.h"

/* Queues and buffers are needed: make them, if that was not done. NULL, or why that cannot be. */
const char *fab_verbs_start(fab_verbs_domain_t *dom);
/* Destroy what fab_verbs_start() made; no connection is left. */
void fab_verbs_stop(fab_verbs_domain_t *dom);

#endif /* FAB_VERBS_QUEUES_H */
