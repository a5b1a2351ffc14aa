/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Cancel of sends, both sides.
 *
 * A send that has not left is cancelled locally.  If it has left and was not answered, the receiver
 * decides: either the message was matched first, or the receiver withdraws it.
 *
 *   sender                                      receiver
 *   CANCEL, app_ctx: the send's id, tag: its ->  not matched: removes the message
 *                                            <-  WITHDRAWN, app_ctx: the send's id
 *                                                matched: nothing, since the match is answered anyway
 *
 * So a send gets exactly one answer that completes it: ACK, FIN, CTS or NACK if it was matched,
 * WITHDRAWN if not.  CANCEL needs no more state at the receiver than the message itself.
 *
 * The receiver also sends WITHDRAWN, without a CANCEL, when it frees the communicator with the
 * message unmatched.  If the program then cancels that send, no CANCEL is needed.
 *
 * Lock: the fabric's.
 */
#include "pml_tm/calls/pml_tm_calls.h"

#include "pml_tm/arrive/pml_tm_flow.h"
#include "pml_tm/arrive/pml_tm_msg.h"
#include "pml_tm/data/pml_tm_rndv.h"
#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/peer/pml_tm_excid.h"
#include "pml_tm/request/pml_tm_failure.h"
#include "pml_tm/request/pml_tm_request.h"

/* ---- sender ------------------------------------------------------------- */

static void finish_cancelled(mca_pml_tm_send_request_t *req)
{
    ompi_status_public_t *status = &req->core.base->req_ompi.req_status;

    ++mca_pml_tm.counters.cancelled;
    status->_cancelled = true;
    /* with fault tolerance Open MPI may have put the reason there */
    mca_pml_tm_send_answered(req, status->MPI_ERROR);
}

/*
 * Ask the receiver to withdraw the message.  If the receiver failed, the request stays open
 * (pml_tm_failure.h).
 */
static void ask(mca_pml_tm_send_request_t *req)
{
    fab_hdr_t hdr = fab_hdr(PML_TM_AM_CANCEL, req->tag, req->core.id);
    mca_pml_tm_untagged_t prefix;
    size_t len = 0;

    if (req->is_untagged) {
        prefix = mca_pml_tm_excid_prefix(mca_pml_tm_comm(req->core.base->req_comm),
                                         req->is_rndv ? FAB_AM_RNDV : FAB_AM_EAGER);
        len = sizeof(prefix);
    }
    /* set before the message leaves: on the self provider the answer comes within the call */
    req->cancel = PML_TM_CANCEL_ASKED;
    (void) fab_post(req->core.peer, hdr, &prefix, len);
}

/* Lock held. */
static void cancel_active(mca_pml_tm_send_request_t *req)
{
    bool is_sent = PML_TM_WAIT_ACK == req->core.phase || PML_TM_WAIT_FIN == req->core.phase;

    if (!is_sent && 0 != req->offset) {
        return; /* a stream that has begun ends: else the next one would begin inside it */
    }
    if (PML_TM_WAIT_ROOM == req->core.phase && fab_unqueue_item(req->core.peer, &req->item)) {
        finish_cancelled(req);
    } else if (PML_TM_HELD == req->core.phase) {
        mca_pml_tm_flow_unhold(req);
        finish_cancelled(req);
    } else if (is_sent && PML_TM_CANCEL_DROPPED == req->cancel) {
        finish_cancelled(req);
    } else if (is_sent && PML_TM_CANCEL_NONE == req->cancel) {
        ask(req);
    }
}

int mca_pml_tm_cancel_send(ompi_request_t *request, int flag)
{
    mca_pml_tm_send_request_t *req = (mca_pml_tm_send_request_t *) request;

    (void) flag;
    fab_lock(mca_pml_tm.fab);
    if (mca_pml_tm_is_orphan(&req->core) && PML_TM_HELD != req->core.phase) {
        mca_pml_tm_send_finish(req, request->req_status.MPI_ERROR);
    } else if (PML_TM_ACTIVE == req->core.state) {
        cancel_active(req);
    }
    fab_unlock(mca_pml_tm.fab);
    mca_pml_tm_complete_done();
    return OMPI_SUCCESS;
}

