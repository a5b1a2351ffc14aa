/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages from the wire: checked, matched, and handed to their receive or kept.
 */
#include "pml_tm/arrive/pml_tm_msg.h"

#include "fabric/fab_copy.h"
#include "fabric/fab_look.h"
#include "match/match_inl.h"
#include "shm/shm_inl.h"

#include "pml_tm/arrive/pml_tm_stream.h"
#include "pml_tm/data/pml_tm_deliver.h"
#include "pml_tm/data/pml_tm_rndv.h"
#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/peer/pml_tm_excid.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/request/pml_tm_request.h"

/* Out of line, so that the common path need not save registers. */
#define NOINLINE __attribute__((noinline))

/*
 * Answer a member's first message with this process's index.
 */
static void tell_context(const mca_pml_tm_comm_t *tmc, fab_peer_t *peer)
{
    mca_pml_tm_context_t context = {
        .excid = {tmc->excid->id[0], tmc->excid->id[1]},
        .context = tmc->context,
        .rank = tmc->my_rank,
    };

    mca_pml_tm_answer(peer, fab_hdr(PML_TM_AM_CONTEXT, 0, 0), &context, sizeof(context));
}

/*
 * Deliver an untagged message whose prefix was read and checked, to a communicator that exists
 * here; data points behind the prefix.
 */
static void excid_deliver(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, fab_hdr_t hdr,
                          const mca_pml_tm_untagged_t *prefix, const void *data, size_t len)
{
    int32_t source = mca_pml_tm_tag_source(hdr.tag, mca_pml_tm.source_bits);

    if (!mca_pml_tm_comm_is_sender(tmc, peer, source)) {
        mca_pml_tm_bad_message(peer, "untagged: not its rank in its communicator");
        return;
    }
    if (PML_TM_CONTEXT_UNKNOWN == tmc->excid->contexts[source]) {
        tmc->excid->contexts[source] = prefix->context;
        tell_context(tmc, peer);
    }
    hdr.id = prefix->id;
    hdr.tag = mca_pml_tm_tag(tmc->context, (uint32_t) source, mca_pml_tm_tag_tag(hdr.tag),
                             mca_pml_tm.source_bits);
    if (FAB_AM_EAGER == hdr.id) {
        mca_pml_tm_msg_eager(NULL, peer, hdr, data, len);
    } else {
        mca_pml_tm_msg_rndv(NULL, peer, hdr, data, len);
    }
}

void mca_pml_tm_excid_untagged(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                               size_t len)
{
    mca_pml_tm_untagged_t prefix;
    mca_pml_tm_comm_t *tmc;

    (void) ctx;
    if (!mca_pml_tm_excid_read(hdr.tag, data, len, &prefix)) {
        mca_pml_tm_bad_message(peer, "untagged: length, kind or context id");
        return;
    }
    ++mca_pml_tm.counters.untagged;
    tmc = mca_pml_tm_excid_comm(prefix.excid);
    if (NULL != tmc) {
        excid_deliver(tmc, peer, hdr, &prefix, (const char *) data + sizeof(prefix),
                      len - sizeof(prefix));
    } else {
        mca_pml_tm_msg_early_untagged(peer, hdr, &prefix, data, len);
    }
}

void mca_pml_tm_excid_context(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                              size_t len)
{
    mca_pml_tm_context_t context;
    mca_pml_tm_comm_t *tmc;

    (void) ctx;
    (void) hdr;
    if (sizeof(context) != len) {
        mca_pml_tm_bad_message(peer, "context id: length");
        return;
    }
    memcpy(&context, data, sizeof(context));
    tmc = mca_pml_tm_excid_comm(context.excid);
    if (NULL == tmc) {
        return; /* the communicator was freed meanwhile */
    }
    if (context.rank >= (uint32_t) tmc->num_sources ||
        !mca_pml_tm_comm_is_sender(tmc, peer, (int32_t) context.rank) ||
        context.context >= mca_pml_tm.max_context) {
        mca_pml_tm_bad_message(peer, "context id: not its rank, or no such context id");
        return;
    }
    tmc->excid->contexts[context.rank] = context.context;
}

/*
 * Put an early message, which is off its list, into the domain of its new communicator.  If its
 * sender is not that rank there, but can cancel it, it was for an earlier communicator with this
 * context id, which was freed here before the message came.
 */
static void msg_join(mca_pml_tm_comm_t *tmc, mca_pml_tm_msg_t *msg)
{
    if (mca_pml_tm_match_is_valid(tmc, msg->peer, msg->hdr)) {
        mca_pml_tm_match_unexpected(tmc, msg);
    } else if (0 != msg->hdr.app_ctx) {
        mca_pml_tm_msg_withdraw(msg);
    } else {
        mca_pml_tm_bad_message(msg->peer, "not its rank, or no tag, in its communicator");
        mca_pml_tm_msg_release(msg);
    }
}

/* Deliver the untagged messages for a new communicator that has an extended id; others stay. */
static void join_untagged(mca_pml_tm_comm_t *tmc)
{
    mca_pml_tm_msg_t *msg, *others = NULL, **tail = &others;
    mca_pml_tm_untagged_t prefix;

    while (NULL != (msg = mca_pml_tm_msg_next_early(0, true))) {
        memcpy(&prefix, msg->data, sizeof(prefix));
        if (mca_pml_tm_excid_comm(prefix.excid) != tmc) {
            msg->next = NULL;
            *tail = msg;
            tail = &msg->next;
            continue;
        }
        excid_deliver(tmc, msg->peer, msg->hdr, &prefix, msg->data + sizeof(prefix),
                      msg->data_len - sizeof(prefix));
        mca_pml_tm_msg_release(msg);
    }
    while (NULL != (msg = others)) {
        others = msg->next;
        mca_pml_tm_msg_add_early(msg);
    }
}

