/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages from the wire: checked, matched, and handed to their receive or kept.
 *
 * Memory for unexpected messages is bounded: past params.unexpected_max bytes the sender of each
 * further message is throttled (pml_tm_flow.h); when half of the memory is free again, all go on.
 * Messages in flight at that time are kept beyond the bound: at most a ring's content and some
 * sixty messages per sender (send_progress()).
 */
#include "pml_tm_msg.h"

#include "fabric/fab_copy.h"
#include "match/match_inl.h"

#include "pml_tm_excid.h"
#include "pml_tm_failure.h"
#include "pml_tm_flow.h"
#include "pml_tm_offload.h"
#include "pml_tm_peer.h"
#include "pml_tm_recv.h"
#include "pml_tm_stream.h"

/*
 * Limit of the cache of free records for short messages: malloc and free would cost more than all
 * other work.
 */
enum { SHORT_DATA = 64, CACHE_MAX = 256 };

_Static_assert(FAB_COPY_SHORT_MAX <= SHORT_DATA, "a short message fits one of these");

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

    if (data_len > SHORT_DATA) {
        return long_alloc(data_len);
    }
    if (NULL == msg) {
        return malloc(sizeof(*msg) + SHORT_DATA);
    }
    mca_pml_tm.msg_cache = msg->next;
    --mca_pml_tm.msg_cached;
    return msg;
}

