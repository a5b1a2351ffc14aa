/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives: what the files of the receiving side call of each other.
 */
#ifndef PML_TM_RECV_H
#define PML_TM_RECV_H

#include "pml_tm_comm.h"

static inline mca_pml_tm_recv_request_t *mca_pml_tm_recv_of(fab_offload_recv_t *recv)
{
    return (mca_pml_tm_recv_request_t *) ((char *) recv -
                                          offsetof(mca_pml_tm_recv_request_t, offload));
}

/* A message of len bytes matched the receive: set its status and what it will take. Lock held. */
void mca_pml_tm_recv_matched(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                             size_t len);

/* The message is here: deliver it, done. Lock held. */
void mca_pml_tm_recv_eager(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                           const void *data, size_t len);

/* The message is in the user's buffer already: done. Lock held. */
void mca_pml_tm_recv_placed(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                            size_t len);

/* The message is announced: get it (pml_tm_rndv.c). Lock held. */
void mca_pml_tm_recv_rndv(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                          const fab_rndv_t *rndv);

/*
 * The receive of a rendezvous has its data, or will not have it: error is an MPI error class. A
 * truncation reported before stands. Lock held.
 */
void mca_pml_tm_recv_finish(mca_pml_tm_recv_request_t *req, int error);

/*
 * The next len bytes of the message, len <= wanted - received, go to the user's buffer. Lock held.
 */
void mca_pml_tm_recv_put(mca_pml_tm_recv_request_t *req, const void *data, size_t len);

/* Post a started request: match what is here or wait in the domain. Lock held. */
void mca_pml_tm_recv_post(mca_pml_tm_recv_request_t *req);

#endif /* PML_TM_RECV_H */
