/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A progress call.
 */
#ifndef FAB_SHM_PROGRESS_H
#define FAB_SHM_PROGRESS_H

#include "shm/shm_types.h"

int fab_shm_progress(fab_domain_t *dom);
int fab_shm_poll(void *dom);

#endif /* FAB_SHM_PROGRESS_H */
