/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failed peers, with and without fault tolerance; revoked communicators.  See pml_tm_failure.h.
 */
#include "pml_tm_failure.h"

#include "fabric/fab_clock.h"

#include "pml_tm_msg.h"
#include "pml_tm_peer.h"
#include "pml_tm_send.h"
#include "pml_tm_stream.h"

/* Microseconds that mpirun, which usually knows first, has to end the job before pml tm does. */
enum { FAILURE_GRACE_US = 3000000 };

/* A peer that failed, not handled yet. */
struct mca_pml_tm_failure {
    mca_pml_tm_failure_t *next;
    opal_process_name_t name;
    uint64_t at; /* us */
    char why[256];
};

/* One of them, if there was no memory; at is 0: unused. Lock: the fabric's. */
static mca_pml_tm_failure_t reserve;

/* A new record; NULL: no memory. There is always memory for one, which can end the job. */
static mca_pml_tm_failure_t *failure_alloc(void)
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

static opal_process_name_t name_of(const fab_peer_t *peer)
{
    return (opal_process_name_t){.jobid = (opal_jobid_t) (peer->name >> 32),
                                 .vpid = (opal_vpid_t) peer->name};
}

void mca_pml_tm_peer_failed(void *ctx, fab_peer_t *peer, int rc, const char *why)
{
    mca_pml_tm_failure_t *first = atomic_load_explicit(&mca_pml_tm.failures, memory_order_relaxed);
    mca_pml_tm_failure_t *failure;

    (void) ctx;
    (void) rc;
    mca_pml_tm_stream_drop(peer);
    if (NULL != first && !mca_pml_tm_is_fault_tolerant()) {
        return; /* the first one ends the job */
    }
    failure = failure_alloc();
    if (NULL == failure) {
        return; /* with fault tolerance: mpirun tells of the others */
    }
    failure->name = name_of(peer);
    failure->at = fab_now_us();
    snprintf(failure->why, sizeof(failure->why), "%s", why);
    failure->next = first;
    /* release: pairs with the acquire in mca_pml_tm_handle_failures() */
    atomic_store_explicit(&mca_pml_tm.failures, failure, memory_order_release);
}

/* Does a request with an id wait for an answer or data of the peer? */
static bool waits_for(mca_pml_tm_core_t *core, const fab_peer_t *peer)
{
    if (peer != core->peer || PML_TM_ACTIVE != core->state) {
        return false;
    }
    return MCA_PML_REQUEST_SEND != core->base->req_type ||
           PML_TM_CANCEL_DROPPED != mca_pml_tm_send_of_core(core)->cancel;
}

bool mca_pml_tm_peer_left(void *ctx, fab_peer_t *peer)
{
    mca_pml_tm_peer_t *record = (mca_pml_tm_peer_t *) peer->user[FAB_USER_PML];
    mca_pml_tm_core_t *core;
    uint32_t index = 0;

    (void) ctx;
    if (NULL != record) {
        if (NULL != record->held) {
            return true;
        }
        /* the peer would never release messages that are held from now on */
        record->must_hold = false;
    }
    do {
        core = (mca_pml_tm_core_t *) fab_idmap_next(&mca_pml_tm.ids, &index);
    } while (NULL != core && !waits_for(core, peer));
    record = NULL == core ? mca_pml_tm_peer_record(peer) : NULL;
    if (NULL != record) {
        record->has_left = true;
    }
    return NULL != core;
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
    mca_pml_tm_show_help("peer-failed", mca_pml_tm_process.nodename,
                         OMPI_NAME_PRINT(OMPI_PROC_MY_NAME), OMPI_NAME_PRINT(&failure->name),
                         NULL != hostname ? hostname : "unknown", failure->why);
    free(hostname);
    ompi_rte_abort(1, NULL);
}

