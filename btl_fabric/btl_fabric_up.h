/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Upcalls: what the layer above is to be told once the lock is not held, in order.
 */
#ifndef BTL_FABRIC_UP_H
#define BTL_FABRIC_UP_H

#include "btl_fabric.h"

/* Upcalls per progress call, so that other components get their turn. */
enum { BTL_FABRIC_UPCALLS_MAX = 64 };

/* Add an upcall; mca_btl_fabric_ups_run() will run it. Lock held. */
void mca_btl_fabric_up(mca_btl_fabric_up_t *up, const mca_btl_fabric_up_ops_t *ops);

/*
 * Run upcalls, without the lock.  One may call progress, which then runs those after it.  Returns
 * their number.
 */
int mca_btl_fabric_ups_run(void);

/* Drop the upcalls that have not run: the module is finalized. */
void mca_btl_fabric_ups_fini(void);

#endif /* BTL_FABRIC_UP_H */
