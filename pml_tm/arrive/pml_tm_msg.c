/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages: from a message to its receive, or to those that are kept until a receive matches them,
 * or their communicator is there; and from a receive to a message.
 *
 * Memory for unexpected messages is bounded: past params.unexpected_max bytes the sender of each
 * further message is throttled (pml_tm_flow.h); when half of the memory is free again, all go on.
 * Messages in flight at that time are kept beyond the bound: at most a ring's content and some
 * sixty messages per sender (send_progress()).
 */
#include "pml_tm/arrive/pml_tm_msg.h"

#include "fabric/fab_copy.h"

#include "pml_tm/arrive/pml_tm_flow.h"
#include "pml_tm/data/pml_tm_deliver.h"
#include "pml_tm/data/pml_tm_rndv.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/request/pml_tm_failure.h"

/*
 * Limit of the cache of free records for short messages: malloc and free would cost more than all
 * other work.
 */
enum { CACHE_MAX = 256 };

/* Out of line, so that the common path need not save registers. */
#define NOINLINE __attribute__((noinline))

static NOINLINE mca_pml_tm_msg_t *long_alloc(size_t data_len)
{
    bool is_reused;
    mca_pml_tm_msg_t *msg = fab_spares_alloc(&mca_pml_tm.spares, sizeof(*msg), data_len,
                                             &is_reused);

    mca_pml_tm.counters.reused += is_reused;
    return msg;
}

static NOINLINE void long_free(mca_pml_tm_msg_t *msg)
{
    fab_spares_free(&mca_pml_tm.spares, msg, msg->data_len);
}

static mca_pml_tm_msg_t *msg_alloc(size_t data_len)
{
    mca_pml_tm_msg_t *msg = mca_pml_tm.msg_cache;

    if (data_len > PML_TM_MSG_SHORT) {
        return long_alloc(data_len);
    }
    if (NULL == msg) {
        return malloc(sizeof(*msg) + PML_TM_MSG_SHORT);
    }
    mca_pml_tm.msg_cache = msg->next;
    --mca_pml_tm.msg_cached;
    return msg;
}

static void msg_free(mca_pml_tm_msg_t *msg)
{
    if (msg->data_len > PML_TM_MSG_SHORT) {
        long_free(msg);
        return;
    }
    if (mca_pml_tm.msg_cached >= CACHE_MAX) {
        free(msg);
        return;
    }
    msg->next = mca_pml_tm.msg_cache;
    mca_pml_tm.msg_cache = msg;
    ++mca_pml_tm.msg_cached;
}

/* Bytes that are given back before the job is ended: without any memory PMIx_Abort() crashes. */
enum { RESERVE = 64 << 10 };

static void *reserve;

void mca_pml_tm_msg_init(void)
{
    reserve = malloc(RESERVE);
}

void mca_pml_tm_msg_no_memory(size_t bytes)
{
    free(reserve);
    reserve = NULL;
    fab_help_show(mca_pml_tm_help, "no-memory", fab_process.nodename, bytes,
                  mca_pml_tm.unexpected_bytes);
    ompi_rte_abort(OMPI_ERR_OUT_OF_RESOURCE, NULL);
}

mca_pml_tm_msg_t *mca_pml_tm_msg_keep(fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                                      size_t here, size_t data_len, size_t len)
{
    mca_pml_tm_msg_t *msg = msg_alloc(data_len);

    if (NULL == msg) {
        mca_pml_tm_msg_no_memory(sizeof(*msg) + data_len);
    }
    msg->peer = peer;
    msg->hdr = hdr;
    msg->len = len;
    msg->data_len = data_len;
    if (0 != here) {
        fab_copy(msg->data, data, here);
    }
    mca_pml_tm_msg_count(msg);
    return msg;
}

void mca_pml_tm_msg_release(mca_pml_tm_msg_t *msg)
{
    mca_pml_tm.unexpected_bytes -= mca_pml_tm_msg_bytes(msg);
    msg_free(msg);
    if (OPAL_UNLIKELY(0 != mca_pml_tm.num_throttled) &&
        mca_pml_tm.unexpected_bytes <= mca_pml_tm.params.unexpected_max / 2) {
        mca_pml_tm_flow_release();
    }
}

/*
 * Early messages are filed by their context id, in place of the source, and by the id of their
 * send, in place of the tag, so that MPI_Cancel and a new communicator find theirs at once.
 */
