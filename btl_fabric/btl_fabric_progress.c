/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Polling: the fabric, and what no message of it ends; then the upcalls.  Waiting for operations:
 * btl_flush.
 */
#include "btl_fabric_entry.h"

#include <sched.h>

#include "fabric/fab_clock.h"

#include "btl_fabric_op.h"
#include "btl_fabric_up.h"

enum {
    /* one progress call in so many polls everything; the others only look for messages */
    POLLS_PER_PROGRESS = 16,
    /* with threads, empty polls of a flush after which another thread may have the processor */
    POLLS_BEFORE_YIELD = 16,
};

/* Counts a poll; true every n-th time, or if they are far apart: everything is to be polled. */
static bool count_poll(void)
{
    const uint64_t ticks = fab_ticks();

    mca_btl_fabric.fab->is_far = ticks - mca_btl_fabric.full_ticks >= FAB_FAR_TICKS;
    if (0 != ++mca_btl_fabric.polls % POLLS_PER_PROGRESS && 0 == mca_btl_fabric.num_rma &&
        !mca_btl_fabric.fab->is_far) {
        return false;
    }
    mca_btl_fabric.full_ticks = ticks;
    return true;
}

/* After a poll: operations that no message ends. Lock held. */
static inline void check_ops(void)
{
    if (!TAILQ_EMPTY(&mca_btl_fabric.offers)) {
        mca_btl_fabric_offers_check();
    }
}

/* Lock held. */
static inline int poll_fabric(bool is_full)
{
    int events;

    if (is_full) {
        (void) mca_btl_fabric_is_yielding();
        events = fab_progress(mca_btl_fabric.fab);
        mca_btl_fabric.fab->is_far = false;
    } else {
        events = fab_poll(mca_btl_fabric.fab);
    }
    check_ops();
    return events;
}

/* Has the process that sent the latest message sent another one? */
static inline bool has_more(void)
{
    const mca_btl_fabric_ep_t *ep = mca_btl_fabric.latest;

    if (NULL == ep || fab_has_come(ep->peer)) {
        return NULL != ep;
    }
    fab_fetch_ahead(ep->peer);
    return false;
}

/* Poll without threads, giving messages in place, those of the latest sender first. */
static inline int poll_and_give(void)
{
    bool is_full = count_poll();
    int events = has_more() ? mca_btl_fabric_give_more(BTL_FABRIC_UPCALLS_MAX) : 0;

    if (events > 0 && !is_full) {
        return events;
    }
    mca_btl_fabric.wants_retained = true;
    events += poll_fabric(is_full);
    mca_btl_fabric.wants_retained = false;
    if (NULL != mca_btl_fabric.retained.msg) {
        mca_btl_fabric_give_retained();
        events += mca_btl_fabric_give_more(BTL_FABRIC_UPCALLS_MAX);
    }
    return events;
}

int mca_btl_fabric_progress(void)
{
    fab_t *fab = mca_btl_fabric.fab;
    int events = 0;

    if (OPAL_UNLIKELY(NULL == fab)) {
        return 0;
    }
    if (OPAL_LIKELY(!fab_is_threaded(fab) && !mca_btl_fabric.is_giving)) {
        events = poll_and_give();
    } else if (fab_trylock(fab)) {
        events = poll_fabric(count_poll());
        fab_unlock(fab);
    }
    if (NULL != atomic_load_explicit(&mca_btl_fabric.up, memory_order_acquire)) {
        events += mca_btl_fabric_ups_run();
    }
    return events;
}

/* The PML polls the fabric: only do what its polls leave to this component. */
static int finish_polled(void)
{
    fab_t *fab = mca_btl_fabric.fab;

    if (0 != atomic_load_explicit(&mca_btl_fabric.outstanding, memory_order_relaxed) &&
        fab_trylock(fab)) {
        mca_btl_fabric.polls++;
        check_ops();
        fab_unlock(fab);
    }
    return NULL != atomic_load_explicit(&mca_btl_fabric.up, memory_order_acquire)
               ? mca_btl_fabric_ups_run()
               : 0;
}

int mca_btl_fabric_opal_progress(void)
{
    const fab_t *fab = mca_btl_fabric.fab;

    if (OPAL_UNLIKELY(NULL == fab)) {
        return 0;
    }
    if (fab_is_started(fab, FAB_USER_PML)) {
        return finish_polled();
    }
    return mca_btl_fabric.is_named ? mca_btl_fabric_progress() : 0;
}

/* ---- flush -------------------------------------------------------------- */

/* Have the operations up to this turn ended, and returned their callbacks? */
static bool is_flushed(uint64_t last)
{
    /* acquire: pairs with the release in turns_moved() */
    return atomic_load_explicit(&mca_btl_fabric.oldest, memory_order_acquire) > last;
}

/* Poll, and leave the processor to those that are waited for. */
static void flush_to(uint64_t last, bool is_yielding)
{
    const bool may_yield = is_yielding || fab_is_threaded(mca_btl_fabric.fab);
    unsigned idle = 0;

    while (!is_flushed(last)) {
        if (0 != mca_btl_fabric_progress()) {
            idle = 0;
        } else if (may_yield && (is_yielding || 0 == ++idle % POLLS_BEFORE_YIELD)) {
            /* without the lock */
            __atomic_fetch_add(&mca_btl_fabric.counters.flush_yields, 1, __ATOMIC_RELAXED);
            sched_yield();
        }
    }
}

/*
 * Waits for the operations with all endpoints, whichever the layer above names: Open MPI names
 * none.  Operations that other threads start meanwhile are not waited for.
 */
int mca_btl_fabric_flush(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep)
{
    uint64_t last;
    bool is_yielding;

    (void) btl, (void) ep;
    fab_lock(mca_btl_fabric.fab);
    mca_btl_fabric.polls++; /* what was started before it and what will be are no window */
    last = mca_btl_fabric_last_turn();
    is_yielding = mca_btl_fabric_is_yielding();
    fab_unlock(mca_btl_fabric.fab);
    if (is_flushed(last)) {
        (void) opal_progress(); /* osc/rdma calls it only where a BTL has no flush */
    }
    flush_to(last, is_yielding);
    return OPAL_SUCCESS;
}
