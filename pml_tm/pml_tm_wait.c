/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting: what a call does after a poll that found nothing; MPI_Wait and MPI_Waitall.
 *
 * If processes or threads outnumber the processors, one that polls keeps the one that it waits for
 * from running, for a whole time slice.  So a process or thread yields after an empty poll, in
 * blocking calls and in the progress function, which Open MPI calls when it waits.  In blocking
 * calls of this PML it also sleeps after many such polls, up to a millisecond at a time, or
 * (without threads) until a message comes by TCP; and after each sleep it polls all of Open MPI,
 * whose other components must not wait for many.
 *
 * With threads, each waiting thread polls if it gets the lock, and releases the lock as soon as
 * another thread wants it.  Open MPI's own wait lets one thread poll and puts the others to sleep
 * on condition variables: where threads share a processor, the one that polls keeps the processor
 * from those that have something to send.
 *
 * MPI_Waitall by this PML: one pass over requests that are its own, most of them complete already,
 * each freed without a call, the receives all at once under one lock.  At the first request of
 * another kind, or with an error, Open MPI's function takes over for this and all following
 * requests.  MPI_Wait only waits here, and then continues in Open MPI's function.
 *
 * Open MPI calls both through ompi_request_functions, a table that components may change.  They are
 * not used with fault tolerance, which has its own rules for failed requests.
 */
#include "pml_tm_flow.h"
#include "pml_tm_recv.h"

#include <sched.h>
#include <time.h>

#include "fabric/fab_cpus.h"

enum {
    YIELDS_BEFORE_SLEEP = 1000, /* in a row: half a millisecond alone, a time slice of each other */
    SLEEP_GROWTH = 40,          /* the n-th takes n^2 / 40 us: a few percent of the time waited */
    SLEEP_MAX_US = 1000,
    POLLS_PER_LOCK = 16,    /* with threads, while the lock is held: 0.3 us */
    POLLS_AT_FIRST = 64,    /* the same, of a blocking receive that has just been posted */
    LOCKS_BEFORE_YIELD = 4, /* with threads that have a processor each */
    PAUSE_MAX_NS = 32,      /* of one that is worth it: measured with 25 */
    LOOKS_NS = 500,         /* about as long as an answer takes */
    LOOK_NS = 1,            /* nine instructions */
};

/* ---- waiting ------------------------------------------------------------ */

/* auto: sleep if the job has more processes here than processors. */
static mca_pml_tm_idle_t choose_by_cpus(double cpus)
{
    mca_pml_tm.cpus = cpus;
    return mca_pml_tm_process.num_local_peers + 1 > cpus ? PML_TM_SLEEP : PML_TM_SPIN;
}

/*
 * How many threads of this process may wait at a time so that each has its own processor; at least
 * 1.
 */
static unsigned choose_max_thread_waits(double cpus)
{
    double share = cpus / (mca_pml_tm_process.num_local_peers + 1);
    cpu_set_t mine;

    if (0 == sched_getaffinity(0, sizeof(mine), &mine) && CPU_COUNT(&mine) < share) {
        share = CPU_COUNT(&mine);
    }
    return share < 1 ? 1 : (unsigned) share;
}

/*
 * A blocking receive looks at its sender's ring for LOOKS_NS: what comes in that time needs no
 * request.  A pause between two looks leaves more of the processor to another hardware thread,
 * which may be the sender's; a long one would delay the message.  Between the polls of other waits
 * there is none: nothing was gained by it.
 */
static void choose_looks(void)
{
    const unsigned pause_ns = (unsigned) fab_cpu_pause_ns();
    const bool is_alone = PML_TM_SPIN == mca_pml_tm.idle;

    mca_pml_tm.is_pausing = is_alone && pause_ns <= PAUSE_MAX_NS;
    mca_pml_tm.looks = is_alone ? LOOKS_NS / (LOOK_NS + mca_pml_tm.is_pausing * pause_ns) : 1;
}

static mca_pml_tm_idle_t choose_idle(double cpus)
{
    const char *wait = mca_pml_tm.params.wait;

    if (0 == strcmp(wait, "spin")) {
        return PML_TM_SPIN;
    }
    if (0 == strcmp(wait, "yield")) {
        return PML_TM_YIELD;
    }
    return 0 == strcmp(wait, "sleep") ? PML_TM_SLEEP : choose_by_cpus(cpus);
}

void mca_pml_tm_choose_idle(void)
{
    double cpus = fab_cpus("");

    mca_pml_tm.max_thread_waits = choose_max_thread_waits(cpus);
    mca_pml_tm.idle = choose_idle(cpus);
    choose_looks();
}

void mca_pml_tm_yield(void)
{
    /* without the lock */
    __atomic_fetch_add(&mca_pml_tm.counters.wait_yields, 1, __ATOMIC_RELAXED);
    sched_yield();
}

