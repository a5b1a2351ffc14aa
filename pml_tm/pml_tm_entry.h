/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What opens and closes, and what ends: the module, the end of this process in MPI, failures.
 */
#ifndef PML_TM_ENTRY_H
#define PML_TM_ENTRY_H

#include "pml_tm/base/pml_tm.h"

/* ---- pml_tm_module.c ---------------------------------------------------- */

extern mca_pml_base_module_t mca_pml_tm_module;

/* Free the communicators that are left when the component closes. */
void mca_pml_tm_comm_fini(void);

/* ---- pml_tm_end.c ------------------------------------------------------- */

/*
 * Before peers are closed: complete what has begun, if their processes take part within
 * params.close_timeout; after that the user is told, once.  No receive may be posted any more.
 * Lock not held.
 */
void mca_pml_tm_end(void);

/* Callback of the fabric, under its lock: a peer failed. */
void mca_pml_tm_peer_failed(void *ctx, fab_peer_t *peer, int rc, const char *why);

/*
 * Callback of the fabric, under its lock: a peer has left.  True: a pending request still needs it.
 */
bool mca_pml_tm_peer_left(void *ctx, fab_peer_t *peer);

/* pml_revoke_comm, with PML_TM_HAS_FT. coll_only: revoke only messages of collectives. */
int mca_pml_tm_revoke_comm(ompi_communicator_t *comm, bool coll_only);

#endif /* PML_TM_ENTRY_H */
