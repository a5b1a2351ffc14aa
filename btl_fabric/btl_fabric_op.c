/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations under way: their records, the answers that they wait for, their end, and the order in
 * which a flush waits for them.
 */
#include "btl_fabric_op.h"

#include <pthread.h>
#include <stdlib.h>

#include "btl_fabric_up.h"

/*
 * Callbacks that threads run, the latest first.  A list of all, since storage of each thread would
 * be allocated at the thread's first use, and a process without memory for it ends.
 */
typedef struct running {
    LIST_ENTRY(running) link;
    pthread_t thread;
    mca_btl_fabric_turn_t turn;
} running_t;

/* Lock: the fabric's. */
static LIST_HEAD(, running) running = LIST_HEAD_INITIALIZER(running);

/* Of this thread: the first one from here on, or NULL. */
static running_t *mine_from(running_t *run)
{
    while (NULL != run && !pthread_equal(run->thread, pthread_self())) {
        run = LIST_NEXT(run, link);
    }
    return run;
}

/* Its innermost callback, and that which runs this one. */
static running_t *innermost(void)
{
    return mine_from(LIST_FIRST(&running));
}

static running_t *outer_of(running_t *run)
{
    return mine_from(LIST_NEXT(run, link));
}

static mca_btl_fabric_op_t *op_alloc(void)
{
    mca_btl_fabric_op_t *op = LIST_FIRST(&mca_btl_fabric.free_ops);

    if (NULL == op) {
        return malloc(sizeof(*op));
    }
    LIST_REMOVE(op, link);
    return op;
}

static void op_free(mca_btl_fabric_op_t *op)
{
    LIST_INSERT_HEAD(&mca_btl_fabric.free_ops, op, link);
}

int mca_btl_fabric_ops_init(void)
{
    mca_btl_fabric_op_t *op = malloc(sizeof(*op));
    uint32_t id;

    atomic_store_explicit(&mca_btl_fabric.outstanding, 0, memory_order_relaxed);
    mca_btl_fabric.turns = (mca_btl_fabric_turn_t){
        .next = &mca_btl_fabric.turns, .prev = &mca_btl_fabric.turns, .number = UINT64_MAX};
    atomic_store_explicit(&mca_btl_fabric.oldest, UINT64_MAX, memory_order_relaxed);
    TAILQ_INIT(&mca_btl_fabric.offers);
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
        while (!LIST_EMPTY(&ep->ops)) {
            mca_btl_fabric_op_t *op = LIST_FIRST(&ep->ops);
            LIST_REMOVE(op, link);
            free(op);
        }
        STAILQ_INIT(&ep->counted);
    }
    while (!LIST_EMPTY(&mca_btl_fabric.free_ops)) {
        mca_btl_fabric_op_t *op = LIST_FIRST(&mca_btl_fabric.free_ops);
        LIST_REMOVE(op, link);
        free(op);
    }
    fab_idmap_fini(&mca_btl_fabric.ids);
}

/* ---- turns -------------------------------------------------------------- */

/*
 * Does a flush wait for it?  Not for an atomic operation without result whose callback says that it
 * was done: osc/rdma waits for the callback, or releases a lock by it.  A flush that waited for
 * that would take a round trip after each MPI_Accumulate.
 */
static bool has_turn(const mca_btl_fabric_call_t *call)
{
    return BTL_FABRIC_AM_ATOMIC != call->am || NULL != call->local || NULL == call->cbfunc;
}

/* The oldest turn is another one. */
static void turns_moved(void)
{
    /* release: pairs with the acquire in is_flushed(); callbacks have returned before */
    atomic_store_explicit(&mca_btl_fabric.oldest, mca_btl_fabric.turns.next->number,
                          memory_order_release);
}

/*
 * An operation that is started by the callback of another one takes the turn of that one, so that a
 * flush waits for both or for none.
 */
static void turn_begin(mca_btl_fabric_turn_t *turn)
{
    mca_btl_fabric_turn_t *before = mca_btl_fabric.turns.prev;
    running_t *at = innermost();

    while (OPAL_UNLIKELY(NULL != at) && NULL == at->turn.prev) {
        at = outer_of(at);
    }
    if (OPAL_UNLIKELY(NULL != at)) {
        before = &at->turn;
        turn->number = before->number;
    } else {
        turn->number = ++mca_btl_fabric.last_turn;
    }
    turn->prev = before;
    turn->next = before->next;
    turn->next->prev = before->next = turn;
    if (&mca_btl_fabric.turns == before) {
        turns_moved();
    }
}

static void turn_end(mca_btl_fabric_turn_t *turn)
{
    if (NULL != turn->prev) {
        turn->next->prev = turn->prev;
        turn->prev->next = turn->next;
        if (&mca_btl_fabric.turns == turn->prev) {
            turns_moved();
        }
        turn->prev = NULL;
    }
}

uint64_t mca_btl_fabric_last_turn(void)
{
    for (running_t *at = innermost(); NULL != at; at = outer_of(at)) {
        turn_end(&at->turn);
    }
    return mca_btl_fabric.last_turn;
}

/* ---- callbacks ---------------------------------------------------------- */

bool mca_btl_fabric_in_callback(void)
{
    return NULL != innermost();
}

