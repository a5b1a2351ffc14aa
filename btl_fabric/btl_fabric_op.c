/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations under way: their records, the answers that they wait for, and their end.
 */
#include "btl_fabric_op.h"

#include <stdlib.h>

static mca_btl_fabric_op_t *op_alloc(void)
{
    mca_btl_fabric_op_t *op = mca_btl_fabric.free_ops;

    if (NULL == op) {
        return malloc(sizeof(*op));
    }
    mca_btl_fabric.free_ops = op->next;
    return op;
}

static void op_free(mca_btl_fabric_op_t *op)
{
    op->next = mca_btl_fabric.free_ops;
    mca_btl_fabric.free_ops = op;
}

int mca_btl_fabric_ops_init(void)
{
    mca_btl_fabric_op_t *op = malloc(sizeof(*op));
    uint32_t id;

    mca_btl_fabric.outstanding = mca_btl_fabric.background = 0;
    mca_btl_fabric.asking = NULL;
    mca_btl_fabric.num_asking = 0;
    mca_btl_fabric.offers = NULL;
    mca_btl_fabric.offers_tail = &mca_btl_fabric.offers;
    fab_idmap_init(&mca_btl_fabric.ids);
    id = NULL != op ? fab_idmap_add(&mca_btl_fabric.ids, op) : 0;
    if (0 == id) {
        free(op);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    fab_idmap_remove(&mca_btl_fabric.ids, id); /* the map keeps the room for it */
    op_free(op);
    return OPAL_SUCCESS;
}

void mca_btl_fabric_ops_fini(void)
{
    for (mca_btl_fabric_ep_t *ep = mca_btl_fabric.eps; NULL != ep; ep = ep->next) {
        for (mca_btl_fabric_op_t *op = ep->ops, *next; NULL != op; op = next) {
            next = op->next;
            free(op);
        }
        ep->ops = ep->counted = NULL;
        free(ep->paces);
        ep->paces = NULL;
    }
    mca_btl_fabric.asking = NULL;
    while (NULL != mca_btl_fabric.free_ops) {
        mca_btl_fabric_op_t *op = mca_btl_fabric.free_ops;
        mca_btl_fabric.free_ops = op->next;
        free(op);
    }
    fab_idmap_fini(&mca_btl_fabric.ids);
}

void mca_btl_fabric_call_back(const mca_btl_fabric_call_t *call, int status)
{
    if (NULL != call->cbfunc) {
        call->cbfunc(&mca_btl_fabric.super, call->ep, call->local, call->local_handle,
                     call->context, call->cbdata, status);
    }
}

/*
 * Does a flush wait for it?  Not for an atomic operation without result whose callback says that it
 * was done: osc/rdma waits for the callback, or releases a lock by it.  A flush that waited for
 * that would take a round trip after each MPI_Accumulate.
 */
static bool is_background(const mca_btl_fabric_call_t *call)
{
    return BTL_FABRIC_AM_ATOMIC == call->am && NULL == call->local && NULL != call->cbfunc;
}

/* An operation begins (1) or ends (-1). */
static void note(const mca_btl_fabric_call_t *call, int change)
{
    call->ep->outstanding += (size_t) change;
    mca_btl_fabric.outstanding += (size_t) change;
    if (is_background(call)) {
        call->ep->background += (size_t) change;
        mca_btl_fabric.background += (size_t) change;
    }
}

mca_btl_fabric_op_t *mca_btl_fabric_op_new(const mca_btl_fabric_call_t *call)
{
    mca_btl_fabric_op_t *op = op_alloc();

    if (NULL != op) {
        op->call = *call;
        op->done = 0;
        op->id = 0;
        op->is_queued = false;
        op->is_offered = false;
        op->is_waiting = false;
        op->offer.claim = NULL;
        note(call, 1);
    }
    return op;
}

void mca_btl_fabric_op_cancel(mca_btl_fabric_op_t *op)
{
    note(&op->call, -1);
    op_free(op);
}

/* The operation has ended, but for its callback. Lock held. */
static void op_end(mca_btl_fabric_op_t *op)
{
    mca_btl_fabric_ep_t *ep = op->call.ep;

    mca_btl_fabric_op_cancel(op);
    mca_btl_fabric_ep_close_if_idle(ep);
}

static void run_op(mca_btl_fabric_up_t *up)
{
    mca_btl_fabric_op_t *op = (mca_btl_fabric_op_t *) up;
    mca_btl_fabric_call_t call = op->call;
    int status = op->status;

    fab_lock(mca_btl_fabric.fab);
    op_end(op); /* first: the callback may flush */
    fab_unlock(mca_btl_fabric.fab);
    mca_btl_fabric_call_back(&call, status);
}

/* The fabric is still open: others may have operations under way. */
static void drop_op(mca_btl_fabric_up_t *up)
{
    op_free((mca_btl_fabric_op_t *) up);
}

static const mca_btl_fabric_up_ops_t op_ops = {.run = run_op, .drop = drop_op};

void mca_btl_fabric_op_unwait(mca_btl_fabric_op_t *op)
{
    if (NULL != op->offer.claim) {
        mca_btl_fabric_offer_end(op);
        op->call.ep->offers.ignored = 0;
        op->call.ep->heard = mca_btl_fabric.polls;
    }
    if (0 != op->id) {
        fab_idmap_remove(&mca_btl_fabric.ids, op->id);
        op->id = 0;
    }
    if (0 != op->call.atomic.number) {
        mca_btl_fabric_asking_end(op);
    }
    if (op->is_waiting) {
        op->is_waiting = false;
        *op->prev = op->next;
        if (NULL != op->next) {
            op->next->prev = op->prev;
        }
    }
}

void mca_btl_fabric_op_done(mca_btl_fabric_op_t *op, int status)
{
    mca_btl_fabric_op_unwait(op);
    mca_btl_fabric_try_ended(&op->try, op->call.len);
    if (NULL == op->call.cbfunc) {
        op_end(op);
        return;
    }
    op->status = status;
    mca_btl_fabric_up(&op->up, &op_ops);
}

void mca_btl_fabric_op_wait(mca_btl_fabric_op_t *op)
{
    mca_btl_fabric_ep_t *ep = op->call.ep;

    op->is_waiting = true;
    op->next = ep->ops;
    op->prev = &ep->ops;
    if (NULL != op->next) {
        op->next->prev = &op->next;
    }
    ep->ops = op;
}

void mca_btl_fabric_ops_fail(mca_btl_fabric_ep_t *ep)
{
    mca_btl_fabric_op_t *next;

    for (mca_btl_fabric_op_t *op = ep->ops; NULL != op; op = next) {
        next = op->next;
        if (!op->is_queued) { /* queued ones fail when they are run */
            mca_btl_fabric_op_done(op, OPAL_ERR_UNREACH);
        }
    }
    ep->counted = NULL;
}
