/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting persistent requests.
 *
 * MPI_Start and MPI_Startall have checked that the requests are persistent and at rest;
 * MPI_Startall ignores what this returns, so errors come through the requests.
 */
#include "pml_tm_recv.h"
#include "pml_tm_send.h"

static void start_send(mca_pml_tm_send_request_t *req)
{
    if (MCA_PML_BASE_SEND_BUFFERED == req->req_send.req_send_mode) {
        mca_pml_tm_bsend_start(req);
        return;
    }
    fab_lock(mca_pml_tm.fab);
    mca_pml_tm_send_start(req);
    fab_unlock(mca_pml_tm.fab);
}

static void start_recv(mca_pml_tm_recv_request_t *req)
{
    fab_lock(mca_pml_tm.fab);
    mca_pml_tm_recv_post(req);
    fab_unlock(mca_pml_tm.fab);
}

int mca_pml_tm_start(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; ++i) {
        mca_pml_base_request_t *base = (mca_pml_base_request_t *) requests[i];

        if (NULL == base || OMPI_REQUEST_PML != base->req_ompi.req_type) {
            continue;
        }
        if (MCA_PML_REQUEST_SEND == base->req_type) {
            start_send((mca_pml_tm_send_request_t *) base);
        } else {
            start_recv((mca_pml_tm_recv_request_t *) base);
        }
    }
    mca_pml_tm_complete_done();
    return OMPI_SUCCESS;
}
