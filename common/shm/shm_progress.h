/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A progress call, and whether the peers are alive.
 */
#ifndef FAB_SHM_PROGRESS_H
#define FAB_SHM_PROGRESS_H

#include "shm/shm_types.h"

int fab_shm_progress(fab_domain_t *dom);
int fab_shm_poll(void *dom);

/* Check a part of the peers, if it is time. Returns the number of events. */
int fab_shm_tick(fab_shm_domain_t *dom);

#endif /* FAB_SHM_PROGRESS_H */
