/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ends with a peer that failed or left, and with a communicator that is revoked; and the end
 * of this process in MPI: what has begun is completed before peers are closed.
 *
 * Begun are: messages that wait for room or are held back; matched receives whose data is not all
 * here; announced and synchronous sends that were not answered.  Only requests that the program
 * has freed, or forgotten, are among them.  All of this ends while both sides poll, but for sends
 * that no receive matches.  No more receives are posted, so unexpected messages are dropped from
 * now on, and their senders are told (WITHDRAWN): then such a send is not waited for either.
 * Receives that are posted stay so, since their message may be on its way.
 */
#include "pml_tm/pml_tm_entry.h"

#include <sched.h>

#include "fabric/fab_clock.h"

#include "pml_tm/arrive/pml_tm_msg.h"
#include "pml_tm/arrive/pml_tm_stream.h"
#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/request/pml_tm_failure.h"
#include "pml_tm/request/pml_tm_request.h"
#include "pml_tm/wait/pml_tm_progress.h"

/* ---- peers, and communicators -------------------------------------------- */

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
    failure = mca_pml_tm_failure_alloc();
    if (NULL == failure) {
        return; /* with fault tolerance: mpirun tells of the others */
    }
    failure->name = mca_pml_tm_failure_name(peer);
    failure->at = fab_now_us();
    snprintf(failure->why, sizeof(failure->why), "%s", why);
    failure->next = first;
    /* release: pairs with the acquire in mca_pml_tm_handle_failures() */
    atomic_store_explicit(&mca_pml_tm.failures, failure, memory_order_release);
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
    } while (NULL != core && (peer != core->peer || !mca_pml_tm_needs_peer(core)));
    record = NULL == core ? mca_pml_tm_peer_record(peer) : NULL;
    if (NULL != record) {
        record->has_left = true;
    }
    return NULL != core;
}

#ifdef PML_TM_HAS_FT
/* Take all messages out of the domain, oldest first, and put those back that are not refused. */
static void refuse_revoked(mca_pml_tm_comm_t *tmc)
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
            fab_match_add_msg(&tmc->match, &msg->match, mca_pml_tm_msg_source(msg->hdr),
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
    comm->coll_revoked = true;
    comm->comm_revoked = comm->comm_revoked || !coll_only;
    fab_lock(mca_pml_tm.fab);
    tmc->is_coll_revoked = true;
    tmc->fast &= ~(PML_TM_FAST_TAKE | PML_TM_FAST_LOOK); /* what comes is to be looked at */
    tmc->is_revoked = tmc->is_revoked || !coll_only;
    refuse_revoked(tmc);
    fab_unlock(mca_pml_tm.fab);
    return OMPI_SUCCESS;
}
#endif

/* ---- this process -------------------------------------------------------- */

/* What has begun and not ended. */
typedef struct begun {
    unsigned num_sends; /* with an id */
    unsigned num_recvs;
    bool is_queued; /* messages wait */
    bool can_end;   /* some of this: its peer is alive */
} begun_t;

/* Are sends held back for a live peer? */
static bool has_held(void)
{
    const mca_pml_tm_peer_t *record = mca_pml_tm.peers;

    while (NULL != record && (NULL == record->held || FAB_PEER_UP != record->peer->state)) {
        record = record->next;
    }
    return NULL != record;
}

/* Add the requests that have an id. */
static void count_ids(begun_t *begun)
{
    mca_pml_tm_core_t *core;
    uint32_t index = 0;

    while (NULL != (core = (mca_pml_tm_core_t *) fab_idmap_next(&mca_pml_tm.ids, &index))) {
        if (mca_pml_tm_needs_peer(core)) {
            begun->num_sends += MCA_PML_REQUEST_SEND == core->base->req_type;
            begun->num_recvs += MCA_PML_REQUEST_SEND != core->base->req_type;
            begun->can_end |= FAB_PEER_UP == core->peer->state && NULL != core->peer->fab;
        }
    }
}

/* Lock held. */
static begun_t find_begun(void)
{
    begun_t begun = {.is_queued = fab_has_queued(mca_pml_tm.fab) || has_held()};

    begun.num_recvs = mca_pml_tm.num_gets + mca_pml_tm_stream_count();
    if (NULL != mca_pml_tm.offload) {
        begun.num_recvs += mca_pml_tm.offload->num_matched();
    }
    begun.can_end = begun.is_queued || 0 != begun.num_recvs;
    count_ids(&begun);
    return begun;
}

/* Poll once.  True: poll again, since something was found, or has begun and can end. */
static bool poll_begun(void)
{
    bool is_more;

    fab_lock(mca_pml_tm.fab);
    is_more = 0 != mca_pml_tm_progress_locked() || find_begun().can_end;
    fab_unlock(mca_pml_tm.fab);
    mca_pml_tm_complete_done();
    return is_more;
}

/* From now on messages that no receive waits for are dropped.  Lock held. */
static void refuse_unexpected(void)
{
    mca_pml_tm.is_ending = true;
    mca_pml_tm_msg_drop(&mca_pml_tm.early, true);
    for (uint32_t i = 0; i < mca_pml_tm.num_comms; ++i) {
        if (NULL != mca_pml_tm.comms[i]) {
            mca_pml_tm.comms[i]->fast &= ~PML_TM_FAST_RECV; /* it keeps them by itself */
            mca_pml_tm_msg_drop(&mca_pml_tm.comms[i]->match, true);
        }
    }
}

/* Say what is left, if anything; with fault tolerance the program knows which process failed. */
static void tell(const begun_t *begun)
{
    const bool is_left = begun->is_queued || 0 != begun->num_recvs + begun->num_sends;

    if (is_left && (begun->can_end || !mca_pml_tm_is_fault_tolerant())) {
        mca_pml_tm.is_end_told = true;
        fab_help_show(mca_pml_tm_help, "not-complete", fab_process.nodename,
                      OMPI_NAME_PRINT(OMPI_PROC_MY_NAME), mca_pml_tm.params.close_timeout,
                      begun->num_recvs, begun->num_sends, begun->is_queued ? "yes" : "no");
    }
}

void mca_pml_tm_end(void)
{
    /* MPI_T does not check what is written */
    const uint64_t timeout_s = mca_pml_tm.is_end_told || mca_pml_tm.params.close_timeout < 0
                                   ? 0
                                   : (uint64_t) mca_pml_tm.params.close_timeout;
    const uint64_t end = fab_now_us() + timeout_s * 1000000;
    begun_t begun;

    fab_lock(mca_pml_tm.fab);
    refuse_unexpected();
    fab_unlock(mca_pml_tm.fab);
    while (poll_begun() && fab_now_us() < end) {
        sched_yield(); /* on a full host the peer may need this processor */
    }
    fab_lock(mca_pml_tm.fab);
    begun = find_begun();
    if (NULL != mca_pml_tm.offload) {
        mca_pml_tm.offload->close();
    }
    fab_unlock(mca_pml_tm.fab);
    if (!mca_pml_tm.is_end_told) {
        tell(&begun);
    }
}
