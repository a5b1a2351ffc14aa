/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that fail or leave, and communicators that are revoked: what the fabric and Open MPI call.
 */
#ifndef PML_TM_FAILURE_EVENTS_H
#define PML_TM_FAILURE_EVENTS_H

#include "pml_tm.h"

/* Callback of the fabric, under its lock: a peer failed. */
void mca_pml_tm_peer_failed(void *ctx, fab_peer_t *peer, int rc, const char *why);

/*
 * Callback of the fabric, under its lock: a peer has left.  True: a pending request still needs it.
 */
bool mca_pml_tm_peer_left(void *ctx, fab_peer_t *peer);

/* pml_revoke_comm. coll_only: revoke only messages of collectives. */
int mca_pml_tm_revoke_comm(ompi_communicator_t *comm, bool coll_only);

#endif /* PML_TM_FAILURE_EVENTS_H */
