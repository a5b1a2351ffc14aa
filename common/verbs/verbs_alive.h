/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of the device, and whether peers live.
 */
#ifndef FAB_VERBS_ALIVE_H
#define FAB_VERBS_ALIVE_H

#include "verbs/verbs_types.h"

void fab_verbs_async(fab_verbs_domain_t *dom);
void fab_verbs_tick(fab_verbs_domain_t *dom, uint64_t now);

#endif /* FAB_VERBS_ALIVE_H */
