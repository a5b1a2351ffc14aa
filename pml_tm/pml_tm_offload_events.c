/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the device that matches tags reports: connects its events, the offload engine and receives.
 * All functions run with the lock held.
 */
#include "pml_tm_entry.h"

#include "fabric/fab_copy.h"
#include "match/match_inl.h"

#include "pml_tm_comm.h"
#include "pml_tm_deliver.h"
#include "pml_tm_failure.h"
#include "pml_tm_match.h"
#include "pml_tm_msg.h"
#include "pml_tm_offload.h"
#include "pml_tm_request.h"
#include "pml_tm_rndv.h"

enum { REPORT_EVERY = 1 << 14 }; /* unexpected messages: doc/offload.md, R11 */

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

/*
 * All data has arrived, or never will.  In the latter case the sender failed and the request stays
 * open, as for any sender that fails midway.
 */
static void receive_matched(mca_pml_tm_recv_request_t *req, const fab_tm_match_t *match)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(req->req_recv.req_base.req_comm);
    /*
     * a peer that failed since may still have a record; without it nothing can be answered or
     * fetched
     */
    fab_peer_t *peer = NULL != match->peer ? match->peer : mca_pml_tm_offload_sender(req, match);

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
static void complete(mca_pml_tm_recv_request_t *req, const fab_tm_match_t *match)
{
    void *place = NULL;

    if (NULL == match->data) {
        mca_pml_tm_offload_release(req);
    } else {
        place = req->offload.tm.place;
        req->offload.tm.place = NULL;
    }
    receive_matched(req, match);
    if (NULL != place) {
        mca_pml_tm.device.release(mca_pml_tm.device.device, place);
    }
}

/*
 * complete() for most messages: one that is in a buffer of the provider's (match->data), is not too
 * long, and wants no acknowledgement.  False: nothing was done.
 */
static inline bool complete_short(mca_pml_tm_recv_request_t *req, const fab_tm_match_t *match)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(req->req_recv.req_base.req_comm);
    const int32_t source = mca_pml_tm_tag_source(match->hdr.tag, mca_pml_tm.source_bits);
    const int32_t tag = mca_pml_tm_tag_tag(match->hdr.tag);

    if (0 != match->hdr.app_ctx || NULL == match->peer || NULL == req->data ||
        match->len > req->capacity || NULL != req->memory_prev ||
        !mca_pml_tm_comm_is_last_sender(tmc, match->peer, source)) {
        return false;
    }
    ++mca_pml_tm.counters.expected;
    fab_copy(req->data, match->data, match->len);
    mca_pml_tm_offload_release(req);
    mca_pml_tm_deliver_end(req, fab_match_key(source, tag), match->len);
    return true;
}

static void cancelled(mca_pml_tm_recv_request_t *req)
{
    mca_pml_tm_offload_release(req);
    ++mca_pml_tm.counters.cancelled;
    req->req_recv.req_base.req_ompi.req_status._cancelled = true;
    mca_pml_tm_recv_done(req);
}

/* The message waited for a DEL, and is unexpected now.  Was its communicator revoked since? */
static void kept(mca_pml_tm_msg_t *msg)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm_find(
        mca_pml_tm_tag_context(msg->hdr.tag, mca_pml_tm.source_bits));

    if (NULL != tmc && mca_pml_tm_refuse_revoked(tmc, msg->peer, msg->hdr)) {
        fab_match_remove_msg(&tmc->match, &msg->match);
        mca_pml_tm_msg_release(msg);
    }
}

/* False: the engine and the device do not agree. */
static bool handle(const fab_offload_event_t *event)
{
    mca_pml_tm_recv_request_t *req = NULL != event->recv ? mca_pml_tm_recv_of(event->recv) : NULL;

    switch (event->result) {
    case FAB_OFFLOAD_NOTHING:
        break;
    case FAB_OFFLOAD_COMPLETE:
        complete(req, &req->tm_match);
        break;
    case FAB_OFFLOAD_CANCELLED:
        cancelled(req);
        break;
    case FAB_OFFLOAD_DELIVER:
        mca_pml_tm_offload_release(req);
        mca_pml_tm_msg_receive(mca_pml_tm_msg_of(event->msg), req);
        break;
    case FAB_OFFLOAD_WITHDRAWN:
        mca_pml_tm_msg_withdraw(mca_pml_tm_msg_of(event->msg));
        break;
    case FAB_OFFLOAD_UNEXPECTED:
        kept(mca_pml_tm_msg_of(event->msg));
        break;
    case FAB_OFFLOAD_LOST:
        mca_pml_tm_offload_release(req);
        req->tm_match.kind = FAB_TM_LOST;
        req->tm_match.peer = NULL; /* the peer as it was when the match came */
        receive_matched(req, &req->tm_match);
        break;
    default:
        return false;
    }
    return true;
}

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
    if (OPAL_LIKELY(is_idle && fab_offload_poll_end_quiet(ctx))) {
        return;
    }
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
    return mca_pml_tm_offload_sender_rank(mca_pml_tm_recv_of(fab_offload_recv_of(recv)),
                                          mca_pml_tm_tag_source(tag, mca_pml_tm.source_bits));
}

/* Keep what a completion says, with the header if that came before. */
static void keep(mca_pml_tm_recv_request_t *req, const fab_tm_match_t *match)
{
    const fab_hdr_t hdr = match->is_first ? match->hdr : req->tm_match.hdr;
    const bool has_hdr = match->is_first || req->tm_match.is_first;

    req->tm_match = *match;
    req->tm_match.hdr = hdr;
    req->tm_match.is_first = has_hdr;
}

static bool matched(void *ctx, fab_tm_recv_t *tm_recv, const fab_tm_match_t *match)
{
    fab_offload_recv_t *recv = fab_offload_recv_of(tm_recv);
    mca_pml_tm_recv_request_t *req = mca_pml_tm_recv_of(recv);
    const fab_offload_event_t event = {.result = fab_offload_matched(recv, match->is_last),
                                       .recv = recv};

    (void) ctx;
    /* the usual case, in which nobody asks for it later */
    if (OPAL_LIKELY(FAB_OFFLOAD_COMPLETE == event.result && match->is_first &&
                    (FAB_TM_EAGER == match->kind || FAB_TM_READ == match->kind))) {
        if (NULL == match->data || FAB_TM_EAGER != match->kind || !complete_short(req, match)) {
            complete(req, match);
        }
        return true;
    }
    keep(req, match);
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
