/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress: polling, and waiting for a request.
 *
 * With threads, each waiting thread polls if it gets the lock, and releases the lock as soon as
 * another thread wants it.  Open MPI's own wait lets one thread poll and puts the others to sleep
 * on condition variables: where threads share a processor, the one that polls keeps the processor
 * from those that have something to send.
 */
#include "pml_tm/wait/pml_tm_progress.h"

#include <sched.h>

#include "fabric/fab_clock.h"

#include "pml_tm/arrive/pml_tm_flow.h"
#include "pml_tm/request/pml_tm_failure.h"
#include "pml_tm/request/pml_tm_request.h"
#include "pml_tm/wait/pml_tm_idle.h"

enum {
    POLLS_PER_LOCK = 16,    /* with threads, while the lock is held: 0.3 us */
    POLLS_AT_FIRST = 64,    /* the same, of a blocking receive that has just been posted */
    LOCKS_BEFORE_YIELD = 4, /* with threads that have a processor each */
    NEAR_TICKS = 6250,      /* fab_ticks(): 1 to 6 us on x86-64, which a yield takes, too */
};

int mca_pml_tm_progress_locked(void)
{
    int events = fab_progress(mca_pml_tm.fab);

    if (OPAL_UNLIKELY(0 != mca_pml_tm.num_throttled)) {
        mca_pml_tm_flow_feed();
    }
    return events;
}

/* May a process that waits keep its processor? */
static inline bool is_alone(void)
{
    return OPAL_LIKELY(PML_TM_SPIN == mca_pml_tm.idle && !opal_progress_yield_when_idle);
}

/* Everything is polled now: light polls may follow, for so long.  Lock held. */
static void allow_light_polls(void)
{
    mca_pml_tm.light_read = fab_ticks();
    mca_pml_tm.light_unread = 0;
    mca_pml_tm.light_until = mca_pml_tm.light_read + (is_alone() ? FAB_FAR_TICKS : NEAR_TICKS);
}

int mca_pml_tm_poll_all(void)
{
    int events = 0;

    if (OPAL_UNLIKELY(!mca_pml_tm.is_enabled)) {
        return 0;
    }
    if (OPAL_LIKELY(fab_trylock(mca_pml_tm.fab))) {
        if (0 != (mca_pml_tm.fast & PML_TM_FAST_WAIT)) {
            mca_pml_tm.light_left = PML_TM_POLLS_PER_PROGRESS - 1;
            allow_light_polls();
        }
        events = mca_pml_tm_progress_locked();
        fab_unlock(mca_pml_tm.fab);
    }
    events += mca_pml_tm_complete_done();
    mca_pml_tm_handle_failures();
    return events;
}

