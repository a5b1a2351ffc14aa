/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a message to its receive, or to the unexpected messages; and from a receive to a message.
 */
#include "pml_tm/arrive/pml_tm_match.h"

#include "fabric/fab_copy.h"

#include "pml_tm/arrive/pml_tm_msg.h"
#include "pml_tm/data/pml_tm_deliver.h"
#include "pml_tm/data/pml_tm_rndv.h"
#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/request/pml_tm_failure.h"
#include "pml_tm/request/pml_tm_request.h"

void mca_pml_tm_match_unexpected(mca_pml_tm_comm_t *tmc, mca_pml_tm_msg_t *msg)
{
    ++mca_pml_tm.counters.unexpected;
    if (OPAL_UNLIKELY(NULL != tmc->scope)) {
        mca_pml_tm.offload->keep(tmc, msg);
    } else {
        fab_match_add_msg(&tmc->match, &msg->match, mca_pml_tm_msg_source(msg->hdr),
                          mca_pml_tm_tag_tag(msg->hdr.tag));
    }
}

mca_pml_tm_recv_request_t *mca_pml_tm_match_msg(fab_peer_t *peer, fab_hdr_t hdr,
                                                mca_pml_tm_comm_t **tmc, bool *is_bad)
{
    fab_match_recv_t *recv;

    *is_bad = false;
    *tmc = mca_pml_tm_comm_find(mca_pml_tm_tag_context(hdr.tag, mca_pml_tm.source_bits));
    if (OPAL_UNLIKELY(NULL == *tmc)) {
        return NULL;
    }
    if (OPAL_UNLIKELY(!mca_pml_tm_match_is_valid(*tmc, peer, hdr))) {
        *is_bad = true;
        mca_pml_tm_bad_message(peer, "not its rank, or no tag, in its communicator");
        return NULL;
    }
    recv = OPAL_LIKELY(NULL == (*tmc)->scope)
               ? fab_match_arrive(&(*tmc)->match, mca_pml_tm_msg_source(hdr),
                                  mca_pml_tm_tag_tag(hdr.tag))
               : mca_pml_tm.offload->arrive(*tmc, peer, hdr);
    if (NULL == recv) {
        return NULL;
    }
    ++mca_pml_tm.counters.expected;
    return mca_pml_tm_recv_of(recv);
}

/* Among the unexpected messages of its communicator; tmc NULL: among the early ones. */
static void store(mca_pml_tm_comm_t *tmc, mca_pml_tm_msg_t *msg)
{
    if (OPAL_UNLIKELY(mca_pml_tm.is_ending)) {
        mca_pml_tm_msg_withdraw(msg);
    } else if (NULL != tmc) {
        mca_pml_tm_match_unexpected(tmc, msg);
    } else {
        ++mca_pml_tm.counters.early;
        mca_pml_tm_msg_add_early(msg);
    }
}

void mca_pml_tm_match_store(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, fab_hdr_t hdr,
                            const void *data, size_t data_len, size_t len)
{
    if (NULL == tmc || !mca_pml_tm_refuse_revoked(tmc, peer, hdr)) {
        store(tmc, mca_pml_tm_msg_keep(peer, hdr, data, data_len, data_len, len));
    }
}

bool mca_pml_tm_msg_find(fab_peer_t *peer, fab_hdr_t hdr, mca_pml_tm_recv_request_t **req)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm_find(
        mca_pml_tm_tag_context(hdr.tag, mca_pml_tm.source_bits));
    bool is_bad = false;

    *req = NULL;
    if (OPAL_LIKELY(NULL != tmc && NULL == tmc->scope)) {
        *req = mca_pml_tm_match_msg(peer, hdr, &tmc, &is_bad);
    }
    return !is_bad;
}

void mca_pml_tm_msg_arrive(mca_pml_tm_msg_t *msg)
{
    mca_pml_tm_comm_t *tmc;
    bool is_bad;
    mca_pml_tm_recv_request_t *req = mca_pml_tm_match_msg(msg->peer, msg->hdr, &tmc, &is_bad);

    if (NULL != req) {
        mca_pml_tm_msg_receive(msg, req);
    } else if (!is_bad && (NULL == tmc || !mca_pml_tm_refuse_revoked(tmc, msg->peer, msg->hdr))) {
        store(tmc, msg);
    } else {
        mca_pml_tm_msg_release(msg);
    }
}

void mca_pml_tm_msg_receive(mca_pml_tm_msg_t *msg, mca_pml_tm_recv_request_t *req)
{
    if (OPAL_LIKELY(FAB_AM_EAGER == msg->hdr.id && 0 == msg->hdr.app_ctx &&
                    msg->data_len <= FAB_COPY_SHORT_MAX && NULL == mca_pml_tm.offload &&
                    0 != (mca_pml_tm.fast & PML_TM_FAST_RECV))) {
        mca_pml_tm_deliver_short(req, msg->peer, msg->hdr.tag & mca_pml_tm.match_mask, msg->data,
                                 msg->data_len);
    } else if (FAB_AM_RNDV == msg->hdr.id) {
        mca_pml_tm_recv_rndv(req, msg->peer, msg->hdr, (const fab_rndv_t *) msg->data,
                             msg->data + sizeof(fab_rndv_t), msg->data_len - sizeof(fab_rndv_t));
    } else {
        mca_pml_tm_recv_eager(req, msg->peer, msg->hdr, msg->data, msg->data_len);
    }
    mca_pml_tm_msg_release(msg);
}
