/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offers of puts and gets to the target's CPU.  The lock is held.
 */
#ifndef BTL_FABRIC_OFFER_H
#define BTL_FABRIC_OFFER_H

#include "btl_fabric_op.h"

/*
 * Offer the put or get to the target, if that is likely to be fastest.  False: it was not offered;
 * it belongs to *try then, which has begun, and mca_btl_fabric_try_ended() is to be called.
 */
bool mca_btl_fabric_offer(const mca_btl_fabric_call_t *call, const fab_region_t *region,
                          mca_btl_fabric_try_t *try);

/* The target will not do what it was offered: do it. */
void mca_btl_fabric_offer_declined(mca_btl_fabric_op_t *op);

/* Withdraw the offers that the target has ignored for long. */
void mca_btl_fabric_offers_check(void);

#endif /* BTL_FABRIC_OFFER_H */