static void msg_free(mca_pml_tm_msg_t *msg)
{
    if (msg->data_len > SHORT_DATA) {
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

static size_t msg_bytes(const mca_pml_tm_msg_t *msg)
{
    return sizeof(*msg) + (msg->data_len > SHORT_DATA ? msg->data_len : SHORT_DATA);
}

/* It takes memory from now on. */
static inline void count_kept(const mca_pml_tm_msg_t *msg)
{
    mca_pml_tm.unexpected_bytes += msg_bytes(msg);
    if (OPAL_UNLIKELY(mca_pml_tm.unexpected_bytes > mca_pml_tm.params.unexpected_max)) {
        mca_pml_tm_flow_stop(msg->peer, msg->hdr);
    }
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
    mca_pml_tm_show_help("no-memory", mca_pml_tm_process.nodename, bytes,
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
    msg->next = NULL;
    msg->peer = peer;
    msg->hdr = hdr;
    msg->len = len;
    msg->data_len = data_len;
    if (0 != here) {
        fab_copy(msg->data, data, here);
    }
    count_kept(msg);
    return msg;
}

void mca_pml_tm_msg_release(mca_pml_tm_msg_t *msg)
{
    mca_pml_tm.unexpected_bytes -= msg_bytes(msg);
    msg_free(msg);
    if (OPAL_UNLIKELY(0 != mca_pml_tm.num_throttled) &&
        mca_pml_tm.unexpected_bytes <= mca_pml_tm.params.unexpected_max / 2) {
        mca_pml_tm_flow_release();
    }
}

static inline int32_t msg_source(fab_hdr_t hdr)
{
    return mca_pml_tm_tag_source(hdr.tag, mca_pml_tm.source_bits);
}

/* Is the source the sender's rank in this communicator, and is the tag legal for a send? */
static inline bool is_valid(mca_pml_tm_comm_t *tmc, const fab_peer_t *peer, fab_hdr_t hdr)
{
    return mca_pml_tm_comm_is_sender(tmc, peer, msg_source(hdr)) &&
           OMPI_ANY_TAG != mca_pml_tm_tag_tag(hdr.tag);
}

/* Does the tag-matching device count this message? */
static inline bool is_by_device(const fab_peer_t *peer)
{
    return 0 != (peer->caps & FAB_CAP_TM);
}

static void msg_unexpected(mca_pml_tm_comm_t *tmc, mca_pml_tm_msg_t *msg)
{
    ++mca_pml_tm.counters.unexpected;
    fab_offload_keep(&tmc->scope, &msg->match, msg_source(msg->hdr),
                     mca_pml_tm_tag_tag(msg->hdr.tag), is_by_device(msg->peer));
}

static void msg_early(mca_pml_tm_msg_t *msg)
{
    ++mca_pml_tm.counters.early;
    *mca_pml_tm.early_tail = msg;
    mca_pml_tm.early_tail = &msg->next;
}

void mca_pml_tm_msg_early_untagged(fab_peer_t *peer, fab_hdr_t hdr,
                                   const mca_pml_tm_untagged_t *prefix, const void *data,
                                   size_t len)
{
    mca_pml_tm_msg_t *msg = mca_pml_tm_msg_keep(peer, hdr, data, len, len, len);

    /* copy what was checked: the sender can still change data */
    memcpy(msg->data, prefix, sizeof(*prefix));
    msg_early(msg);
}

/* Is the early message for this communicator? */
static bool is_for(const mca_pml_tm_comm_t *tmc, const mca_pml_tm_msg_t *msg)
{
    return FAB_AM_NO_TAG == msg->hdr.id
               ? mca_pml_tm_excid_is_for(tmc, msg->data)
               : mca_pml_tm_tag_context(msg->hdr.tag, mca_pml_tm.source_bits) == tmc->context;
}

static void join_untagged(mca_pml_tm_comm_t *tmc, const mca_pml_tm_msg_t *msg)
{
    mca_pml_tm_untagged_t prefix;

    memcpy(&prefix, msg->data, sizeof(prefix));
    mca_pml_tm_excid_deliver(tmc, msg->peer, msg->hdr, &prefix, msg->data + sizeof(prefix),
                             msg->data_len - sizeof(prefix));
}

/* Put an early message, which is off its list, into the domain of its new communicator. */
static void msg_join(mca_pml_tm_comm_t *tmc, mca_pml_tm_msg_t *msg)
{
    if (FAB_AM_NO_TAG == msg->hdr.id) {
        join_untagged(tmc, msg);
        mca_pml_tm_msg_release(msg);
    } else if (is_valid(tmc, msg->peer, msg->hdr)) {
        msg_unexpected(tmc, msg);
    } else {
        mca_pml_tm_bad_message(msg->peer, "not its rank, or no tag, in its communicator");
        mca_pml_tm_msg_release(msg);
    }
}

void mca_pml_tm_msg_join(mca_pml_tm_comm_t *tmc)
{
    mca_pml_tm_msg_t **link = &mca_pml_tm.early;
    mca_pml_tm_msg_t *msg;

    while (NULL != (msg = *link)) {
        if (is_for(tmc, msg)) {
            *link = msg->next;
            msg_join(tmc, msg);
        } else {
            link = &msg->next;
        }
    }
    mca_pml_tm.early_tail = link;
}

mca_pml_tm_msg_t *mca_pml_tm_msg_take_early(const fab_peer_t *peer, uint32_t id)
{
    mca_pml_tm_msg_t **link = &mca_pml_tm.early;
    mca_pml_tm_msg_t *msg;

    while (NULL != (msg = *link) && (msg->peer != peer || msg->hdr.app_ctx != id)) {
        link = &msg->next;
    }
    if (NULL != msg) {
        *link = msg->next;
        if (NULL == msg->next) {
            mca_pml_tm.early_tail = link;
        }
    }
    return msg;
}

void mca_pml_tm_msg_fini(void)
{
    mca_pml_tm_msg_t *msg;

    while (NULL != (msg = mca_pml_tm.early)) {
        mca_pml_tm.early = msg->next;
        free(msg);
    }
    mca_pml_tm.early_tail = &mca_pml_tm.early;
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

/*
 * Find the receive for a message.  NULL: there is none.  Then the message must be kept, unless
 * *is_bad; *tmc is its communicator, or NULL if the message is early.
 */
static inline mca_pml_tm_recv_request_t *msg_match(fab_peer_t *peer, fab_hdr_t hdr,
                                                   mca_pml_tm_comm_t **tmc, bool *is_bad)
{
    mca_pml_tm_recv_request_t *req;
    fab_offload_recv_t *recv;

    *is_bad = false;
    *tmc = mca_pml_tm_comm_find(mca_pml_tm_tag_context(hdr.tag, mca_pml_tm.source_bits));
    if (OPAL_UNLIKELY(NULL == *tmc)) {
        return NULL;
    }
    if (OPAL_UNLIKELY(!is_valid(*tmc, peer, hdr))) {
        *is_bad = true;
        mca_pml_tm_bad_message(peer, "not its rank, or no tag, in its communicator");
        return NULL;
    }
    recv = fab_offload_arrive(&(*tmc)->scope, msg_source(hdr), mca_pml_tm_tag_tag(hdr.tag),
                              is_by_device(peer));
    if (NULL == recv) {
        return NULL;
    }
    ++mca_pml_tm.counters.expected;
    req = mca_pml_tm_recv_of(recv);
    mca_pml_tm_offload_release(req);
    return req;
}

static void msg_store(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                      size_t data_len, size_t len)
{
    if (NULL != tmc && mca_pml_tm_refuse_revoked(tmc, peer, hdr)) {
        return;
    }
    if (NULL != tmc) {
        msg_unexpected(tmc, mca_pml_tm_msg_keep(peer, hdr, data, data_len, data_len, len));
    } else {
        msg_early(mca_pml_tm_msg_keep(peer, hdr, data, data_len, data_len, len));
    }
}

static NOINLINE void msg_eager_any(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_comm_t *tmc;
    bool is_bad;
    mca_pml_tm_recv_request_t *req = msg_match(peer, hdr, &tmc, &is_bad);

    if (OPAL_LIKELY(NULL != req)) {
        mca_pml_tm_recv_eager(req, peer, hdr, data, len);
    } else if (!is_bad) {
        msg_store(tmc, peer, hdr, data, len, len);
    }
}

/*
 * May a message of at most max bytes use the fast path, if its source is right? Its communicator
 * must have no device that matches.
 */
static inline bool is_fast_way(const mca_pml_tm_comm_t *tmc, fab_hdr_t hdr, size_t len, size_t max)
{
    return OPAL_LIKELY(NULL != tmc && 0 != (tmc->fast & PML_TM_FAST_RECV) && 0 == hdr.app_ctx &&
                       len <= max);
}

/* A message that the receive could take whole is in the user's buffer. key: its source and tag. */
static inline __attribute__((always_inline)) void receive_end(mca_pml_tm_recv_request_t *req,
                                                              uint64_t key, size_t len)
{
    ompi_status_public_t *status = &req->req_recv.req_base.req_ompi.req_status;

    status->MPI_SOURCE = (int32_t) (key >> 32);
    status->MPI_TAG = (int32_t) (uint32_t) key;
    status->_ucount = len;
    mca_pml_tm_done_well(&req->core);
}

/*
 * A short message has found its receive.  It has no app_ctx, and of its tag the key is enough: what
 * is left of its header needs no memory.
 */
static inline __attribute__((always_inline)) void receive_short(mca_pml_tm_recv_request_t *req,
                                                                fab_peer_t *peer, uint64_t key,
                                                                const void *data, size_t len)
{
    if (OPAL_UNLIKELY(NULL == req->data || len > req->capacity)) {
        mca_pml_tm_recv_eager(req, peer, fab_hdr(FAB_AM_EAGER, key, 0), data, len);
        return;
    }
    fab_copy_short(req->data, data, len);
    receive_end(req, key, len);
}

/* The same out of line, for less common cases. */
static NOINLINE void receive_short_late(mca_pml_tm_recv_request_t *req, fab_peer_t *peer,
                                        uint64_t key, const void *data, size_t len)
{
    receive_short(req, peer, key, data, len);
}

/* Keep a short message for which there is no receive: an inlined msg_store(). */
static inline void keep_short(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, uint64_t tag,
                              const void *data, size_t len, uint64_t key)
{
    const fab_hdr_t hdr = fab_hdr(FAB_AM_EAGER, tag, 0);
    mca_pml_tm_msg_t *msg = mca_pml_tm.msg_cache;

    if (OPAL_UNLIKELY(NULL == msg || tmc->is_coll_revoked)) {
        msg_store(tmc, peer, hdr, data, len, len);
        return;
    }
    mca_pml_tm.msg_cache = msg->next;
    --mca_pml_tm.msg_cached;
    msg->peer = peer;
    msg->hdr = hdr;
    msg->len = len;
    msg->data_len = len;
    fab_copy_short(msg->data, data, len);
    ++mca_pml_tm.counters.unexpected;
    fab_match_add_msg(&tmc->match, &msg->match, (int32_t) (key >> 32), (int32_t) (uint32_t) key);
    count_kept(msg);
}

/* A short message that does not fit the oldest receive. */
static NOINLINE void msg_short_any(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, uint64_t tag,
                                   const void *data, size_t len)
{
    uint64_t key = tag & mca_pml_tm.match_mask;
    fab_match_recv_t *recv;

    if (OPAL_UNLIKELY(OMPI_ANY_TAG == mca_pml_tm_tag_tag(tag))) {
        /* reports what is wrong */
        msg_eager_any(peer, fab_hdr(FAB_AM_EAGER, tag, 0), data, len);
        return;
    }
    recv = fab_match_has_others(&tmc->match)
               ? fab_match_arrive(&tmc->match, (int32_t) (key >> 32), (int32_t) (uint32_t) key)
               : NULL;
    if (OPAL_LIKELY(NULL == recv)) {
        keep_short(tmc, peer, tag, data, len, key);
        return;
    }
    ++mca_pml_tm.counters.expected;
    receive_short_late(mca_pml_tm_recv_of((fab_offload_recv_t *) recv), peer, key, data, len);
}

/* A message that is not short, or that cannot take the fast path. */
static NOINLINE void msg_longer(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, fab_hdr_t hdr,
                                const void *data, size_t len)
{
    uint64_t key = hdr.tag & mca_pml_tm.match_mask;
    fab_match_recv_t *recv = NULL;
    mca_pml_tm_recv_request_t *req;

    if (0 != (mca_pml_tm.fast & PML_TM_FAST_LONGER) && is_fast_way(tmc, hdr, len, SIZE_MAX) &&
        mca_pml_tm_comm_is_sender(tmc, peer, (int32_t) (key >> 32))) {
        recv = fab_match_arrive_first(&tmc->match, key);
    }
    if (NULL == recv) {
        msg_eager_any(peer, hdr, data, len);
        return;
    }
    ++mca_pml_tm.counters.expected;
    req = mca_pml_tm_recv_of((fab_offload_recv_t *) recv);
    if (OPAL_UNLIKELY(NULL == req->data || len > req->capacity)) {
        mca_pml_tm_recv_eager(req, peer, hdr, data, len);
        return;
    }
    fab_copy(req->data, data, len);
    receive_end(req, key, len);
}

/* A short message, of another sender than the last one: only its source is checked here. */
static NOINLINE void msg_of_other(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, fab_hdr_t hdr,
                                  const void *data, size_t len)
{
    if (OPAL_LIKELY(mca_pml_tm_comm_find_sender(
            tmc, peer, mca_pml_tm_tag_source(hdr.tag, mca_pml_tm.source_bits)))) {
        mca_pml_tm_msg_eager(NULL, peer, hdr, data, len); /* now it is the last one */
    } else {
        msg_longer(tmc, peer, hdr, data, len);
    }
}

/*
 * The common case inline: a short message for the oldest posted receive, of the same sender as the
 * last one.  An illegal tag matches no receive that names a tag, so only the source is checked.
 * Other cases are left by a call at the end, so that no register has to be saved.
 */
void mca_pml_tm_msg_eager(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm_find(
        mca_pml_tm_tag_context(hdr.tag, mca_pml_tm.source_bits));
    uint64_t key = hdr.tag & mca_pml_tm.match_mask;
    fab_match_recv_t *recv;

    (void) ctx;
    if (OPAL_UNLIKELY(!is_fast_way(tmc, hdr, len, FAB_COPY_SHORT_MAX))) {
        msg_longer(tmc, peer, hdr, data, len);
        return;
    }
    if (OPAL_UNLIKELY(!mca_pml_tm_comm_is_last_sender(tmc, peer, (int32_t) (key >> 32)))) {
        msg_of_other(tmc, peer, hdr, data, len);
        return;
    }
    recv = fab_match_arrive_first(&tmc->match, key);
    if (OPAL_UNLIKELY(NULL == recv)) {
        msg_short_any(tmc, peer, hdr.tag, data, len);
        return;
    }
    ++mca_pml_tm.counters.expected;
    receive_short(mca_pml_tm_recv_of((fab_offload_recv_t *) recv), peer, key, data, len);
}

void mca_pml_tm_msg_rndv(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    fab_rndv_t rndv;
    mca_pml_tm_comm_t *tmc;
    mca_pml_tm_recv_request_t *req;
    bool is_bad;

    (void) ctx;
    if (sizeof(rndv) != len && 0 != (peer->caps & FAB_CAP_RING)) {
        mca_pml_tm_stream_begin(peer, hdr, data, len);
        return;
    }
    if (len < sizeof(rndv)) {
        mca_pml_tm_bad_message(peer, "rendezvous: length of the request");
        return;
    }
    memcpy(&rndv, data, sizeof(rndv));
    if (len - sizeof(rndv) > rndv.len) {
        mca_pml_tm_bad_message(peer, "rendezvous: more data than the message has");
        return;
    }
    req = msg_match(peer, hdr, &tmc, &is_bad);
    if (NULL != req) {
        mca_pml_tm_recv_rndv(req, peer, hdr, &rndv, (const char *) data + sizeof(rndv),
                             len - sizeof(rndv));
    } else if (!is_bad) {
        /*
         * In a ring the sender could still change the data, so the values that were checked are
         * stored.  Other providers deliver the message as a whole.
         */
        msg_store(tmc, peer, hdr, sizeof(rndv) == len ? (const void *) &rndv : data, len, rndv.len);
    }
}

bool mca_pml_tm_msg_find(fab_peer_t *peer, fab_hdr_t hdr, mca_pml_tm_recv_request_t **req)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm_find(
        mca_pml_tm_tag_context(hdr.tag, mca_pml_tm.source_bits));
    bool is_bad = false;

    *req = NULL;
    if (OPAL_LIKELY(NULL != tmc && NULL == tmc->scope.engine)) {
        *req = msg_match(peer, hdr, &tmc, &is_bad);
    }
    return !is_bad;
}

void mca_pml_tm_msg_arrive(mca_pml_tm_msg_t *msg)
{
    mca_pml_tm_comm_t *tmc;
    bool is_bad;
    mca_pml_tm_recv_request_t *req = msg_match(msg->peer, msg->hdr, &tmc, &is_bad);

    if (NULL != req) {
        mca_pml_tm_msg_receive(msg, req);
    } else if (!is_bad && NULL == tmc) {
        msg_early(msg);
    } else if (!is_bad && !mca_pml_tm_refuse_revoked(tmc, msg->peer, msg->hdr)) {
        msg_unexpected(tmc, msg);
    } else {
        mca_pml_tm_msg_release(msg);
    }
}

void mca_pml_tm_msg_receive(mca_pml_tm_msg_t *msg, mca_pml_tm_recv_request_t *req)
{
    if (OPAL_LIKELY(FAB_AM_EAGER == msg->hdr.id && 0 == msg->hdr.app_ctx &&
                    msg->data_len <= FAB_COPY_SHORT_MAX && NULL == mca_pml_tm.engine &&
                    0 != (mca_pml_tm.fast & PML_TM_FAST_RECV))) {
        receive_short_late(req, msg->peer, msg->hdr.tag & mca_pml_tm.match_mask, msg->data,
                           msg->data_len);
    } else if (FAB_AM_RNDV == msg->hdr.id) {
        mca_pml_tm_recv_rndv(req, msg->peer, msg->hdr, (const fab_rndv_t *) msg->data,
                             msg->data + sizeof(fab_rndv_t), msg->data_len - sizeof(fab_rndv_t));
    } else {
        mca_pml_tm_recv_eager(req, msg->peer, msg->hdr, msg->data, msg->data_len);
    }
    mca_pml_tm_msg_release(msg);
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
    mca_pml_tm_set_status(status, msg_source(msg->hdr), mca_pml_tm_tag_tag(msg->hdr.tag), len);
    mca_pml_tm_msg_release(msg);
    return true;
}
