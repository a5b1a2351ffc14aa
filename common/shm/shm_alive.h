/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Are the peers alive?
 */
#ifndef FAB_SHM_ALIVE_H
#define FAB_SHM_ALIVE_H

#include "shm/shm_types.h"

/* Check a part of the peers, if it is time. Returns the number of events. */
int fab_shm_tick(fab_shm_domain_t *dom);

#endif /* FAB_SHM_ALIVE_H */
