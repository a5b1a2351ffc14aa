/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of the device, and whether peers live.
 */
#ifndef FAB_VERBS_ALIVE_H
#define FAB_VERBS_ALIVE_H

#include "verbs/verbs_types.h"

void fab_verbs_async(fab_verbs_domain_t *dom);
void fab_verbs_tick(fab_verbs_domain_t *dom, uint64_t now);
/* All peers fail; what completes the sentence "mlx5_0:1 here ...". */
void fab_verbs_fail_all(fab_verbs_domain_t *dom, const char *what);
/*
 * The device cannot be trusted any more: messages may be lost in it.  It is not used again and all
 * peers fail; what: as above; why: for the log.
 */
void fab_verbs_give_up(fab_verbs_domain_t *dom, const char *what, const char *why);

#endif /* FAB_VERBS_ALIVE_H */
