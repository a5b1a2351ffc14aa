/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives on a device that matches tags.  See pml_tm_offload.h; the rules are the engine's
 * (doc/offload.md).
 */
#include "pml_tm_offload.h"

#include "pml_tm_cancel.h"
#include "pml_tm_msg.h"
#include "pml_tm_peer.h"

enum { REPORT_EVERY = 1 << 14 }; /* unexpected messages: doc/offload.md, R11 */

#define CLASS_BIT (UINT64_C(1) << 31) /* of the tag: pml_tm_wire.h */
#define TAG_FIELD UINT64_C(0xffffffff)

/* ---- listing ------------------------------------------------------------ */

/*
 * Do the messages of all other ranks of the communicator come through the device?  Ranks that are
 * known to use it are not checked again.
 */
static bool is_all_behind_device(mca_pml_tm_comm_t *tmc)
{
    bool is_intra = !OMPI_COMM_IS_INTER(tmc->comm);

    if (OPAL_UNLIKELY(tmc->num_moved != mca_pml_tm.fab->num_moved)) {
        tmc->num_moved = mca_pml_tm.fab->num_moved;
        tmc->num_behind_device = 0;
    }
    while (tmc->num_behind_device < tmc->num_sources) {
        int32_t source = tmc->num_behind_device;
        const fab_peer_t *peer = mca_pml_tm_comm_peer(tmc, source);
        bool is_self = is_intra && (uint32_t) source == tmc->my_rank;
        if (!is_self && (NULL == peer || 0 == (peer->caps & FAB_CAP_TM))) {
            return false;
        }
        ++tmc->num_behind_device;
    }
    return true;
}

static fab_offload_reason_t find_reason(mca_pml_tm_comm_t *tmc, int32_t source)
{
    const fab_peer_t *peer;

    if (OMPI_ANY_SOURCE == source) {
        return is_all_behind_device(tmc) ? FAB_OFFLOAD_LISTABLE : FAB_OFFLOAD_ANY_SOURCE;
    }
    peer = mca_pml_tm_comm_peer(tmc, source);
    if (NULL == peer) {
        return FAB_OFFLOAD_UNKNOWN;
    }
    return 0 != (peer->caps & FAB_CAP_TM) ? FAB_OFFLOAD_LISTABLE : FAB_OFFLOAD_OTHER_PATH;
}

/*
 * Tag and mask for the device.  A wildcard is zero in both; the class bit keeps a wildcard tag from
 * matching internal messages.
 */
static void set_tag(const mca_pml_tm_comm_t *tmc, fab_tm_recv_t *recv, int32_t source, int32_t tag)
{
    uint64_t sources = ((UINT64_C(1) << mca_pml_tm.source_bits) - 1) << PML_TM_TAG_BITS;
    bool is_any_source = OMPI_ANY_SOURCE == source;
    bool is_any_tag = OMPI_ANY_TAG == tag;

    recv->mask = ~UINT64_C(0);
    recv->mask &= is_any_source ? ~sources : recv->mask;
    recv->mask &= is_any_tag ? ~(TAG_FIELD & ~CLASS_BIT) : recv->mask;
    recv->tag = mca_pml_tm_tag(tmc->context, is_any_source ? 0 : (uint32_t) source,
                               is_any_tag ? 0 : tag, mca_pml_tm.source_bits);
}

void mca_pml_tm_offload_enter(mca_pml_tm_recv_request_t *req)
{
    mca_pml_tm_recv_request_t **bucket;

    req->is_memory_shared = false;
    if (NULL == req->data || req->capacity < mca_pml_tm.device.own_len) {
        return;
    }
    bucket = &mca_pml_tm.memory[((uintptr_t) req->data >> 6) % PML_TM_MEMORY_BUCKETS];
    for (const mca_pml_tm_recv_request_t *other = *bucket; NULL != other;
         other = other->memory_next) {
        req->is_memory_shared |= other->data == req->data;
    }
    mca_pml_tm.counters.same_memory += req->is_memory_shared;
    req->memory_next = *bucket;
    req->memory_prev = bucket;
    if (NULL != *bucket) {
        (*bucket)->memory_prev = &req->memory_next;
    }
    *bucket = req;
}

void mca_pml_tm_offload_leave(mca_pml_tm_recv_request_t *req)
{
    *req->memory_prev = req->memory_next;
    if (NULL != req->memory_next) {
        req->memory_next->memory_prev = req->memory_prev;
    }
    req->memory_prev = NULL;
}