/* Lock held. */
static void begin_callback(running_t *run)
{
    run->thread = pthread_self();
    LIST_INSERT_HEAD(&running, run, link);
}

static void call_back(const mca_btl_fabric_call_t *call, int status)
{
    call->cbfunc(&mca_btl_fabric.super, call->ep, call->local, call->local_handle, call->context,
                 call->cbdata, status);
}

void mca_btl_fabric_call_back(const mca_btl_fabric_call_t *call, int status)
{
    running_t run = {.turn.prev = NULL};

    if (NULL != call->cbfunc) {
        fab_lock(mca_btl_fabric.fab);
        begin_callback(&run);
        fab_unlock(mca_btl_fabric.fab);
        call_back(call, status);
        fab_lock(mca_btl_fabric.fab);
        LIST_REMOVE(&run, link);
        fab_unlock(mca_btl_fabric.fab);
    }
}

/* ---- waiting for an answer ---------------------------------------------- */

void mca_btl_fabric_op_wait(mca_btl_fabric_op_t *op)
{
    op->is_waiting = true;
    LIST_INSERT_HEAD(&op->call.ep->ops, op, link);
}

void mca_btl_fabric_offer_end(mca_btl_fabric_op_t *op)
{
    TAILQ_REMOVE(&mca_btl_fabric.offers, op, offer.link);
    op->offer.claim = NULL;
}

void mca_btl_fabric_op_unwait(mca_btl_fabric_op_t *op)
{
    if (NULL != op->offer.claim) {
        mca_btl_fabric_offer_end(op);
        op->call.ep->ignored = 0;
        op->call.ep->heard = mca_btl_fabric.polls;
    }
    if (0 != op->id) {
        fab_idmap_remove(&mca_btl_fabric.ids, op->id);
        op->id = 0;
    }
    if (op->is_waiting) {
        op->is_waiting = false;
        LIST_REMOVE(op, link);
    }
}

/* ---- begin and end ------------------------------------------------------ */

/* An operation begins (1) or has ended (-1). */
static void note(const mca_btl_fabric_call_t *call, int change)
{
    size_t all = atomic_load_explicit(&mca_btl_fabric.outstanding, memory_order_relaxed);

    call->ep->outstanding += (size_t) change;
    atomic_store_explicit(&mca_btl_fabric.outstanding, all + (size_t) change, memory_order_relaxed);
}

mca_btl_fabric_op_t *mca_btl_fabric_op_new(const mca_btl_fabric_call_t *call)
{
    mca_btl_fabric_op_t *op = op_alloc();

    if (NULL != op) {
        op->call = *call;
        op->done = 0;
        op->id = 0;
        op->is_queued = false;
        op->is_waiting = false;
        op->offer.claim = NULL;
        note(call, 1);
        op->turn.prev = NULL;
        if (has_turn(call)) {
            turn_begin(&op->turn);
        }
    }
    return op;
}

void mca_btl_fabric_op_cancel(mca_btl_fabric_op_t *op)
{
    note(&op->call, -1);
    turn_end(&op->turn);
    op_free(op);
}

/* The record is free before its callback is run, which may need it for another operation. */
static void run_op(mca_btl_fabric_up_t *up)
{
    mca_btl_fabric_op_t *op = (mca_btl_fabric_op_t *) up;
    const mca_btl_fabric_call_t call = op->call;
    const int status = op->status;
    running_t run;

    fab_lock(mca_btl_fabric.fab);
    run.turn = op->turn;
    if (NULL != run.turn.prev) {
        run.turn.prev->next = run.turn.next->prev = &run.turn;
    }
    op_free(op);
    begin_callback(&run);
    fab_unlock(mca_btl_fabric.fab);
    if (!mca_btl_fabric_is_given_up(call.ep->proc, call.context)) {
        call_back(&call, status);
    }
    fab_lock(mca_btl_fabric.fab);
    LIST_REMOVE(&run, link);
    turn_end(&run.turn);
    note(&call, -1);
    mca_btl_fabric_ep_close_if_idle(call.ep);
    fab_unlock(mca_btl_fabric.fab);
}

/* The fabric is still open: others may have operations under way. */
static void drop_op(mca_btl_fabric_up_t *up)
{
    op_free((mca_btl_fabric_op_t *) up);
}

static const mca_btl_fabric_up_ops_t op_ops = {.run = run_op, .drop = drop_op};

void mca_btl_fabric_op_done(mca_btl_fabric_op_t *op, int status)
{
    mca_btl_fabric_op_unwait(op);
    if (NULL == op->call.cbfunc) {
        mca_btl_fabric_ep_t *ep = op->call.ep;
        mca_btl_fabric_op_cancel(op);
        mca_btl_fabric_ep_close_if_idle(ep);
        return;
    }
    op->status = status;
    mca_btl_fabric_up(&op->up, &op_ops);
}

void mca_btl_fabric_ops_fail(mca_btl_fabric_ep_t *ep)
{
    mca_btl_fabric_op_t *next;

    for (mca_btl_fabric_op_t *op = LIST_FIRST(&ep->ops); NULL != op; op = next) {
        next = LIST_NEXT(op, link);
        if (!op->is_queued) { /* queued ones fail when they are run */
            mca_btl_fabric_op_done(op, OPAL_ERR_UNREACH);
        }
    }
    STAILQ_INIT(&ep->counted);
}
