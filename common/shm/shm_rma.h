/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get and put.
 */
#ifndef FAB_SHM_RMA_H
#define FAB_SHM_RMA_H

#include "shm/shm_types.h"

int fab_shm_rma(fab_rma_t *op);
bool fab_shm_rma_now(fab_rma_t *op);
int fab_shm_rma_progress(fab_shm_domain_t *dom);

/* The peer failed: complete all its RMA, in error. */
void fab_shm_rma_drop(fab_shm_domain_t *dom, fab_peer_t *peer);

#endif /* FAB_SHM_RMA_H */
