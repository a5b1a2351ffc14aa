/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Waitall by this PML: one pass over requests that are its own, most of them complete already,
 * each freed without a call.  What is anything else, or has an error, goes to Open MPI's function
 * with all that follow.
 *
 * Open MPI reaches it through ompi_request_functions, a table that is there to be filled by others.
 * Not used with threads, where waiting is Open MPI's (wait_sync), and not with fault tolerance,
 * which has its own rules for requests that fail.
 */
#include "pml_tm_recv.h"

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
