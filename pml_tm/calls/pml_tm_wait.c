/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Waitall by this PML: one pass over requests that are its own, most of them complete already,
 * each freed without a call, the receives all at once under one lock.  At the first request of
 * another kind, or with an error, Open MPI's function takes over for this and all following
 * requests.  MPI_Wait only waits here, and then continues in Open MPI's function.
 *
 * MPI_Test and MPI_Testany of requests of which none is complete poll for messages alone, most of
 * the time: Open MPI's functions poll all of its components each time.
 *
 * Open MPI calls them through ompi_request_functions, a table that components may change.  They are
 * not used with fault tolerance, which has its own rules for failed requests.
 */
#include "pml_tm/calls/pml_tm_calls.h"

#include "pml_tm/request/pml_tm_request.h"
#include "pml_tm/wait/pml_tm_progress.h"

static ompi_request_fns_t next; /* the functions that were replaced */

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
        int error = next.req_wait(&requests[i], status);

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
                                        : next.req_wait_all(count - i, &requests[i], status);
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
        return next.req_wait(request, status);
    }
    mca_pml_tm_recv_flush(&freed);
    *request = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

/* Is it a request of this PML that is under way?  An inactive persistent one counts as complete. */
static inline bool is_under_way(const ompi_request_t *request)
{
    return OPAL_LIKELY(mca_pml_tm_request_free == request->req_free &&
                       !mca_pml_tm_is_complete(request));
}

static int test_one(ompi_request_t **request, int *completed, ompi_status_public_t *status)
{
    int events;

    if (is_under_way(*request) && mca_pml_tm_poll_light(&events) &&
        (0 == events || !mca_pml_tm_is_complete(*request))) {
        *completed = false;
        return OMPI_SUCCESS;
    }
    return next.req_test(request, completed, status);
}

static int test_any(size_t count, ompi_request_t **requests, int *index, int *completed,
                    ompi_status_public_t *status)
{
    size_t num_inactive = 0;
    int events;

    for (size_t i = 0; i < count; ++i) {
        if (!is_under_way(requests[i])) {
            if (OMPI_REQUEST_INACTIVE != requests[i]->req_state) {
                return next.req_test_any(count, requests, index, completed, status);
            }
            ++num_inactive;
        }
    }
    if (num_inactive == count || !mca_pml_tm_poll_light(&events) || 0 != events) {
        return next.req_test_any(count, requests, index, completed, status);
    }
    *index = MPI_UNDEFINED;
    *completed = false;
    return OMPI_SUCCESS;
}

void mca_pml_tm_wait_open(void)
{
    if (0 != (mca_pml_tm.fast & PML_TM_FAST_WAIT_ALL) && !mca_pml_tm_is_fault_tolerant()) {
        next = ompi_request_functions;
        ompi_request_functions.req_wait_all = wait_all;
        ompi_request_functions.req_wait = wait_one;
        ompi_request_functions.req_test = test_one;
        ompi_request_functions.req_test_any = test_any;
    }
}

/*
 * A function that replaced one of these since may still call it, so it stays in memory as long as
 * the component.
 */
#define PUT_BACK(member, mine)                                                                     \
    if ((mine) == ompi_request_functions.member) {                                                 \
        ompi_request_functions.member = next.member;                                               \
    }

void mca_pml_tm_wait_close(void)
{
    PUT_BACK(req_wait_all, wait_all)
    PUT_BACK(req_wait, wait_one)
    PUT_BACK(req_test, test_one)
    PUT_BACK(req_test_any, test_any)
}
