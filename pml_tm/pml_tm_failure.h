/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that fail, and what becomes of the job.
 *
 * Without fault tolerance a failed peer ends the job, with one message that says which and why:
 * mpirun's if it died as mpirun's child, ours if not.  Requests that need the peer stay open until
 * then: with an error, MPI's error handler would end the job at once, with a message that says nothing.
 *
 * A peer that left the job in order is lost, too, if something is open that waits for it: an answer
 * that it did not give, data that it did not fetch or send.  A receive that nothing has matched is no
 * reason, nor is a send of which the peer has said that nothing there will match it: the program may
 * cancel both.
 *
 * With it (Open MPI 5.0, mpirun --with-ft ulfm) Open MPI is told, and decides, request by request,
 * which cannot complete: it sets an error in their status and cancels them.  Such a request
 * completes when nothing of it is under way any more. MPIX_Comm_revoke refuses what came for the
 * communicator and was not matched, so that its senders come free.
 */
#ifndef PML_TM_FAILURE_H
#define PML_TM_FAILURE_H

#include "pml_tm_comm.h"

/* Callback of the fabric, under its lock: a peer failed. */
void mca_pml_tm_peer_failed(void *ctx, fab_peer_t *peer, int rc, const char *why);

/* Callback of the fabric, under its lock: a peer has left.  True: something open still needs it. */
bool mca_pml_tm_peer_left(void *ctx, fab_peer_t *peer);

/* End the job, or tell Open MPI, for peers that have failed.  Lock not held. */
void mca_pml_tm_handle_failures_slow(void);

static inline void mca_pml_tm_handle_failures(void)
{
    /* acquire: pairs with the release in mca_pml_tm_peer_failed() */
    if (OPAL_UNLIKELY(NULL != atomic_load_explicit(&mca_pml_tm.failures, memory_order_acquire))) {
        mca_pml_tm_handle_failures_slow();
    }
}

/* Fail the peer, if Open MPI knows that its process has failed; NULL is none. Lock held. */
void mca_pml_tm_check_peer(fab_peer_t *peer);

/*
 * Open MPI gives up on a request that is matched or sent, for its peer failed.  May it complete
 * now?  If not, Open MPI will ask again.  Lock held.
 */
bool mca_pml_tm_is_orphan(const mca_pml_tm_core_t *core);

/* pml_revoke_comm. coll_only: only what belongs to collectives. */
int mca_pml_tm_revoke_comm(ompi_communicator_t *comm, bool coll_only);

/* Refuse a message of a revoked communicator, if it is one: its sender is told. Lock held. */
bool mca_pml_tm_refuse_revoked(const mca_pml_tm_comm_t *tmc, fab_peer_t *peer, fab_hdr_t hdr);

/* Free what is left when the component closes. */
void mca_pml_tm_failure_fini(void);

#endif /* PML_TM_FAILURE_H */
