/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delivery: the data of a matched message goes to the user's buffer, and the receive ends.
 */
#ifndef PML_TM_DELIVER_H
#define PML_TM_DELIVER_H

#include "fabric/fab_copy.h"

#include "pml_tm/request/pml_tm_offload.h"
#include "pml_tm/request/pml_tm_request.h"

/* As mca_pml_tm_done(). */
static inline void mca_pml_tm_recv_done(mca_pml_tm_recv_request_t *req)
{
    if (OPAL_UNLIKELY(NULL != mca_pml_tm.offload)) {
        mca_pml_tm.offload->leave(req);
    }
    mca_pml_tm_done(&req->core);
}

/* No message will match it any more. */
static inline void mca_pml_tm_recv_cancelled(mca_pml_tm_recv_request_t *req)
{
    ++mca_pml_tm.counters.cancelled;
    req->req_recv.req_base.req_ompi.req_status._cancelled = true;
    mca_pml_tm_recv_done(req);
}

/*
 * A message of len bytes matched the receive: set its status and the number of bytes to receive.
 * Lock held.
 */
void mca_pml_tm_recv_matched(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                             size_t len);

/* The message is here: deliver it, done.  data NULL: it is in the user's buffer.  Lock held. */
void mca_pml_tm_recv_eager(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                           const void *data, size_t len);

/*
 * The receive of a rendezvous has its data, or will not have it: error is an MPI error class. A
 * truncation reported before stands. Lock held.
 */
void mca_pml_tm_recv_finish(mca_pml_tm_recv_request_t *req, int error);

/*
 * The next len bytes of the message, len <= wanted - received, go to the user's buffer. Lock held.
 */
void mca_pml_tm_recv_put(mca_pml_tm_recv_request_t *req, const void *data, size_t len);

/* A message that the receive could take whole is in the user's buffer. key: its source and tag. */
static inline __attribute__((always_inline)) void
mca_pml_tm_deliver_end(mca_pml_tm_recv_request_t *req, uint64_t key, size_t len)
{
    ompi_status_public_t *status = &req->req_recv.req_base.req_ompi.req_status;

    status->MPI_SOURCE = (int32_t) (key >> 32);
    status->MPI_TAG = (int32_t) (uint32_t) key;
    status->_ucount = len;
    mca_pml_tm_done_as(&req->core, true);
}

/*
 * A short message has found its receive.  It has no app_ctx, and of its tag the key is enough: what
 * is left of its header needs no memory.
 */
static inline __attribute__((always_inline)) void
mca_pml_tm_deliver_short(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, uint64_t key,
                         const void *data, size_t len)
{
    if (OPAL_UNLIKELY(NULL == req->data || len > req->capacity)) {
        mca_pml_tm_recv_eager(req, peer, fab_hdr(FAB_AM_EAGER, key, 0), data, len);
        return;
    }
    fab_copy_short(req->data, data, len);
    mca_pml_tm_deliver_end(req, key, len);
}

#endif /* PML_TM_DELIVER_H */
