/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Polling the fabric.
 */
#ifndef BTL_FABRIC_PROGRESS_H
#define BTL_FABRIC_PROGRESS_H

#include "btl_fabric.h"

/* Poll the fabric, and run upcalls. */
int mca_btl_fabric_progress(void);

/*
 * What opal_progress() calls.  The fabric is polled once for each call: not here if the PML does,
 * nor if nobody can be reached.
 */
int mca_btl_fabric_opal_progress(void);

#endif /* BTL_FABRIC_PROGRESS_H */