static int32_t early_context(fab_hdr_t hdr, bool is_untagged)
{
    return is_untagged ? INT32_MAX
                       : (int32_t) mca_pml_tm_tag_context(hdr.tag, mca_pml_tm.source_bits);
}

static int32_t early_id(uint32_t id)
{
    return (int32_t) (id & INT32_MAX);
}

void mca_pml_tm_msg_add_early(mca_pml_tm_msg_t *msg)
{
    if (OPAL_UNLIKELY(mca_pml_tm.is_ending)) {
        mca_pml_tm_msg_withdraw(msg);
        return;
    }
    fab_match_add_msg(&mca_pml_tm.early, &msg->match,
                      early_context(msg->hdr, FAB_AM_NO_TAG == msg->hdr.id),
                      early_id(msg->hdr.app_ctx));
}

void mca_pml_tm_msg_early_untagged(fab_peer_t *peer, fab_hdr_t hdr,
                                   const mca_pml_tm_untagged_t *prefix, const void *data,
                                   size_t len)
{
    mca_pml_tm_msg_t *msg = mca_pml_tm_msg_keep(peer, hdr, data, len, len, len);

    /* copy what was checked: the sender can still change data */
    memcpy(msg->data, prefix, sizeof(*prefix));
    ++mca_pml_tm.counters.early;
    mca_pml_tm_msg_add_early(msg);
}

fab_match_msg_t *mca_pml_tm_msg_take_early(fab_hdr_t hdr, bool is_untagged, fab_match_is_fn_t is_it,
                                           const void *ctx)
{
    return fab_match_withdraw(&mca_pml_tm.early, early_context(hdr, is_untagged),
                              early_id(hdr.app_ctx), is_it, ctx);
}

mca_pml_tm_msg_t *mca_pml_tm_msg_next_early(uint32_t context, bool is_untagged)
{
    fab_match_msg_t *match = fab_match_take(
        &mca_pml_tm.early, is_untagged ? INT32_MAX : (int32_t) context, FAB_MATCH_ANY);

    return NULL != match ? mca_pml_tm_msg_of(match) : NULL;
}

void mca_pml_tm_msg_fini(void)
{
    mca_pml_tm_msg_t *msg;

    mca_pml_tm_msg_drop(&mca_pml_tm.early, false);
    fab_match_fini(&mca_pml_tm.early);
    while (NULL != (msg = mca_pml_tm.msg_cache)) {
        mca_pml_tm.msg_cache = msg->next;
        free(msg);
    }
    mca_pml_tm.msg_cached = 0;
    fab_spares_fini(&mca_pml_tm.spares);
    mca_pml_tm.unexpected_bytes = 0;
    free(reserve);
    reserve = NULL;
}

bool mca_pml_tm_msg_give(mca_pml_tm_msg_t *msg, void *buf, size_t size,
                         ompi_status_public_t *status)
{
    const size_t len = msg->data_len;

    if (FAB_AM_EAGER != msg->hdr.id || 0 != msg->hdr.app_ctx || len > size) {
        return false;
    }
    if (OPAL_LIKELY(len <= FAB_COPY_SHORT_MAX)) {
        fab_copy_short(buf, msg->data, len);
    } else {
        memcpy(buf, msg->data, len);
    }
    ++mca_pml_tm.counters.taken;
    mca_pml_tm_set_status(status, mca_pml_tm_msg_source(msg->hdr), mca_pml_tm_tag_tag(msg->hdr.tag),
                          len);
    mca_pml_tm_msg_release(msg);
    return true;
}

void mca_pml_tm_msg_withdraw(mca_pml_tm_msg_t *msg)
{
    if (0 != msg->hdr.app_ctx) {
        mca_pml_tm_answer(msg->peer, fab_hdr(PML_TM_AM_WITHDRAWN, 0, msg->hdr.app_ctx), NULL, 0);
    }
    mca_pml_tm_msg_release(msg);
}

void mca_pml_tm_msg_drop(fab_match_dom_t *dom, bool is_told)
{
    fab_match_msg_t *msg;

    while (NULL != (msg = fab_match_first_msg(dom))) {
        fab_match_remove_msg(dom, msg);
        if (is_told) {
            mca_pml_tm_msg_withdraw(mca_pml_tm_msg_of(msg));
        } else {
            mca_pml_tm_msg_release(mca_pml_tm_msg_of(msg));
        }
    }
}

/* ---- matching ----------------------------------------------------------- */

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
