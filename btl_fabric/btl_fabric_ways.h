/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways in which an operation is done that need no offer.  The lock is held.
 */
#ifndef BTL_FABRIC_WAYS_H
#define BTL_FABRIC_WAYS_H

#include "btl_fabric_op.h"

/*
 * Do it by messages.  An operation on a failed peer is queued, too, so that its error reaches the
 * layer above after the failure of the peer does.  OPAL_ERR_OUT_OF_RESOURCE: it was not started.
 */
int mca_btl_fabric_op_by_messages(mca_btl_fabric_op_t *op);

/* What the fabric needs to do it; region: the target's memory. */
fab_rma_t mca_btl_fabric_rma_of(const mca_btl_fabric_call_t *call, const fab_region_t *region);

/* The fabric is to do it; op->rma is set. False: it cannot. */
bool mca_btl_fabric_op_by_fabric(mca_btl_fabric_op_t *op);

/* The fabric is to do it, with this memory of the target. False: it cannot, which is counted. */
bool mca_btl_fabric_op_start_rma(mca_btl_fabric_op_t *op, const fab_region_t *region);

/* The target's device is to do an atomic operation. False: it cannot. */
bool mca_btl_fabric_op_start_atomic(mca_btl_fabric_op_t *op, const fab_region_t *region);

/* Do a put or get at once, without a record or an upcall. False: the fabric cannot do so. */
bool mca_btl_fabric_do_now(const mca_btl_fabric_call_t *call, const fab_region_t *region);

#endif /* BTL_FABRIC_WAYS_H */
