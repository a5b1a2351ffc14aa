/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's process has died.
 */
#ifndef FAB_SHM_DIED_H
#define FAB_SHM_DIED_H

#include "shm/shm_types.h"

/* The peer's process is dead: fail the peer once all that it sent is delivered. */
void fab_shm_ep_died(fab_shm_ep_t *ep);

#endif /* FAB_SHM_DIED_H */
