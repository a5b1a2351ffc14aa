/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress: polling, and waiting for a request.
 */
#ifndef PML_TM_PROGRESS_H
#define PML_TM_PROGRESS_H

#include "fabric/fab_clock.h"

#include "pml_tm/request/pml_tm_request.h"
#include "pml_tm/wait/pml_tm_idle.h"

int mca_pml_tm_progress(void);

/* Poll all of Open MPI, in a call that waits for this; in one that waits for a request. */
void mca_pml_tm_poll_ompi(mca_pml_tm_waiting_t what);
void mca_pml_tm_poll_ompi_for(ompi_request_t *request);

/* fab_progress(), and what this PML has to do now and then. Lock held. */
int mca_pml_tm_progress_locked(void);

/* As mca_pml_tm_progress(), without yielding. */
int mca_pml_tm_poll_all(void);

/*
 * With threads, in a process that has a processor: has no other one waited so far, or wanted the
 * lock?  A thread that communicates alone need not yield, as without threads: the kernel shares its
 * processor with those that compute.  A yield costs a microsecond or more, so the answer to a
 * message takes twice as long after one, and so the other process yields, too.
 */
bool mca_pml_tm_is_only_thread(void);

/* mca_pml_tm_poll_light_locked() when the time for light polls is over. */
bool mca_pml_tm_poll_late(int *events);

enum {
    PML_TM_POLLS_CLOSE = 4, /* light polls in a row, after which only each fourth reads the clock */
    PML_TM_CLOSE_TICKS = 2000 /* ... fab_ticks() at most from one that reads it to the next */
};

/*
 * Is the time for light polls over?  Reading the clock takes longer than the poll does (18 ns on a
 * Xeon), so a program that polls again and again reads it at each fourth poll.  One that polls a
 * few times, and computes, and polls a few times has everything polled each time.
 */
static inline bool mca_pml_tm_light_is_over(void)
{
    uint64_t ticks;

    if (OPAL_LIKELY(0 != mca_pml_tm.light_unread)) {
        --mca_pml_tm.light_unread;
        return false;
    }
    ticks = fab_ticks();
    mca_pml_tm.light_close = ticks - mca_pml_tm.light_read < PML_TM_CLOSE_TICKS
                                 ? mca_pml_tm.light_close + 1
                                 : 0;
    mca_pml_tm.light_unread = mca_pml_tm.light_close >= PML_TM_POLLS_CLOSE ? PML_TM_POLLS_CLOSE - 1
                                                                           : 0;
    mca_pml_tm.light_read = ticks;
    return ticks >= mca_pml_tm.light_until;
}

/*
 * A poll for messages alone, in a call that returns if there are none.  False: it was not made,
 * since everything is to be polled now, by mca_pml_tm_poll_all(), as in each call of a program that
 * polls seldom, or of one of several threads.  *events: what came; if something did, the caller
 * calls mca_pml_tm_complete_done() without the lock.  Lock held.
 *
 * Where processes yield, too: a program that tests may have work to do.  Between two yields it
 * tests up to sixteen times, in about as long as a yield takes.
 */
static inline bool mca_pml_tm_poll_light_locked(int *events)
{
    if (OPAL_UNLIKELY(0 == mca_pml_tm.light_left ||
                      (fab_is_threaded(mca_pml_tm.fab) && !mca_pml_tm_is_only_thread()))) {
        return false;
    }
    if (OPAL_UNLIKELY(mca_pml_tm_light_is_over())) {
        return mca_pml_tm_poll_late(events);
    }
    --mca_pml_tm.light_left;
    *events = fab_poll(mca_pml_tm.fab);
    return true;
}

/* The same, lock not held, with the call for what came.  False also if the lock is taken. */
static inline bool mca_pml_tm_poll_light(int *events)
{
    bool is_made;

    if (OPAL_UNLIKELY(!fab_trylock(mca_pml_tm.fab))) {
        return false;
    }
    is_made = mca_pml_tm_poll_light_locked(events);
    fab_unlock(mca_pml_tm.fab);
    if (is_made && 0 != *events) {
        mca_pml_tm_complete_done();
    }
    return is_made;
}

/* One poll of a blocking call, polls_left has been counted down; or with threads. */
static inline void mca_pml_tm_poll(void)
{
    int events;

    if (OPAL_UNLIKELY(0 == (mca_pml_tm.fast & PML_TM_FAST_WAIT) ||
                      0 == mca_pml_tm.polls_left % PML_TM_POLLS_PER_PROGRESS ||
                      fab_is_threaded(mca_pml_tm.fab))) {
        events = mca_pml_tm_poll_all();
    } else {
        events = fab_poll(mca_pml_tm.fab);
        if (0 != events) {
            mca_pml_tm_complete_done();
        }
    }
    if (OPAL_UNLIKELY(PML_TM_SPIN != mca_pml_tm.idle)) {
        if (0 == events) {
            mca_pml_tm_pause();
        } else {
            mca_pml_tm.idle_polls = 0;
        }
    }
}

/*
 * May the request of a blocking call be private, so that only mca_pml_tm_wait() waits for it?  With
 * threads and fault tolerance, or without PML_TM_FAST_WAIT, Open MPI's function waits.
 */
static inline bool mca_pml_tm_may_be_private(void)
{
    return !fab_is_threaded(mca_pml_tm.fab) ||
           (0 != (mca_pml_tm.fast & PML_TM_FAST_WAIT) && !mca_pml_tm_is_fault_tolerant());
}

/* mca_pml_tm_wait() with threads. */
void mca_pml_tm_wait_threads(ompi_request_t *request);

/*
 * Poll for a microsecond with the lock held, unless another thread wants the lock.  True: the
 * request is complete.
 */
bool mca_pml_tm_wait_locked(const ompi_request_t *request);

/*
 * Progress until the request is complete, or until it cannot complete because a process failed; its
 * status then says so.  Lock not held.  Polls only pml tm, and all of Open MPI once every
 * progress_interval polls, whether these found something or not.
 */
static inline void mca_pml_tm_wait(ompi_request_t *request)
{
    if (OPAL_UNLIKELY(fab_is_threaded(mca_pml_tm.fab))) {
        mca_pml_tm_wait_threads(request);
        return;
    }
    while (!REQUEST_COMPLETE(request)) {
        if (OPAL_LIKELY(0 != --mca_pml_tm.polls_left)) {
            mca_pml_tm_poll();
        } else {
            mca_pml_tm_poll_ompi_for(request);
            if (OPAL_UNLIKELY(mca_pml_tm_is_request_failed(request))) {
                return;
            }
        }
    }
}

/*
 * Start and end the progress thread (pml_tm_thread.c), if params.progress_thread is set.  Lock not
 * held.
 */
int mca_pml_tm_thread_start(void);
void mca_pml_tm_thread_end(void);

#endif /* PML_TM_PROGRESS_H */
