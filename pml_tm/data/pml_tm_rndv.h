/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous, both sides.
 */
#ifndef PML_TM_RNDV_H
#define PML_TM_RNDV_H

#include "pml_tm/request/pml_tm_request.h"

/* A message is announced, its first len bytes are here: get the rest. Lock held. */
void mca_pml_tm_recv_rndv(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                          const fab_rndv_t *rndv, const void *part, size_t len);

/* The announcement was overwritten: ask the sender to announce the message again. Lock held. */
void mca_pml_tm_recv_again(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr);

/*
 * The receiver's answer ends the request: now, or when no part of the data is in flight any more,
 * since the answer may come before the completion of the write.  Lock held.
 */
void mca_pml_tm_send_answered(mca_pml_tm_send_request_t *req, int error);

/*
 * The send that the peer names, which was not answered since it left. NULL if there is none; the
 * peer is then failed, what says why. Lock held.
 */
mca_pml_tm_send_request_t *mca_pml_tm_send_find_unanswered(fab_peer_t *peer, uint32_t id,
                                                           const char *what);

/* Announce the message. OPAL_ERR_RESOURCE_BUSY: no room now. Lock held. */
int mca_pml_tm_send_rts(mca_pml_tm_send_request_t *req);

/* Handlers: FAB_AM_FIN and PML_TM_AM_ACK, PML_TM_AM_CTS, PML_TM_AM_DATA, PML_TM_AM_NACK. */
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_rndv_fin);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_rndv_cts);

/* Where a fragment is to go; NULL: anywhere. */
void *mca_pml_tm_rndv_place(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, size_t len);

FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_rndv_data);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_rndv_nack);

/*
 * Copy the next part of a request's data, of that before end, into a message of at most max bytes
 * to the peer, behind front_len bytes; req->offset is the next one then.
 * OPAL_ERR_RESOURCE_BUSY: no room now; OPAL_ERR_UNREACH: the peer failed.  Lock held.
 */
int mca_pml_tm_send_copy(mca_pml_tm_send_request_t *req, fab_hdr_t hdr, const void *front,
                         size_t front_len, size_t end, size_t max);

#endif /* PML_TM_RNDV_H */