static mca_pml_tm_failure_t *take_failures(void)
{
    mca_pml_tm_failure_t *failures;

    fab_lock(mca_pml_tm.fab);
    failures = atomic_load_explicit(&mca_pml_tm.failures, memory_order_relaxed);
    atomic_store_explicit(&mca_pml_tm.failures, NULL, memory_order_relaxed);
    fab_unlock(mca_pml_tm.fab);
    return failures;
}

void mca_pml_tm_handle_failures_slow(void)
{
    mca_pml_tm_failure_t *failure, *next;

    if (!mca_pml_tm_is_fault_tolerant()) {
        end_job(atomic_load_explicit(&mca_pml_tm.failures, memory_order_acquire));
        return;
    }
    for (failure = take_failures(); NULL != failure; failure = next) {
        next = failure->next;
        mca_pml_tm_tell_failed(&failure->name);
        failure_free(failure);
    }
}

void mca_pml_tm_failure_fini(void)
{
    mca_pml_tm_failure_t *failure, *next;

    for (failure = take_failures(); NULL != failure; failure = next) {
        next = failure->next;
        failure_free(failure);
    }
}

void mca_pml_tm_check_peer(fab_peer_t *peer)
{
    opal_process_name_t name;

    if (!mca_pml_tm_is_fault_tolerant() || NULL == peer || FAB_PEER_UP != peer->state) {
        return;
    }
    name = name_of(peer);
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

/* Is a message with this tag refused in the communicator? */
static bool is_revoked(const mca_pml_tm_comm_t *tmc, int32_t tag)
{
    return (tmc->is_revoked && !mca_pml_tm_tag_is_ft(tag)) ||
           (tmc->is_coll_revoked && mca_pml_tm_tag_is_collective(tag));
}

bool mca_pml_tm_refuse_revoked(const mca_pml_tm_comm_t *tmc, fab_peer_t *peer, fab_hdr_t hdr)
{
    if (OPAL_LIKELY(!tmc->is_coll_revoked) || !is_revoked(tmc, mca_pml_tm_tag_tag(hdr.tag))) {
        return false;
    }
    if (0 != hdr.app_ctx) {
        mca_pml_tm_answer(peer, fab_hdr(PML_TM_AM_NACK, PML_TM_ERR_REVOKED, hdr.app_ctx), NULL, 0);
    }
    return true;
}

/* Take all messages out of the domain, oldest first, and put those back that are not refused. */
static void refuse_unexpected(mca_pml_tm_comm_t *tmc)
{
    mca_pml_tm_msg_t *msg, *first = NULL, **tail = &first;
    fab_match_msg_t *match;

    while (NULL != (match = fab_match_first_msg(&tmc->match))) {
        fab_match_remove_msg(&tmc->match, match);
        msg = mca_pml_tm_msg_of(match);
        msg->next = NULL;
        *tail = msg;
        tail = &msg->next;
    }
    while (NULL != (msg = first)) {
        first = msg->next;
        if (mca_pml_tm_refuse_revoked(tmc, msg->peer, msg->hdr)) {
            mca_pml_tm_msg_release(msg);
        } else {
            fab_match_add_msg(&tmc->match, &msg->match,
                              mca_pml_tm_tag_source(msg->hdr.tag, mca_pml_tm.source_bits),
                              mca_pml_tm_tag_tag(msg->hdr.tag));
        }
    }
}

int mca_pml_tm_revoke_comm(ompi_communicator_t *comm, bool coll_only)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(comm);

    if (OMPI_COMM_IS_INTER(comm)) {
        mca_pml_tm_revoke_comm(comm->c_local_comm, coll_only);
    }
    mca_pml_tm_mark_revoked(comm, coll_only);
    fab_lock(mca_pml_tm.fab);
    tmc->is_coll_revoked = true;
    tmc->fast &= ~(PML_TM_FAST_TAKE | PML_TM_FAST_LOOK); /* what comes is to be looked at */
    tmc->is_revoked = tmc->is_revoked || !coll_only;
    refuse_unexpected(tmc);
    fab_unlock(mca_pml_tm.fab);
    return OMPI_SUCCESS;
}