void mca_pml_tm_offload_post(mca_pml_tm_comm_t *tmc, mca_pml_tm_recv_request_t *req)
{
    const mca_pml_base_request_t *base = &req->req_recv.req_base;
    fab_offload_recv_t *recv = &req->offload;
    fab_offload_reason_t reason = find_reason(tmc, base->req_peer);

    if (FAB_OFFLOAD_LISTABLE == reason && req->capacity < mca_pml_tm.device.min_len) {
        reason = FAB_OFFLOAD_SHORT;
    }
    if (FAB_OFFLOAD_LISTABLE == reason) {
        recv->tm.data = req->is_memory_shared ? NULL : req->data;
        recv->tm.len = req->capacity;
        set_tag(tmc, &recv->tm, base->req_peer, base->req_tag);
        req->tm_match.is_first = false;
    }
    fab_offload_post(&tmc->scope, recv, reason);
}

void mca_pml_tm_offload_release_slow(mca_pml_tm_recv_request_t *req)
{
    mca_pml_tm.device.release(mca_pml_tm.device.device, req->offload.tm.place);
    req->offload.tm.place = NULL;
}

/* ---- what the device matched -------------------------------------------- */

/* The message has arrived. */
static void receive_data(mca_pml_tm_recv_request_t *req, fab_peer_t *peer,
                         const fab_tm_match_t *match)
{
    fab_hdr_t hdr = match->hdr;

    if (FAB_TM_READ == match->kind) {
        hdr.app_ctx = 0; /* the sender needs no FIN */
    }
    if (NULL == match->data) {
        mca_pml_tm_recv_placed(req, peer, hdr, match->len);
    } else {
        mca_pml_tm_recv_eager(req, peer, hdr, match->data, match->len);
    }
}

static fab_peer_t *sender_by_rank(const mca_pml_tm_recv_request_t *req, int32_t source)
{
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(req->req_recv.req_base.req_comm);

    return 0 <= source && source < tmc->num_sources ? mca_pml_tm_comm_peer(tmc, source) : NULL;
}

fab_peer_t *mca_pml_tm_offload_sender(const mca_pml_tm_recv_request_t *req)
{
    const fab_tm_match_t *match = &req->tm_match;

    /* if the transfer broke off at once, no header was seen */
    return sender_by_rank(req, match->is_first
                                   ? mca_pml_tm_tag_source(match->hdr.tag, mca_pml_tm.source_bits)
                                   : req->req_recv.req_base.req_peer);
}

/*
 * All data has arrived, or never will.  In the latter case the sender failed and the request stays
 * open, as for any sender that fails midway.
 */
static void receive_matched(mca_pml_tm_recv_request_t *req)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(req->req_recv.req_base.req_comm);
    const fab_tm_match_t *match = &req->tm_match;
    /*
     * a peer that failed since may still have a record; without it nothing can be answered or
     * fetched
     */
    fab_peer_t *peer = NULL != match->peer ? match->peer : mca_pml_tm_offload_sender(req);

    req->core.peer = peer;
    if (NULL == peer) {
        mca_pml_tm_recv_finish(req, PML_TM_ERR_PROC_FAILED);
    } else if (FAB_TM_LOST == match->kind) {
        return;
    } else if (!mca_pml_tm_comm_is_sender(
                   tmc, peer, mca_pml_tm_tag_source(match->hdr.tag, mca_pml_tm.source_bits))) {
        mca_pml_tm_bad_message(peer, "not its rank in its communicator");
    } else {
        ++mca_pml_tm.counters.expected;
        if (FAB_TM_RNDV == match->kind) {
            mca_pml_tm_recv_rndv(req, peer, match->hdr, &match->rndv, NULL, 0);
        } else if (FAB_TM_AGAIN == match->kind) {
            mca_pml_tm_recv_again(req, peer, match->hdr);
        } else {
            receive_data(req, peer, match);
        }
    }
}

/*
 * The engine is done with a receive that the device matched.  The request may be gone afterwards.
 * If the message is in the user's memory, that is given up before: as soon as the request is
 * complete another thread may unmap it.
 */
static void complete(mca_pml_tm_recv_request_t *req)
{
    void *place = NULL;

    if (NULL == req->tm_match.data) {
        mca_pml_tm_offload_release(req);
    } else {
        place = req->offload.tm.place;
        req->offload.tm.place = NULL;
    }
    receive_matched(req);
    if (NULL != place) {
        mca_pml_tm.device.release(mca_pml_tm.device.device, place);
    }
}

static void cancelled(mca_pml_tm_recv_request_t *req)
{
    mca_pml_tm_offload_release(req);
    ++mca_pml_tm.counters.cancelled;
    req->req_recv.req_base.req_ompi.req_status._cancelled = true;
    mca_pml_tm_recv_done(req);
}

