/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Claiming a ring in a peer's segment, and giving it up.
 */
#ifndef FAB_SHM_CONNECT_H
#define FAB_SHM_CONNECT_H

#include "shm/shm_types.h"

/*
 * Map the peer's segment and claim a ring in it: afterwards ep->tx can send.  On an error nothing
 * is left behind, and *why is the reason.  OPAL_ERR_RESOURCE_BUSY (all rings are in use) and
 * OPAL_ERR_OUT_OF_RESOURCE (no memory, or no file descriptor): a later attempt may succeed.
 * OPAL_ERR_IN_PROCESS: the peer was asked for its segment, and answers when it is in MPI.
 * OPAL_ERR_UNREACH: no attempt will succeed.
 */
int fab_shm_connect(fab_shm_ep_t *ep, const char **why);

/* Give up the ring: its owner takes what is in it, and then frees it. Unmap the segment. */
void fab_shm_disconnect(fab_shm_ep_t *ep);

#endif /* FAB_SHM_CONNECT_H */
