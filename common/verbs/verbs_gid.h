/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GIDs of RoCE ports.
 */
#ifndef FAB_VERBS_GID_H
#define FAB_VERBS_GID_H

#include "verbs/verbs_types.h"

/*
 * Choose among the port's GIDs, or take the user's; fills gid_index and, of addr, gid and gid_type.
 * NULL, or why there is none.
 */
const char *fab_verbs_gid_choose(fab_verbs_domain_t *dom, struct ibv_context *ctx, uint8_t port);

/* Does verbs_networks allow this address of this interface? */
bool fab_verbs_is_in_networks(const char *interface, const uint8_t *ip);

#endif /* FAB_VERBS_GID_H */
