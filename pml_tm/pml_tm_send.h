/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends: what pml_tm_send.c gives to the other files.
 */
#ifndef PML_TM_SEND_H
#define PML_TM_SEND_H

#include "pml_tm_comm.h"

static inline mca_pml_tm_send_request_t *mca_pml_tm_send_of_item(fab_item_t *item)
{
    return (mca_pml_tm_send_request_t *) ((char *) item -
                                          offsetof(mca_pml_tm_send_request_t, item));
}

static inline mca_pml_tm_send_request_t *mca_pml_tm_send_of_core(mca_pml_tm_core_t *core)
{
    return (mca_pml_tm_send_request_t *) ((char *) core -
                                          offsetof(mca_pml_tm_send_request_t, core));
}

/* Start an initialised request. Lock held; errors come through the request. */
void mca_pml_tm_send_start(mca_pml_tm_send_request_t *req);

/*
 * Start a persistent buffered send: the data goes to the attached buffer, the request is done. Lock
 * not held.
 */
void mca_pml_tm_bsend_start(mca_pml_tm_send_request_t *req);

/* The transport is finished with the request; error: MPI error class for its status. Lock held. */
void mca_pml_tm_send_finish(mca_pml_tm_send_request_t *req, int error);

/*
 * The receiver's answer ends the request: now, or when no part of the data is in flight any more
 * (pml_tm_rndv.c), since the answer may come before the completion of the write.  Lock held.
 */
void mca_pml_tm_send_answered(mca_pml_tm_send_request_t *req, int error);

/*
 * The send that the peer names, which was not answered since it left (pml_tm_rndv.c). NULL if there
 * is none; the peer is then failed, what says why. Lock held.
 */
mca_pml_tm_send_request_t *mca_pml_tm_send_find_unanswered(fab_peer_t *peer, uint32_t id,
                                                           const char *what);

/*
 * A queued send's turn, with the protocol chosen anew. Lock held; OPAL_ERR_RESOURCE_BUSY: no room.
 */
int mca_pml_tm_send_item(fab_item_t *item, fab_peer_t *peer);

/* Announce the message (pml_tm_rndv.c). OPAL_ERR_RESOURCE_BUSY: no room now. Lock held. */
int mca_pml_tm_send_rts(mca_pml_tm_send_request_t *req);

/*
 * Handlers (pml_tm_rndv.c): FAB_AM_FIN, PML_TM_AM_ACK, PML_TM_AM_CTS, PML_TM_AM_DATA,
 * PML_TM_AM_NACK.
 */
void mca_pml_tm_rndv_fin(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len);
void mca_pml_tm_rndv_ack(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len);
void mca_pml_tm_rndv_cts(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len);
/* Where a fragment is to go; NULL: anywhere. */
void *mca_pml_tm_rndv_place(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, size_t len);
void mca_pml_tm_rndv_data(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len);
void mca_pml_tm_rndv_nack(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len);

#endif /* PML_TM_SEND_H */
