/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ends with a peer that failed or left, and with a communicator that is revoked.
 */
#include "pml_tm/pml_tm_entry.h"

#include "fabric/fab_clock.h"

#include "pml_tm/arrive/pml_tm_msg.h"
#include "pml_tm/arrive/pml_tm_stream.h"
#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/request/pml_tm_failure.h"
#include "pml_tm/request/pml_tm_request.h"

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
    refuse_unexpected(tmc);
    fab_unlock(mca_pml_tm.fab);
    return OMPI_SUCCESS;
}
#endif
