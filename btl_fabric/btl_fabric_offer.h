/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offers of puts and gets to the target's CPU.  The lock is held.
 */
#ifndef BTL_FABRIC_OFFER_H
#define BTL_FABRIC_OFFER_H

#include "btl_fabric_op.h"

/* Offer the put or get to the target, if that is likely to be faster.  False: it was not. */
bool mca_btl_fabric_offer(const mca_btl_fabric_call_t *call, const fab_region_t *region);

/* The target will not do what it was offered: do it. */
void mca_btl_fabric_offer_declined(mca_btl_fabric_op_t *op);

/* Withdraw the offers that the target has ignored for long. */
void mca_btl_fabric_offers_check(void);

#endif /* BTL_FABRIC_OFFER_H */
