/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting: what a call does that finds nothing, and MPI_Waitall.
 *
 * Where there are more processes than processors, one that polls keeps the one from running that it
 * waits for, for a time slice each time.  So those who find nothing yield, in blocking calls and in
 * the progress function, which Open MPI calls when it waits; and in blocking calls of this PML they
 * sleep when it takes long, a millisecond at a time, or until a message comes by TCP.
 *
 * MPI_Waitall by this PML: one pass over requests that are its own, most of them complete already,
 * each freed without a call.  What is anything else, or has an error, goes to Open MPI's function
 * with all that follow.
 *
 * Open MPI reaches it through ompi_request_functions, a table that is there to be filled by others.
 * Not used with threads, where waiting is Open MPI's (wait_sync), and not with fault tolerance,
 * which has its own rules for requests that fail.
 */
#include "pml_tm_recv.h"

#include <sched.h>
#include <time.h>

#include "fabric/fab_cpus.h"

enum {
    YIELDS_BEFORE_SLEEP = 1000, /* in a row: half a millisecond alone, a time slice of each other */
    SLEEP_STEP_US = 10,         /* by which sleeps grow */
    SLEEP_MAX_US = 1000,
};

/* ---- waiting ------------------------------------------------------------ */

/* auto: sleep if the job has more processes here than processors. */
static mca_pml_tm_idle_t choose_by_cpus(void)
{
    mca_pml_tm.cpus = fab_cpus("");
    return mca_pml_tm_process.num_local_peers + 1 > mca_pml_tm.cpus ? PML_TM_SLEEP : PML_TM_SPIN;
}

void mca_pml_tm_choose_idle(void)
{
    const char *wait = mca_pml_tm.params.wait;

    if (0 == strcmp(wait, "spin")) {
        mca_pml_tm.idle = PML_TM_SPIN;
    } else if (0 == strcmp(wait, "yield")) {
        mca_pml_tm.idle = PML_TM_YIELD;
    } else if (0 == strcmp(wait, "sleep")) {
        mca_pml_tm.idle = PML_TM_SLEEP;
    } else {
        mca_pml_tm.idle = choose_by_cpus();
    }
}

void mca_pml_tm_yield(void)
{
    /* without the lock */
    __atomic_fetch_add(&mca_pml_tm.counters.wait_yields, 1, __ATOMIC_RELAXED);
    sched_yield();
}

/*
 * If what ended a sleep was nothing that a poll found, the next one is not ended by it: it may stay,
 * such as a connection that strangers keep from being accepted.
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
    long us = ((long) ++mca_pml_tm.idle_polls - YIELDS_BEFORE_SLEEP) * SLEEP_STEP_US;

    if (us <= 0 || PML_TM_SLEEP != mca_pml_tm.idle) {
        mca_pml_tm.was_woken = false;
        mca_pml_tm_yield();
        return;
    }
    if (us >= SLEEP_MAX_US) {
        --mca_pml_tm.idle_polls;
    }
    sleep_for((unsigned) (us < SLEEP_MAX_US ? us : SLEEP_MAX_US));
}

/* ---- MPI_Waitall -------------------------------------------------------- */

static ompi_request_wait_all_fn_t next_wait_all; /* whose place this one took; NULL: not in place */

/*
 * Wait for one request and free it; *status, if it is not ignored, is its status.  False: nothing
 * was done but waiting, the request is a matter for Open MPI.
 */
static inline bool finish(ompi_request_t *request, ompi_status_public_t *status)
{
    mca_pml_base_request_t *base = (mca_pml_base_request_t *) request;

    if (&ompi_request_empty == request) {
        if (NULL != status) {
            OMPI_COPY_STATUS(status, request->req_status, true);
        }
        return true;
    }
    if (OPAL_UNLIKELY(mca_pml_tm_request_free != request->req_free || request->req_persistent)) {
        return false;
    }
    if (OPAL_UNLIKELY(!REQUEST_COMPLETE(request))) {
        mca_pml_tm_wait(request, false);
    }
    if (OPAL_UNLIKELY(MPI_SUCCESS != request->req_status.MPI_ERROR)) {
        return false;
    }
    if (NULL != status) {
        OMPI_COPY_STATUS(status, request->req_status, true);
    }
    if (OPAL_LIKELY(MCA_PML_REQUEST_RECV == base->req_type)) {
        mca_pml_tm_recv_release((mca_pml_tm_recv_request_t *) base);
    } else {
        mca_pml_tm_request_release(base);
    }
    return true;
}

static int wait_all(size_t count, ompi_request_t **requests, ompi_status_public_t *statuses)
{
    bool has_status = MPI_STATUSES_IGNORE != statuses;

    if (OPAL_UNLIKELY(opal_using_threads())) {
        return next_wait_all(count, requests, statuses);
    }
    for (size_t i = 0; i < count; ++i) {
        if (OPAL_UNLIKELY(!finish(requests[i], has_status ? &statuses[i] : NULL))) {
            return next_wait_all(count - i, &requests[i], has_status ? &statuses[i] : statuses);
        }
        requests[i] = MPI_REQUEST_NULL;
    }
    return OMPI_SUCCESS;
}

void mca_pml_tm_wait_open(void)
{
    if (0 != (mca_pml_tm.fast & PML_TM_FAST_WAIT_ALL) && !mca_pml_tm_is_fault_tolerant()) {
        next_wait_all = ompi_request_functions.req_wait_all;
        ompi_request_functions.req_wait_all = wait_all;
    }
}

void mca_pml_tm_wait_close(void)
{
    /* who took this one's place since calls it on: it stays in memory as long as the component */
    if (NULL != next_wait_all && wait_all == ompi_request_functions.req_wait_all) {
        ompi_request_functions.req_wait_all = next_wait_all;
        next_wait_all = NULL;
    }
}
