/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations under way: what the files that start, offer and end them have in common.  The lock is
 * held, but for mca_btl_fabric_call_back().
 */
#ifndef BTL_FABRIC_OP_H
#define BTL_FABRIC_OP_H

#include "btl_fabric.h"

enum {
    BTL_FABRIC_TRUST = 4,          /* a target that was silent so many times in a row ... */
    BTL_FABRIC_TRUST_SKIPPED = 64, /* ... is tried only with one in so many operations */
    BTL_FABRIC_OPS_MAX = 4096,     /* under way with an endpoint; each takes some 400 bytes */
};

/* Is it likely that the target is inside MPI and polls? */
static inline bool mca_btl_fabric_is_attentive(mca_btl_fabric_trust_t *trust)
{
    return trust->ignored < BTL_FABRIC_TRUST || 0 == ++trust->skipped % BTL_FABRIC_TRUST_SKIPPED;
}

/* ---- btl_fabric_op.c ---------------------------------------------------- */

/* A new operation; NULL: there is no memory. */
mca_btl_fabric_op_t *mca_btl_fabric_op_new(const mca_btl_fabric_call_t *call);

/* It could not be started: free it. */
void mca_btl_fabric_op_cancel(mca_btl_fabric_op_t *op);

/* Add it to the operations that wait for the peer's answer. */
void mca_btl_fabric_op_wait(mca_btl_fabric_op_t *op);

/* It waits for no answer any more. */
void mca_btl_fabric_op_unwait(mca_btl_fabric_op_t *op);

/* It has ended: its callback, if it has one, is an upcall. */
void mca_btl_fabric_op_done(mca_btl_fabric_op_t *op, int status);

/*
 * For a flush: the number of the latest turn; mca_btl_fabric.oldest is above it once all operations
 * that have been started are done.  If the caller runs in callbacks, it does not wait for these.
 */
uint64_t mca_btl_fabric_last_turn(void);

/* Does this thread run the callback of an operation? */
bool mca_btl_fabric_in_callback(void);

/* The operation has ended: call the callback, if there is one. Lock not held. */
void mca_btl_fabric_call_back(const mca_btl_fabric_call_t *call, int status);

/* ---- btl_fabric_rma.c --------------------------------------------------- */

/*
 * Do it by messages.  An operation on a failed peer is queued, too, so that its error reaches the
 * layer above after the failure of the peer does.  OPAL_ERR_OUT_OF_RESOURCE: it was not started.
 */
int mca_btl_fabric_op_by_messages(mca_btl_fabric_op_t *op);

/* What the fabric needs to do it; region: the target's memory. */
fab_rma_t mca_btl_fabric_rma_of(const mca_btl_fabric_call_t *call, const fab_region_t *region);

/* The fabric is to do it; op->rma is set. False: it cannot. */
bool mca_btl_fabric_op_by_fabric(mca_btl_fabric_op_t *op);

/* It waits for no answer in place any more. */
void mca_btl_fabric_asking_end(mca_btl_fabric_op_t *op);

/* ---- btl_fabric_offer.c ------------------------------------------------- */

/*
 * Offer the put or get to the target, if that is likely to be fastest.  False: it was not offered;
 * it belongs to *try then, which has begun, and mca_btl_fabric_try_ended() is to be called.
 */
bool mca_btl_fabric_offer(const mca_btl_fabric_call_t *call, const fab_region_t *region,
                          mca_btl_fabric_try_t *try);

/* An operation of that many bytes, which belongs to this try or to none, has ended. */
void mca_btl_fabric_try_ended(const mca_btl_fabric_try_t *try, size_t len);

/* The target will not do what it was offered: do it. */
void mca_btl_fabric_offer_declined(mca_btl_fabric_op_t *op);

/* The operation is no offer any more: it was answered, withdrawn, or its peer has failed. */
void mca_btl_fabric_offer_end(mca_btl_fabric_op_t *op);

#endif /* BTL_FABRIC_OP_H */
