/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways in which an operation is done.  The lock is held.
 */
#ifndef BTL_FABRIC_WAYS_H
#define BTL_FABRIC_WAYS_H

#include "btl_fabric_op.h"

/*
 * Do it by messages.  An operation on a failed peer is queued, too, so that its error reaches the
 * layer above after the failure of the peer does.  OPAL_ERR_OUT_OF_RESOURCE: it was not started.
 */
int mca_btl_fabric_op_by_messages(mca_btl_fabric_op_t *op);

/* The fabric is to do it, with this memory of the target. False: it cannot, which is counted. */
bool mca_btl_fabric_op_start_rma(mca_btl_fabric_op_t *op, const fab_region_t *region);

/* The target's device is to do an atomic operation. False: it cannot. */
bool mca_btl_fabric_op_start_atomic(mca_btl_fabric_op_t *op, const fab_region_t *region);

/* Do a put or get at once, without a record or an upcall. False: the fabric cannot do so. */
bool mca_btl_fabric_do_now(const mca_btl_fabric_call_t *call, const fab_region_t *region);

/* Offer the put or get to the target, if that is likely to be faster.  False: it was not. */
bool mca_btl_fabric_offer(const mca_btl_fabric_call_t *call, const fab_region_t *region);

/* The target will not do what it was offered: do it. */
void mca_btl_fabric_offer_declined(mca_btl_fabric_op_t *op);

/* Withdraw the offers that the target has ignored for long. */
void mca_btl_fabric_offers_check(void);

#endif /* BTL_FABRIC_WAYS_H */