void mca_pml_tm_msg_join(mca_pml_tm_comm_t *tmc)
{
    mca_pml_tm_msg_t *msg;

    if (NULL != tmc->excid) {
        join_untagged(tmc); /* older than a sender's tagged ones */
    }
    while (NULL != (msg = mca_pml_tm_msg_next_early(tmc->context, false))) {
        msg_join(tmc, msg);
    }
}

/*
 * A message has come with its data, for this receive or none: could its sender have announced it?
 * True: the choice of ways takes its time, until fab_shm_stream_end().
 */
static inline bool whole_begin(const mca_pml_tm_comm_t *tmc, const mca_pml_tm_recv_request_t *req,
                               fab_peer_t *peer, size_t len)
{
    return OPAL_UNLIKELY(len > mca_pml_tm.whole_limit) && 0 != (peer->caps & FAB_CAP_RING) &&
           (NULL == req || NULL != req->data) &&
           fab_shm_whole_begin(peer, len, NULL != req && 0 == tmc->match.posted_count);
}

static NOINLINE void msg_eager_any(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_comm_t *tmc;
    bool is_bad, is_timed;
    mca_pml_tm_recv_request_t *req = mca_pml_tm_match_msg(peer, hdr, &tmc, &is_bad);

    if (OPAL_UNLIKELY(is_bad)) {
        return;
    }
    is_timed = whole_begin(tmc, req, peer, len);
    if (OPAL_LIKELY(NULL != req)) {
        mca_pml_tm_recv_eager(req, peer, hdr, data, len);
    } else {
        mca_pml_tm_match_store(tmc, peer, hdr, data, len, len);
    }
    if (is_timed) {
        fab_shm_stream_end(peer, len);
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

/* Keep a short message for which there is no receive: an inlined mca_pml_tm_match_store(). */
static inline void keep_short(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, uint64_t tag,
                              const void *data, size_t len, uint64_t key)
{
    const fab_hdr_t hdr = fab_hdr(FAB_AM_EAGER, tag, 0);
    mca_pml_tm_msg_t *msg = mca_pml_tm.msg_cache;

    if (OPAL_UNLIKELY(NULL == msg || tmc->is_coll_revoked)) {
        mca_pml_tm_match_store(tmc, peer, hdr, data, len, len);
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
    mca_pml_tm_msg_count(msg);
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
    mca_pml_tm_deliver_short(mca_pml_tm_recv_of(recv), peer, key, data, len);
}

/* A message that is not short, or that cannot take the fast path. */
static NOINLINE void msg_longer(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, fab_hdr_t hdr,
                                const void *data, size_t len)
{
    uint64_t key = hdr.tag & mca_pml_tm.match_mask;
    fab_match_recv_t *recv = NULL;
    mca_pml_tm_recv_request_t *req;
    bool is_timed;

    if (0 != (mca_pml_tm.fast & PML_TM_FAST_LONGER) && is_fast_way(tmc, hdr, len, SIZE_MAX) &&
        mca_pml_tm_comm_is_sender(tmc, peer, (int32_t) (key >> 32))) {
        recv = fab_match_arrive_first(&tmc->match, key);
    }
    if (NULL == recv) {
        msg_eager_any(peer, hdr, data, len);
        return;
    }
    ++mca_pml_tm.counters.expected;
    req = mca_pml_tm_recv_of(recv);
    if (OPAL_UNLIKELY(NULL == req->data || len > req->capacity)) {
        mca_pml_tm_recv_eager(req, peer, hdr, data, len);
        return;
    }
    is_timed = whole_begin(tmc, req, peer, len);
    fab_copy(req->data, data, len);
    mca_pml_tm_deliver_end(req, key, len);
    if (is_timed) {
        fab_shm_stream_end(peer, len);
    }
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
    mca_pml_tm_deliver_short(mca_pml_tm_recv_of(recv), peer, key, data, len);
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
    fab_look_event(mca_pml_tm.fab, (fab_event_t){.kind = FAB_EVENT_ANNOUNCED,
                                                 .peer = peer->name,
                                                 .tag = mca_pml_tm_tag_tag(hdr.tag),
                                                 .bytes = rndv.len});
    req = mca_pml_tm_match_msg(peer, hdr, &tmc, &is_bad);
    if (NULL != req) {
        mca_pml_tm_recv_rndv(req, peer, hdr, &rndv, (const char *) data + sizeof(rndv),
                             len - sizeof(rndv));
    } else if (!is_bad) {
        /*
         * In a ring the sender could still change the data, so the values that were checked are
         * stored.  Other providers deliver the message as a whole.
         */
        mca_pml_tm_match_store(tmc, peer, hdr, sizeof(rndv) == len ? (const void *) &rndv : data,
                               len, rndv.len);
    }
}

void mca_pml_tm_msg_data(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    if (0 == hdr.app_ctx) {
        mca_pml_tm_stream_data(peer, hdr, data, len);
    } else {
        mca_pml_tm_rndv_data(ctx, peer, hdr, data, len);
    }
}
