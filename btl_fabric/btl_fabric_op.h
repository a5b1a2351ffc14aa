/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations under way: what the files that start, offer and end them have in common.  The lock is
 * held, but for mca_btl_fabric_call_back().
 */
#ifndef BTL_FABRIC_OP_H
#define BTL_FABRIC_OP_H

#include "btl_fabric.h"

enum {
    BTL_FABRIC_OPS_MAX = 4096, /* under way with an endpoint; each takes some 400 bytes */
};

/* A put, get or atomic operation as the layer above requests it. */
typedef struct mca_btl_fabric_call {
    mca_btl_fabric_ep_t *ep;
    void *local;
    uint64_t remote;
    size_t len;
    struct mca_btl_base_registration_handle_t *local_handle;
    mca_btl_base_rdma_completion_fn_t cbfunc; /* NULL: no callback */
    void *context;
    void *cbdata;
    btl_fabric_atomic_t atomic; /* atomic.key names the peer's memory for puts and gets, too */
    uint8_t am;                 /* BTL_FABRIC_AM_PUT, GET or ATOMIC */
} mca_btl_fabric_call_t;

/* A message in shared memory that asks the target to do an operation and that can be withdrawn. */
typedef struct mca_btl_fabric_offer {
    _Atomic uint64_t *claim;             /* its claim word; NULL: there is no offer */
    uint64_t position;                   /* in the ring */
    unsigned polls;                      /* mca_btl_fabric.polls when it was made */
    TAILQ_ENTRY(mca_btl_fabric_op) link; /* in mca_btl_fabric.offers */
} mca_btl_fabric_offer_t;

/* An operation under way. */
struct mca_btl_fabric_op {
    mca_btl_fabric_up_t up;
    mca_btl_fabric_call_t call;
    mca_btl_fabric_turn_t turn;
    LIST_ENTRY(mca_btl_fabric_op) link;      /* in ep->ops or mca_btl_fabric.free_ops */
    STAILQ_ENTRY(mca_btl_fabric_op) counted; /* in ep->counted */
    size_t done;                             /* bytes sent of a put, or received of a get */
    uint32_t id;                             /* in mca_btl_fabric.ids; 0: none */
    int status;
    bool is_queued;
    bool is_waiting; /* in ep->ops */
    fab_item_t item; /* while its message waits for room */
    mca_btl_fabric_offer_t offer;
    fab_rma_t rma; /* if the fabric does it, or may have to */
};

/*
 * Allocate memory for one operation.  It is kept, so one operation at a time can always be started:
 * what is refused for want of memory succeeds once the others have ended.  On an error nothing is
 * allocated.
 */
int mca_btl_fabric_ops_init(void);

/* Free all operations, including those that still wait for an answer. */
void mca_btl_fabric_ops_fini(void);

/* A new operation; NULL: there is no memory. */
mca_btl_fabric_op_t *mca_btl_fabric_op_new(const mca_btl_fabric_call_t *call);

/* It could not be started: free it. */
void mca_btl_fabric_op_cancel(mca_btl_fabric_op_t *op);

/* Add it to the operations that wait for the peer's answer. */
void mca_btl_fabric_op_wait(mca_btl_fabric_op_t *op);

/* It waits for no answer any more. */
void mca_btl_fabric_op_unwait(mca_btl_fabric_op_t *op);

/* The operation is no offer any more: it was answered, withdrawn, or its peer has failed. */
void mca_btl_fabric_offer_end(mca_btl_fabric_op_t *op);

/* It has ended: its callback, if it has one, is an upcall. */
void mca_btl_fabric_op_done(mca_btl_fabric_op_t *op, int status);

/* The peer failed: end the operations that wait for its answer. */
void mca_btl_fabric_ops_fail(mca_btl_fabric_ep_t *ep);

/*
 * For a flush: the number of the latest turn; mca_btl_fabric.oldest is above it once all operations
 * that have been started are done.  If the caller runs in callbacks, it does not wait for these.
 */
uint64_t mca_btl_fabric_last_turn(void);

/* Does this thread run the callback of an operation? */
bool mca_btl_fabric_in_callback(void);

/* The operation has ended: call the callback, if there is one. Lock not held. */
void mca_btl_fabric_call_back(const mca_btl_fabric_call_t *call, int status);

/* ---- the ways in which one is done: btl_fabric_ways.c --------------------- */

/*
 * Do it by messages.  An operation on a failed peer is queued, too, so that its error reaches the
 * layer above after the failure of the peer does.  OPAL_ERR_OUT_OF_RESOURCE: it was not started.
 */
int mca_btl_fabric_op_by_messages(mca_btl_fabric_op_t *op);

/* The fabric is to do it, with this memory of the target. False: it cannot, which is counted. */
bool mca_btl_fabric_op_start_rma(mca_btl_fabric_op_t *op, const fab_region_t *region);

/* Do a put or get at once, without a record or an upcall. False: the fabric cannot do so. */
bool mca_btl_fabric_do_now(const mca_btl_fabric_call_t *call, const fab_region_t *region);

/* Offer the put or get to the target, if that is likely to be faster.  False: it was not. */
bool mca_btl_fabric_offer(const mca_btl_fabric_call_t *call, const fab_region_t *region);

/* Withdraw the offers that the target has ignored for long. */
void mca_btl_fabric_offers_check(void);

#endif /* BTL_FABRIC_OP_H */
