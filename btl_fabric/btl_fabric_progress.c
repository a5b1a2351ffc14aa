/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Polling: the fabric, and what no message of it ends; then the upcalls.
 */
#include "btl_fabric_progress.h"

#include "btl_fabric_offer.h"
#include "btl_fabric_rma.h"
#include "btl_fabric_send.h"
#include "btl_fabric_up.h"

/* One progress call in so many polls everything; the others only look for messages. */
enum { POLLS_PER_PROGRESS = 16 };

/* Count a poll: is it one that polls everything? */
static bool count_poll(void)
{
    return 0 == ++mca_btl_fabric.polls % POLLS_PER_PROGRESS || mca_btl_fabric.num_rma > 0;
}

/* After a poll: operations that no message ends. Lock held. */
static inline void check_ops(void)
{
    if (!LIST_EMPTY(&mca_btl_fabric.asking)) {
        mca_btl_fabric_answers_check();
    }
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
    mca_btl_fabric.wants_held = true;
    events += poll_fabric(is_full);
    mca_btl_fabric.wants_held = false;
    if (NULL != mca_btl_fabric.held.hold) {
        mca_btl_fabric_give_held();
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
