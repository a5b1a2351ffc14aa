/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives on a device that matches tags: between the offload engine (offload/offload.h), the
 * fabric's device (fabric/fab_tm.h) and receive requests.  All of it with the lock held.
 *
 * What the device puts into a listed receive's memory, or into a buffer of the provider's, is the
 * message, or the announcement of one that is then fetched as any other.
 */
#ifndef PML_TM_OFFLOAD_H
#define PML_TM_OFFLOAD_H

#include "pml_tm_comm.h"
#include "pml_tm_recv.h"

/* Take the fabric's matching device, if there is one. */
void mca_pml_tm_offload_open(void);

/* Nothing is matched by the device any more; what was listed stays posted. */
void mca_pml_tm_offload_close(void);

/* When all communicators are gone. */
void mca_pml_tm_offload_free(void);

/*
 * The receive was posted and found no message: list it, if that may be.  The communicator has an
 * engine.
 */
void mca_pml_tm_offload_post(mca_pml_tm_comm_t *tmc, mca_pml_tm_recv_request_t *req);

/* The receive is off the list for good: what the provider holds for it goes back. */
void mca_pml_tm_offload_release_slow(mca_pml_tm_recv_request_t *req);

static inline void mca_pml_tm_offload_release(mca_pml_tm_recv_request_t *req)
{
    if (OPAL_UNLIKELY(NULL != req->offload.tm.place)) {
        mca_pml_tm_offload_release_slow(req);
    }
}

/*
 * For each receive of a communicator with an engine: enter when it starts, leave when it is complete.
 * While two receives have the same memory, the device gets it for the first one alone: it may put an
 * announcement there, which a message to the other would overwrite.  (Such a program is wrong, but
 * benchmarks do it.)
 */
void mca_pml_tm_offload_enter(mca_pml_tm_recv_request_t *req);
void mca_pml_tm_offload_leave(mca_pml_tm_recv_request_t *req);

/* As mca_pml_tm_done(). */
static inline void mca_pml_tm_recv_done(mca_pml_tm_recv_request_t *req)
{
    if (OPAL_UNLIKELY(NULL != req->memory_prev)) {
        mca_pml_tm_offload_leave(req);
    }
    mca_pml_tm_done(&req->core);
}

/*
 * The sender of what the device matched for this receive, or will match; NULL: not known.
 * Lock held.
 */
fab_peer_t *mca_pml_tm_offload_sender(const mca_pml_tm_recv_request_t *req);

/* Does the engine still wait for something of this receive? */
static inline bool mca_pml_tm_offload_has(const mca_pml_tm_recv_request_t *req)
{
    return FAB_OFFLOAD_OUT != req->offload.state;
}

#endif /* PML_TM_OFFLOAD_H */