/* Microseconds to sleep after this many empty polls in a row; 0: only yield. */
static inline unsigned sleep_time(unsigned polls)
{
    long sleeps = (long) polls - YIELDS_BEFORE_SLEEP;
    long us = 1 + sleeps * sleeps / SLEEP_GROWTH;

    if (sleeps <= 0 || PML_TM_SLEEP != mca_pml_tm.idle) {
        return 0;
    }
    return (unsigned) (us < SLEEP_MAX_US ? us : SLEEP_MAX_US);
}

/*
 * If an event ended a sleep and the next poll found nothing, events do not end the next sleep: such
 * an event may persist, for example a connection that cannot be accepted because unproven ones take
 * all places.
 */
static void sleep_for(unsigned us)
{
    const struct timespec time = {.tv_nsec = 1000 * (long) us};

    ++mca_pml_tm.counters.wait_sleeps;
    if (mca_pml_tm.was_woken) {
        mca_pml_tm.was_woken = false;
        (void) nanosleep(&time, NULL);
    } else if (fab_sleep(mca_pml_tm.fab, us)) {
        mca_pml_tm.was_woken = true;
        ++mca_pml_tm.counters.wait_wakes;
    }
}

void mca_pml_tm_pause(void)
{
    unsigned us = sleep_time(++mca_pml_tm.idle_polls);

    if (0 == us) {
        mca_pml_tm.was_woken = false;
        mca_pml_tm_yield();
        return;
    }
    if (us >= SLEEP_MAX_US) {
        --mca_pml_tm.idle_polls;
    }
    sleep_for(us);
    mca_pml_tm.polls_left = 1;
}

void mca_pml_tm_poll_ompi(void)
{
    uint32_t events;

    if (OPAL_UNLIKELY(fab_is_threaded(mca_pml_tm.fab))) {
        opal_progress();
        return;
    }
    events = mca_pml_tm.fab->events;
    mca_pml_tm.polls_left = (unsigned) mca_pml_tm.params.progress_interval;
    opal_progress();
    if (events != mca_pml_tm.fab->events) {
        mca_pml_tm.idle_polls = 0;
    }
}

/* mca_pml_tm_pause() with threads, each of which counts its own polls. */
static void pause_thread(unsigned *polls)
{
    unsigned us = sleep_time(++*polls);
    const struct timespec time = {.tv_nsec = 1000 * (long) us};

    if (0 == us) {
        mca_pml_tm_yield();
        return;
    }
    if (us >= SLEEP_MAX_US) {
        --*polls;
    }
    __atomic_fetch_add(&mca_pml_tm.counters.wait_sleeps, 1, __ATOMIC_RELAXED);
    (void) nanosleep(&time, NULL);
}

/* ---- waiting with threads ----------------------------------------------- */

/* Do waiting threads share processors? others: waiting threads besides the caller. */
static inline bool is_crowded(unsigned others)
{
    return others >= mca_pml_tm.max_thread_waits;
}

static inline unsigned num_thread_waits(void)
{
    return atomic_load_explicit(&mca_pml_tm.thread_waits, memory_order_relaxed);
}

/* Should all of Open MPI be polled, after this many polls? Lock held. */
static inline bool is_due(void)
{
    return mca_pml_tm.locked_polls >= (unsigned) mca_pml_tm.params.progress_interval;
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
    } while (0 == events && 0 != --polls && !is_due() && !fab_is_wanted(fab) &&
             !mca_pml_tm_is_complete(request));
    return events;
}

bool mca_pml_tm_wait_locked(const ompi_request_t *request)
{
    if (!mca_pml_tm_is_complete(request) && !is_due() && !fab_is_wanted(mca_pml_tm.fab)) {
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
            opal_progress();
        }
        if (0 != events) {
            idle = 0;
        } else if (!mca_pml_tm_is_complete(request) && (!is_alone || idle >= LOCKS_BEFORE_YIELD)) {
            pause_thread(&idle);
        } else {
            ++idle;
        }
    }
    atomic_fetch_sub_explicit(&mca_pml_tm.thread_waits, 1, memory_order_relaxed);
}

/* ---- MPI_Wait and MPI_Waitall ------------------------------------------- */

/* the functions that were replaced; NULL: not replaced */
static ompi_request_wait_all_fn_t next_wait_all;
static ompi_request_wait_fn_t next_wait;

/* Wait for a request of this PML that is not complete. */
static void wait_for(ompi_request_t *request)
{
    const mca_pml_base_request_t *base = (mca_pml_base_request_t *) request;

    if (OPAL_LIKELY(!opal_using_threads() && MCA_PML_REQUEST_RECV == base->req_type)) {
        mca_pml_tm_recv_await((mca_pml_tm_recv_request_t *) request);
    } else {
        mca_pml_tm_wait(request);
    }
}

