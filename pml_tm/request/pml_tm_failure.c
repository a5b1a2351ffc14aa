/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failed peers, with and without fault tolerance; revoked communicators.  See pml_tm_failure.h.
 */
#include "pml_tm/request/pml_tm_failure.h"

#include "fabric/fab_clock.h"

#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/request/pml_tm_request.h"

/* Microseconds that mpirun, which usually knows first, has to end the job before pml tm does. */
enum { FAILURE_GRACE_US = 3000000 };

/* One of them, if there was no memory; at is 0: unused. Lock: the fabric's. */
static mca_pml_tm_failure_t reserve;

mca_pml_tm_failure_t *mca_pml_tm_failure_alloc(void)
{
    mca_pml_tm_failure_t *failure = malloc(sizeof(*failure));

    return NULL == failure && 0 == reserve.at ? &reserve : failure;
}

static void failure_free(mca_pml_tm_failure_t *failure)
{
    if (&reserve == failure) {
        fab_lock(mca_pml_tm.fab);
        reserve.at = 0;
        fab_unlock(mca_pml_tm.fab);
    } else {
        free(failure);
    }
}

opal_process_name_t mca_pml_tm_failure_name(const fab_peer_t *peer)
{
    return (opal_process_name_t){.jobid = (opal_jobid_t) (peer->name >> 32),
                                 .vpid = (opal_vpid_t) peer->name};
}

static void end_job(const mca_pml_tm_failure_t *failure)
{
    ompi_proc_t *proc;
    char *hostname;

    if (fab_now_us() - failure->at < FAILURE_GRACE_US) {
        return;
    }
    proc = (ompi_proc_t *) ompi_proc_for_name(failure->name);
    hostname = NULL != proc ? mca_pml_tm_hostname(proc) : NULL;
    fab_help_show(mca_pml_tm_help, "peer-failed", fab_process.nodename,
                  OMPI_NAME_PRINT(OMPI_PROC_MY_NAME), OMPI_NAME_PRINT(&failure->name),
                  NULL != hostname ? hostname : "unknown", failure->why);
    free(hostname);
    ompi_rte_abort(1, NULL);
}

/* Take all, tell Open MPI of them if it is to know, and free them. */
static void end_failures(bool is_told)
{
    mca_pml_tm_failure_t *failure, *next;

    fab_lock(mca_pml_tm.fab);
    failure = atomic_load_explicit(&mca_pml_tm.failures, memory_order_relaxed);
    atomic_store_explicit(&mca_pml_tm.failures, NULL, memory_order_relaxed);
    fab_unlock(mca_pml_tm.fab);
    for (; NULL != failure; failure = next) {
        next = failure->next;
        if (is_told) {
            mca_pml_tm_tell_failed(&failure->name);
        }
        failure_free(failure);
    }
}

void mca_pml_tm_handle_failures_slow(void)
{
    if (mca_pml_tm_is_fault_tolerant()) {
        end_failures(true);
    } else {
        end_job(atomic_load_explicit(&mca_pml_tm.failures, memory_order_acquire));
    }
}

void mca_pml_tm_failure_fini(void)
{
    end_failures(false);
}

void mca_pml_tm_check_peer(fab_peer_t *peer)
{
    opal_process_name_t name;

    if (!mca_pml_tm_is_fault_tolerant() || NULL == peer || FAB_PEER_UP != peer->state) {
        return;
    }
    name = mca_pml_tm_failure_name(peer);
    if (mca_pml_tm_is_failed(&name)) {
        fab_peer_fail(peer, OMPI_ERR_UNREACH, "the runtime reports that it failed");
    }
}

bool mca_pml_tm_is_orphan(const mca_pml_tm_core_t *core)
{
    if (!mca_pml_tm_is_fault_tolerant() || PML_TM_ACTIVE != core->state || NULL == core->peer) {
        return false;
    }
    mca_pml_tm_check_peer(core->peer);
    return fab_peer_is_gone(core->peer);
}

/* ---- revoked communicators ---------------------------------------------- */

bool mca_pml_tm_refuse_revoked(const mca_pml_tm_comm_t *tmc, fab_peer_t *peer, fab_hdr_t hdr)
{
    if (OPAL_LIKELY(!tmc->is_coll_revoked) ||
        !mca_pml_tm_is_refused(mca_pml_tm_tag_tag(hdr.tag), tmc->is_revoked)) {
        return false;
    }
    if (0 != hdr.app_ctx) {
        mca_pml_tm_answer(peer, fab_hdr(PML_TM_AM_NACK, PML_TM_ERR_REVOKED, hdr.app_ctx), NULL, 0);
    }
    return true;
}
