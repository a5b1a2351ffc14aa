/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrival of messages from the fabric.
 */
#ifndef PML_TM_ARRIVE_H
#define PML_TM_ARRIVE_H

#include "pml_tm_comm.h"

/* Handlers of FAB_AM_NO_TAG and PML_TM_AM_CONTEXT. */
void mca_pml_tm_excid_untagged(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                               size_t len);

void mca_pml_tm_excid_context(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                              size_t len);

/*
 * Deliver an untagged message whose prefix was read and checked, to a communicator that exists
 * here; data points behind the prefix.
 */
void mca_pml_tm_excid_deliver(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, fab_hdr_t hdr,
                              const mca_pml_tm_untagged_t *prefix, const void *data, size_t len);

/* Handlers of FAB_AM_EAGER and FAB_AM_RNDV. */
void mca_pml_tm_msg_eager(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len);

void mca_pml_tm_msg_rndv(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len);

/* Move the early messages of a new communicator into its domain. Lock held. */
void mca_pml_tm_msg_join(mca_pml_tm_comm_t *tmc);

/* Handler of PML_TM_AM_DATA: a part of a stream or of a rendezvous. */
void mca_pml_tm_msg_data(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len);

#endif /* PML_TM_ARRIVE_H */