/* Free a complete request.  *freed collects some, for mca_pml_tm_recv_flush(). */
static inline __attribute__((always_inline)) void finish_free(mca_pml_base_request_t *base,
                                                              mca_pml_tm_freed_t *freed)
{
    mca_pml_tm_recv_request_t *req = (mca_pml_tm_recv_request_t *) base;

    if (OPAL_LIKELY(MCA_PML_REQUEST_RECV == base->req_type && req->core.is_counted &&
                    MPI_UNDEFINED == base->req_ompi.req_f_to_c_index)) {
        mca_pml_tm_recv_collect(freed, req);
    } else {
        mca_pml_tm_request_release(base);
    }
}

/*
 * Wait for one request and free it; *status, if it is not NULL, is its status, and has_error says
 * whether with MPI_ERROR.  False: the function only waited; Open MPI must handle the request.
 */
static inline __attribute__((always_inline)) bool finish(ompi_request_t *request,
                                                         ompi_status_public_t *status,
                                                         bool has_error, mca_pml_tm_freed_t *freed)
{

    if (&ompi_request_empty == request) {
        if (NULL != status) {
            OMPI_COPY_STATUS(status, request->req_status, has_error);
        }
        return true;
    }
    if (OPAL_UNLIKELY(mca_pml_tm_request_free != request->req_free)) {
        return false;
    }
    if (OPAL_UNLIKELY(!mca_pml_tm_is_complete(request))) {
        wait_for(request);
    }
    if (OPAL_UNLIKELY(request->req_persistent)) {
        return false;
    }
    if (OPAL_UNLIKELY(MPI_SUCCESS != request->req_status.MPI_ERROR)) {
        return false;
    }
    if (NULL != status) {
        OMPI_COPY_STATUS(status, request->req_status, has_error);
    }
    finish_free((mca_pml_base_request_t *) request, freed);
    return true;
}

/* The i-th of MPI_Waitall's statuses; MPI_STATUSES_IGNORE and MPI_STATUS_IGNORE are both NULL. */
static inline ompi_status_public_t *status_of(ompi_status_public_t *statuses, size_t i)
{
    return NULL != statuses ? &statuses[i] : NULL;
}

/*
 * MPI_Waitall by Open MPI's MPI_Wait: with threads its MPI_Waitall hangs over a request that has
 * failed already (4.1.4).
 */
static int wait_each(size_t count, ompi_request_t **requests, ompi_status_public_t *statuses)
{
    int rc = OMPI_SUCCESS;

    for (size_t i = 0; i < count; ++i) {
        ompi_status_public_t *status = status_of(statuses, i);
        int error = next_wait(&requests[i], status);

        if (MPI_STATUS_IGNORE != status) {
            status->MPI_ERROR = error;
        }
        if (MPI_SUCCESS != error && MPI_SUCCESS == rc) {
            rc = MPI_STATUS_IGNORE != status ? MPI_ERR_IN_STATUS : error;
        }
    }
    return rc;
}

static int wait_all(size_t count, ompi_request_t **requests, ompi_status_public_t *statuses)
{
    mca_pml_tm_freed_t freed = {.first = NULL};

    for (size_t i = 0; i < count; ++i) {
        ompi_status_public_t *status = status_of(statuses, i);

        if (OPAL_UNLIKELY(!finish(requests[i], status, true, &freed))) {
            mca_pml_tm_recv_flush(&freed);
            return opal_using_threads() ? wait_each(count - i, &requests[i], status)
                                        : next_wait_all(count - i, &requests[i], status);
        }
        requests[i] = MPI_REQUEST_NULL;
    }
    mca_pml_tm_recv_flush(&freed);
    return OMPI_SUCCESS;
}

static int wait_one(ompi_request_t **request, ompi_status_public_t *status)
{
    mca_pml_tm_freed_t freed = {.first = NULL};

    if (OPAL_UNLIKELY(!finish(*request, status, false, &freed))) {
        return next_wait(request, status);
    }
    mca_pml_tm_recv_flush(&freed);
    *request = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

void mca_pml_tm_wait_open(void)
{
    if (0 != (mca_pml_tm.fast & PML_TM_FAST_WAIT_ALL) && !mca_pml_tm_is_fault_tolerant()) {
        next_wait_all = ompi_request_functions.req_wait_all;
        ompi_request_functions.req_wait_all = wait_all;
        next_wait = ompi_request_functions.req_wait;
        ompi_request_functions.req_wait = wait_one;
    }
}

void mca_pml_tm_wait_close(void)
{
    /*
     * a function that replaced this one since may still call it: it stays in memory as long as the
     * component
     */
    if (NULL != next_wait_all && wait_all == ompi_request_functions.req_wait_all) {
        ompi_request_functions.req_wait_all = next_wait_all;
        next_wait_all = NULL;
    }
    if (NULL != next_wait && wait_one == ompi_request_functions.req_wait) {
        ompi_request_functions.req_wait = next_wait;
        next_wait = NULL;
    }
}
