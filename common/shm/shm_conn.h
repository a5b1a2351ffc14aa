/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of the connected endpoints: their processes are checked.
 */
#ifndef FAB_SHM_CONN_H
#define FAB_SHM_CONN_H

#include "shm/shm_types.h"

/* Enter an endpoint that gets tx or in into dom->conns; take it out again if it has neither. */
int fab_shm_conn_add(fab_shm_ep_t *ep);
void fab_shm_conn_remove(fab_shm_ep_t *ep);

#endif /* FAB_SHM_CONN_H */