bool mca_pml_tm_is_only_thread(void)
{
    const void *self = mca_pml_tm_waiting(), *only;

    if (!is_alone()) {
        return false;
    }
    /* relaxed: nothing else is read by it */
    only = atomic_load_explicit(&mca_pml_tm.only_thread, memory_order_relaxed);
    if (!fab_mutex_is_wanted(&mca_pml_tm.fab->lock)) {
        if (self == only) {
            return true;
        }
        if (NULL == only &&
            atomic_compare_exchange_strong_explicit(&mca_pml_tm.only_thread, &only, self,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    atomic_store_explicit(&mca_pml_tm.only_thread, &mca_pml_tm, memory_order_relaxed);
    return false;
}

/*
 * Should a thread yield after an empty poll? Yes if another thread wants the lock, and now and then
 * to one that may want the processor: threads may share processors even where processes do not.
 */
static bool is_thread_in_the_way(void)
{
    unsigned polls;

    if (fab_mutex_is_wanted(&mca_pml_tm.fab->lock)) {
        return true;
    }
    /* relaxed load and store: the count need not be exact */
    polls = atomic_load_explicit(&mca_pml_tm.thread_polls, memory_order_relaxed) + 1;
    atomic_store_explicit(&mca_pml_tm.thread_polls, polls, memory_order_relaxed);
    return 0 == polls % PML_TM_POLLS_PER_PROGRESS && !mca_pml_tm_is_only_thread();
}

/*
 * After a yield all of the fabric is polled, since others may have had the processor for long.  If
 * it is the program that took long, the caller is to poll everything, and to yield.
 */
bool mca_pml_tm_poll_late(int *events)
{
    if (!mca_pml_tm.has_yielded) {
        return false;
    }
    mca_pml_tm.has_yielded = false;
    --mca_pml_tm.light_left;
    allow_light_polls();
    *events = mca_pml_tm_progress_locked();
    return true;
}

/* Nothing came.  Yield, unless Open MPI does so after this (mpi_yield_when_idle). */
static void yield_perhaps(void)
{
    if (fab_is_threaded(mca_pml_tm.fab)) {
        if ((PML_TM_SPIN != mca_pml_tm.idle && !opal_progress_yield_when_idle) ||
            is_thread_in_the_way()) {
            mca_pml_tm_yield();
        }
        return;
    }
    if (is_alone()) {
        return;
    }
    mca_pml_tm.has_yielded = true;
    mca_pml_tm.light_until = mca_pml_tm.light_unread = 0;
    if (!opal_progress_yield_when_idle) {
        mca_pml_tm_yield();
    }
}

int mca_pml_tm_progress(void)
{
    int events;

    /* one that waits and yields polls all, since its next poll may come late */
    if (is_alone() && mca_pml_tm_poll_light(&events)) {
        return events;
    }
    events = mca_pml_tm_poll_all();
    if (0 == events && NULL != mca_pml_tm.tick) { /* NULL: not open yet, or no longer */
        mca_pml_tm_count_tick();
    }
    if (0 == events && mca_pml_tm.is_enabled) {
        yield_perhaps();
    }
    return events;
}

static void poll_ompi(void)
{
    uint32_t events;

    if (OPAL_UNLIKELY(fab_is_threaded(mca_pml_tm.fab))) {
        opal_progress();
        return;
    }
    events = mca_pml_tm.fab->events;
    mca_pml_tm.polls_left = mca_pml_tm.progress_interval;
    opal_progress();
    if (events != mca_pml_tm.fab->events) {
        mca_pml_tm.idle_polls = 0;
    }
}

/* A callback may wait, too: what the call before it waits for is put back. */
void mca_pml_tm_poll_ompi(mca_pml_tm_waiting_t what)
{
    mca_pml_tm_waiting_t *waiting = mca_pml_tm_waiting(), outer = *waiting;

    *waiting = what;
    poll_ompi();
    *waiting = outer;
}

void mca_pml_tm_poll_ompi_for(ompi_request_t *request)
{
    mca_pml_tm_poll_ompi(
        (mca_pml_tm_waiting_t){.core = mca_pml_tm_core_of((mca_pml_base_request_t *) request)});
}

/* Do waiting threads share processors? others: waiting threads besides the caller. */
static inline bool is_crowded(unsigned others)
{
    return PML_TM_SPIN != mca_pml_tm.idle || others >= mca_pml_tm.max_thread_waits;
}

static inline unsigned num_thread_waits(void)
{
    return atomic_load_explicit(&mca_pml_tm.thread_waits, memory_order_relaxed);
}

/* Should all of Open MPI be polled, after this many polls? Lock held. */
static inline bool is_due(void)
{
    return mca_pml_tm.locked_polls >= mca_pml_tm.progress_interval;
}

/* Poll until something happens, at most this many times. Lock held. */
static int poll_locked(const ompi_request_t *request, int polls)
{
    fab_t *fab = mca_pml_tm.fab;
    int events;

    do {
        if (0 != ++mca_pml_tm.locked_polls % PML_TM_POLLS_PER_PROGRESS) {
            events = fab_poll(fab);
        } else {
            events = mca_pml_tm_progress_locked();
        }
    } while (0 == events && 0 != --polls && !is_due() && !fab_mutex_is_wanted(&fab->lock) &&
             !mca_pml_tm_is_complete(request));
    return events;
}

bool mca_pml_tm_wait_locked(const ompi_request_t *request)
{
    if (!mca_pml_tm_is_complete(request) && !is_due() &&
        !fab_mutex_is_wanted(&mca_pml_tm.fab->lock)) {
        (void) poll_locked(request, is_crowded(num_thread_waits()) ? 1 : POLLS_AT_FIRST);
    }
    return mca_pml_tm_is_complete(request);
}

void mca_pml_tm_wait_threads(ompi_request_t *request)
{
    unsigned idle = 0;

    if (OPAL_UNLIKELY(!mca_pml_tm_may_be_private())) {
        mca_pml_tm_ompi_wait(request);
        return;
    }
    if (mca_pml_tm_is_complete(request)) {
        return;
    }
    atomic_fetch_add_explicit(&mca_pml_tm.thread_waits, 1, memory_order_relaxed);
    while (!mca_pml_tm_is_complete(request)) {
        bool is_alone = !is_crowded(num_thread_waits() - 1), is_turn = false;
        int events = 0;

        if (fab_trylock(mca_pml_tm.fab)) {
            is_turn = is_due();
            if (is_turn) {
                mca_pml_tm.locked_polls = 0;
            } else {
                events = poll_locked(request, is_alone ? POLLS_PER_LOCK : 1);
            }
            fab_unlock(mca_pml_tm.fab);
        }
        events += mca_pml_tm_complete_done();
        if (is_turn) {
            /* handles failures, too; ends with what is waited for, so that no more is unexpected */
            mca_pml_tm_poll_ompi_for(request);
        }
        if (0 != events) {
            idle = 0;
        } else if (!mca_pml_tm_is_complete(request) &&
                   (!is_alone || (idle >= LOCKS_BEFORE_YIELD && !mca_pml_tm_is_only_thread()))) {
            mca_pml_tm_pause_thread(&idle);
        } else {
            ++idle;
        }
    }
    atomic_fetch_sub_explicit(&mca_pml_tm.thread_waits, 1, memory_order_relaxed);
}
