/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failed peers, and what happens to the job.
 *
 * Without fault tolerance a failed peer ends the job, with one message that says which peer and
 * why: mpirun's message if the peer died as mpirun's child, otherwise ours.  Until then requests
 * that need the peer stay open.  If they completed in error, MPI's error handler would end the job
 * at once, with a message that does not name the cause.
 *
 * A peer that left the job normally also counts as lost if a request still waits for it: for an
 * answer, or for data that it did not fetch or send.  An unmatched receive does not count, nor does
 * a send that no receive there will match, according to the peer: the program may cancel both.
 *
 * With fault tolerance (Open MPI 5.0, mpirun --with-ft ulfm) pml_tm reports the failure to Open
 * MPI, which decides for each request whether it can complete.  If not, it sets an error in the
 * status and cancels the request.  Such a request completes when none of its operations is under
 * way any more.  MPIX_Comm_revoke refuses unmatched messages of the communicator, which releases
 * their senders.
 */
#ifndef PML_TM_FAILURE_H
#define PML_TM_FAILURE_H

#include "pml_tm/peer/pml_tm_comm.h"

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
 * Open MPI gives up on a matched or sent request because its peer failed.  May the request complete
 * now?  If not, Open MPI will ask again.  Lock held.
 */
bool mca_pml_tm_is_orphan(const mca_pml_tm_core_t *core);

/* Refuse the message, and tell its sender, if its communicator is revoked. Lock held. */
bool mca_pml_tm_refuse_revoked(const mca_pml_tm_comm_t *tmc, fab_peer_t *peer, fab_hdr_t hdr);

/* Free what is left when the component closes. */
void mca_pml_tm_failure_fini(void);

/* A peer that failed, not handled yet. */
struct mca_pml_tm_failure {
    mca_pml_tm_failure_t *next;
    opal_process_name_t name;
    uint64_t at; /* us */
    char why[256];
};

/*
 * A new record; NULL: no memory. There is always memory for one, which can end the job. Lock held.
 */
mca_pml_tm_failure_t *mca_pml_tm_failure_alloc(void);

/* The peer's process. */
opal_process_name_t mca_pml_tm_failure_name(const fab_peer_t *peer);

#endif /* PML_TM_FAILURE_H */
