/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives on a device that matches tags: connects the offload engine (offload/offload.h), the
 * fabric's device (fabric/fab_tm.h) and receive requests.  All functions run with the lock held.
 *
 * The device stores a message, or an announcement, in a listed receive's memory or in a buffer of
 * the provider.  An announced message is then fetched as any other.
 */
#ifndef PML_TM_OFFLOAD_H
#define PML_TM_OFFLOAD_H

#include "pml_tm_comm.h"
#include "pml_tm_request.h"

/*
 * The receive was posted and found no message: list it if allowed.  The communicator has an engine.
 */
void mca_pml_tm_offload_post(mca_pml_tm_comm_t *tmc, mca_pml_tm_recv_request_t *req);

/* The receive has left the list for good: release what the provider holds for it. */
void mca_pml_tm_offload_release_slow(mca_pml_tm_recv_request_t *req);

static inline void mca_pml_tm_offload_release(mca_pml_tm_recv_request_t *req)
{
    if (OPAL_UNLIKELY(NULL != req->offload.tm.place)) {
        mca_pml_tm_offload_release_slow(req);
    }
}

/*
 * For each receive of a communicator with an engine: enter when it starts, leave when it is
 * complete.  While two receives have the same memory, the device gets that memory only for the
 * first: the device may store an announcement there, which a message to the other receive would
 * overwrite. (Such a program is wrong, but benchmarks do it.)
 */
void mca_pml_tm_offload_enter(mca_pml_tm_recv_request_t *req);
void mca_pml_tm_offload_leave(mca_pml_tm_recv_request_t *req);

/*
 * The sender of the message that the device matched, or will match, to this receive, as far as
 * match says; NULL: not known.  Lock held.
 */
fab_peer_t *mca_pml_tm_offload_sender(const mca_pml_tm_recv_request_t *req,
                                      const fab_tm_match_t *match);

/* The same, if it is the process with this source rank. */
fab_peer_t *mca_pml_tm_offload_sender_rank(const mca_pml_tm_recv_request_t *req, int32_t source);

/* Does the engine still wait for something of this receive? */
static inline bool mca_pml_tm_offload_has(const mca_pml_tm_recv_request_t *req)
{
    return FAB_OFFLOAD_OUT != req->offload.state;
}

#endif /* PML_TM_OFFLOAD_H */
