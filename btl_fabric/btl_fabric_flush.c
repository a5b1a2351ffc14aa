/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for operations: btl_flush.
 */
#include "btl_fabric_flush.h"

#include <sched.h>

#include "btl_fabric_op.h"
#include "btl_fabric_progress.h"

enum {
    /* with threads, empty polls of a flush after which another thread may have the processor */
    POLLS_BEFORE_YIELD = 16,
};

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
    flush_to(last, is_yielding);
    return OPAL_SUCCESS;
}