void mca_pml_tm_cancel_withdrawn(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                                 size_t len)
{
    const char *what = "withdrawal of a message that was not cancelled";
    mca_pml_tm_send_request_t *req;

    (void) ctx;
    (void) data;
    if (0 != len || 0 != hdr.tag) {
        mca_pml_tm_bad_message(peer, what);
        return;
    }
    req = mca_pml_tm_send_find_unanswered(peer, hdr.app_ctx, what);
    if (NULL != req && PML_TM_CANCEL_ASKED == req->cancel) {
        finish_cancelled(req);
    } else if (NULL != req) {
        req->cancel = PML_TM_CANCEL_DROPPED;
    }
}

/* ---- receiver ----------------------------------------------------------- */

/* Names the message that a sender wants to withdraw. */
typedef struct wanted {
    const fab_peer_t *peer;
    uint32_t id;
} wanted_t;

static bool is_wanted(const fab_match_msg_t *match, const void *ctx)
{
    const mca_pml_tm_msg_t *msg = (const mca_pml_tm_msg_t *) match;
    const wanted_t *wanted = ctx;

    return msg->peer == wanted->peer && msg->hdr.app_ctx == wanted->id;
}

_Static_assert(0 == offsetof(mca_pml_tm_msg_t, match), "is_wanted() relies on it");

/*
 * The communicator of a message that a sender wants to withdraw; *tag is its tag here.  NULL: the
 * communicator does not exist here. *is_valid is false if the request is malformed.
 */
static mca_pml_tm_comm_t *find_comm(uint64_t *tag, const void *data, size_t len, bool *is_valid)
{
    int32_t source = mca_pml_tm_tag_source(*tag, mca_pml_tm.source_bits);
    mca_pml_tm_untagged_t prefix;
    mca_pml_tm_comm_t *tmc;

    *is_valid = true;
    if (0 == len) {
        tmc = mca_pml_tm_comm_find(mca_pml_tm_tag_context(*tag, mca_pml_tm.source_bits));
    } else {
        *is_valid = mca_pml_tm_excid_read(*tag, data, len, &prefix);
        tmc = *is_valid ? mca_pml_tm_excid_comm(prefix.excid) : NULL;
    }
    if (NULL != tmc) {
        if (source >= tmc->num_sources) {
            return NULL; /* it was for a communicator that had this context before */
        }
        *is_valid = OMPI_ANY_TAG != mca_pml_tm_tag_tag(*tag);
        *tag = mca_pml_tm_tag(tmc->context, (uint32_t) source, mca_pml_tm_tag_tag(*tag),
                              mca_pml_tm.source_bits);
    }
    return tmc;
}

void mca_pml_tm_cancel_asked(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                             size_t len)
{
    const wanted_t wanted = {.peer = peer, .id = hdr.app_ctx};
    fab_match_msg_t *match;
    bool is_valid;
    mca_pml_tm_comm_t *tmc = find_comm(&hdr.tag, data, len, &is_valid);
    const int32_t source = mca_pml_tm_msg_source(hdr), tag = mca_pml_tm_tag_tag(hdr.tag);

    (void) ctx;
    if (!is_valid || 0 == hdr.app_ctx) {
        mca_pml_tm_bad_message(peer, "cancel: no such rank, tag, id or length");
        return;
    }
    if (NULL == tmc) {
        match = mca_pml_tm_msg_take_early(hdr, 0 != len, is_wanted, &wanted);
    } else if (OPAL_UNLIKELY(NULL != tmc->scope)) {
        match = mca_pml_tm.offload->withdraw(tmc->scope, source, tag, is_wanted, &wanted);
    } else {
        match = fab_match_withdraw(&tmc->match, source, tag, is_wanted, &wanted);
    }
    if (NULL != match) {
        mca_pml_tm_msg_withdraw(mca_pml_tm_msg_of(match));
    }
}