/* False: the engine and the device do not agree. */
static bool handle(const fab_offload_event_t *event)
{
    mca_pml_tm_recv_request_t *req = NULL != event->recv ? mca_pml_tm_recv_of(event->recv) : NULL;

    switch (event->result) {
    case FAB_OFFLOAD_NOTHING:
        break;
    case FAB_OFFLOAD_COMPLETE:
        complete(req);
        break;
    case FAB_OFFLOAD_CANCELLED:
        cancelled(req);
        break;
    case FAB_OFFLOAD_DELIVER:
        mca_pml_tm_offload_release(req);
        mca_pml_tm_msg_receive(mca_pml_tm_msg_of(event->msg), req);
        break;
    case FAB_OFFLOAD_WITHDRAWN:
        mca_pml_tm_cancel_answer(mca_pml_tm_msg_of(event->msg));
        mca_pml_tm_msg_release(mca_pml_tm_msg_of(event->msg));
        break;
    case FAB_OFFLOAD_LOST:
        mca_pml_tm_offload_release(req);
        req->tm_match.kind = FAB_TM_LOST;
        req->tm_match.peer = NULL; /* the peer as it was when the match came */
        receive_matched(req);
        break;
    default:
        return false;
    }
    return true;
}

/* ---- called by the fabric ----------------------------------------------- */

static void drain_events(void)
{
    fab_offload_event_t event;

    while (fab_offload_next(&mca_pml_tm.offload, &event)) {
        (void) handle(&event);
    }
}

static void poll_begin(void *ctx)
{
    fab_offload_poll_begin(ctx);
}

static void poll_end(void *ctx, bool is_idle)
{
    fab_offload_poll_end(ctx);
    drain_events();
    if (is_idle) {
        fab_offload_idle(ctx);
    }
}

static void handled(void *ctx)
{
    fab_offload_handled(ctx);
}

static bool must_hold(void *ctx)
{
    return fab_offload_must_hold(ctx);
}

static fab_peer_t *sender(void *ctx, const fab_tm_recv_t *recv, uint64_t tag)
{
    (void) ctx;
    return sender_by_rank(mca_pml_tm_recv_of(fab_offload_recv_of(recv)),
                          mca_pml_tm_tag_source(tag, mca_pml_tm.source_bits));
}

static bool matched(void *ctx, fab_tm_recv_t *tm_recv, const fab_tm_match_t *match)
{
    fab_offload_recv_t *recv = fab_offload_recv_of(tm_recv);
    mca_pml_tm_recv_request_t *req = mca_pml_tm_recv_of(recv);
    fab_hdr_t hdr = match->is_first ? match->hdr : req->tm_match.hdr;
    bool has_hdr = match->is_first || req->tm_match.is_first;
    fab_offload_event_t event = {.recv = recv};

    (void) ctx;
    req->tm_match = *match;
    req->tm_match.hdr = hdr;
    req->tm_match.is_first = has_hdr;
    event.result = fab_offload_matched(recv, match->is_last);
    return handle(&event);
}

static bool done(void *ctx, uint64_t wr_id, bool is_success)
{
    fab_offload_event_t event = fab_offload_done(ctx, wr_id, is_success);

    return handle(&event);
}

static void failed(void *ctx)
{
    fab_offload_fail(ctx);
    drain_events();
}

static const fab_tm_user_t user = {
    .poll_begin = poll_begin,
    .poll_end = poll_end,
    .handled = handled,
    .must_hold = must_hold,
    .sender = sender,
    .matched = matched,
    .done = done,
    .failed = failed,
};

/* ---- open and close ----------------------------------------------------- */

void mca_pml_tm_offload_open(void)
{
    fab_tm_device_t *device = &mca_pml_tm.device;
    fab_offload_config_t config;

    mca_pml_tm.engine = NULL;
    if (!fab_tm_use(mca_pml_tm.fab, &user, &mca_pml_tm.offload, device)) {
        return;
    }
    config = (fab_offload_config_t){
        .ops = device->ops,
        .device = device->device,
        .max_tags = device->max_tags,
        .max_ops = device->max_ops,
        .report_every = REPORT_EVERY,
    };
    if (fab_offload_init(&mca_pml_tm.offload, &config)) {
        mca_pml_tm.engine = &mca_pml_tm.offload;
    } else {
        (void) fab_tm_use(mca_pml_tm.fab, NULL, NULL, NULL);
    }
}

void mca_pml_tm_offload_close(void)
{
    if (NULL == mca_pml_tm.engine) {
        return;
    }
    (void) fab_tm_use(mca_pml_tm.fab, NULL, NULL, NULL);
    failed(mca_pml_tm.engine);
}

void mca_pml_tm_offload_free(void)
{
    if (NULL != mca_pml_tm.engine) {
        fab_offload_fini(mca_pml_tm.engine);
        mca_pml_tm.engine = NULL;
    }
}
