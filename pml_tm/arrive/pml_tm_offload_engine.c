/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives on a device that matches tags: connects the offload engine (offload/offload.h), the
 * fabric's device (fabric/fab_tm.h) and receive requests.  The rules are the engine's
 * (doc/offload.md).  All functions run with the lock held.
 *
 * The device stores a message, or an announcement, in a listed receive's memory or in a buffer of
 * the provider.  An announced message is then fetched as any other.
 */

#include "fabric/fab_copy.h"
#include "match/match_inl.h"
#include "offload/offload.h"

#include "pml_tm/arrive/pml_tm_msg.h"
#include "pml_tm/data/pml_tm_deliver.h"
#include "pml_tm/data/pml_tm_rndv.h"
#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/peer/pml_tm_excid.h"
#include "pml_tm/request/pml_tm_failure.h"
#include "pml_tm/request/pml_tm_offload.h"
#include "pml_tm/request/pml_tm_request.h"

#define CLASS_BIT (UINT64_C(1) << 31) /* of the tag: pml_tm_wire.h */
#define TAG_FIELD UINT64_C(0xffffffff)

enum {
    MEMORY_BITS = 8,        /* of the number of a bucket */
    REPORT_EVERY = 1 << 14, /* unexpected messages: doc/offload.md, R11 */
};

/* What mca_pml_tm_comm_t.scope is part of. */
typedef struct scope {
    fab_offload_scope_t scope;
    /* Ranks 0 to num_behind_device - 1 are known to send through the device. */
    int32_t num_behind_device;
    uint32_t num_moved; /* fab_t.num_moved when that was found */
} scope_t;

static fab_offload_t engine;
static fab_tm_device_t device;
/* Pending receives into whose memory the device may store a message; hashed by memory address. */
static mca_pml_tm_recv_request_t *memory[1 << MEMORY_BITS];

fab_offload_counters_t *const mca_pml_tm_offload_counters = &engine.counters;

/* Does the device count this peer's messages? */
static inline bool is_by_device(const fab_peer_t *peer)
{
    return 0 != (peer->caps & FAB_CAP_TM);
}

/* The receive has left the list for good: release what the provider holds for it. */
static inline void release(mca_pml_tm_recv_request_t *req)
{
    if (OPAL_UNLIKELY(NULL != req->listed.recv.tm.place)) {
        device.release(device.device, req->listed.recv.tm.place);
        req->listed.recv.tm.place = NULL;
    }
}

/* ---- listing ------------------------------------------------------------ */

/*
 * Do the messages of all other ranks of the communicator come through the device?  Ranks that are
 * known to use it are not checked again.
 */
static bool is_all_behind_device(const mca_pml_tm_comm_t *tmc)
{
    bool is_intra = !OMPI_COMM_IS_INTER(tmc->comm);
    scope_t *scope = (scope_t *) tmc->scope;

    if (OPAL_UNLIKELY(scope->num_moved != mca_pml_tm.fab->num_moved)) {
        scope->num_moved = mca_pml_tm.fab->num_moved;
        scope->num_behind_device = 0;
    }
    while (scope->num_behind_device < tmc->num_sources) {
        int32_t source = scope->num_behind_device;
        const fab_peer_t *peer = mca_pml_tm_comm_peer(tmc, source);
        bool is_self = is_intra && (uint32_t) source == tmc->my_rank;
        if (!is_self && (NULL == peer || !is_by_device(peer))) {
            return false;
        }
        ++scope->num_behind_device;
    }
    return true;
}

static fab_offload_reason_t find_reason(const mca_pml_tm_comm_t *tmc, int32_t source)
{
    const fab_peer_t *peer;

    if (OMPI_ANY_SOURCE == source) {
        return is_all_behind_device(tmc) ? FAB_OFFLOAD_LISTABLE : FAB_OFFLOAD_ANY_SOURCE;
    }
    peer = mca_pml_tm_comm_peer(tmc, source);
    if (NULL == peer) {
        return FAB_OFFLOAD_UNKNOWN;
    }
    return is_by_device(peer) ? FAB_OFFLOAD_LISTABLE : FAB_OFFLOAD_OTHER_PATH;
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
    if (OPAL_LIKELY(!is_any_source && !is_any_tag)) {
        recv->tag = mca_pml_tm_tag(tmc->context, (uint32_t) source, tag, mca_pml_tm.source_bits);
        return;
    }
    recv->mask &= is_any_source ? ~sources : recv->mask;
    recv->mask &= is_any_tag ? ~(TAG_FIELD & ~CLASS_BIT) : recv->mask;
    recv->tag = mca_pml_tm_tag(tmc->context, is_any_source ? 0 : (uint32_t) source,
                               is_any_tag ? 0 : tag, mca_pml_tm.source_bits);
}

/*
 * From the start of a receive until it is complete its memory is in memory[].  While two receives
 * have the same memory, the device gets that memory only for the first: the device may store an
 * announcement there, which a message to the other receive would overwrite. (Such a program is
 * wrong, but benchmarks do it.)
 */
static void enter(mca_pml_tm_recv_request_t *req)
{
    mca_pml_tm_listed_t *listed = &req->listed;
    mca_pml_tm_recv_request_t **bucket;

    listed->is_memory_shared = false;
    if (NULL == req->data || req->capacity < device.own_len) {
        return;
    }
    /* buffers are often a power of two apart */
    bucket = &memory[(uintptr_t) req->data * UINT64_C(0x9e3779b97f4a7c15) >> (64 - MEMORY_BITS)];
    for (const mca_pml_tm_recv_request_t *other = *bucket; NULL != other;
         other = other->listed.memory_next) {
        listed->is_memory_shared |= other->data == req->data;
    }
    listed->memory_next = *bucket;
    listed->memory_prev = bucket;
    if (NULL != *bucket) {
        (*bucket)->listed.memory_prev = &listed->memory_next;
    }
    *bucket = req;
}

static void leave(mca_pml_tm_recv_request_t *req)
{
    mca_pml_tm_listed_t *listed = &req->listed;

    if (NULL == listed->memory_prev) {
        return;
    }
    *listed->memory_prev = listed->memory_next;
    if (NULL != listed->memory_next) {
        listed->memory_next->listed.memory_prev = listed->memory_prev;
    }
    listed->memory_prev = NULL;
}

/* The receive found no message: list it if allowed. */
static void post(mca_pml_tm_comm_t *tmc, mca_pml_tm_recv_request_t *req)
{
    const mca_pml_base_request_t *base = &req->req_recv.req_base;
    fab_offload_recv_t *recv = &req->listed.recv;
    fab_offload_reason_t reason = find_reason(tmc, base->req_peer);

    if (FAB_OFFLOAD_LISTABLE == reason && req->capacity < device.min_len) {
        reason = FAB_OFFLOAD_SHORT;
    }
    if (FAB_OFFLOAD_LISTABLE == reason) {
        recv->tm.data = req->listed.is_memory_shared ? NULL : req->data;
        recv->tm.len = req->capacity;
        set_tag(tmc, &recv->tm, base->req_peer, base->req_tag);
        req->listed.match.is_first = false;
    }
    fab_offload_post(tmc->scope, recv, base->req_peer, base->req_tag, reason);
}

static void start(mca_pml_tm_comm_t *tmc, mca_pml_tm_recv_request_t *req, fab_match_msg_t *msg)
{
    const mca_pml_base_request_t *base = &req->req_recv.req_base;

    enter(req);
    if (NULL == msg) {
        msg = fab_match_take(&tmc->match, base->req_peer, base->req_tag);
    }
    if (NULL != msg) {
        mca_pml_tm_msg_receive(mca_pml_tm_msg_of(msg), req);
    } else {
        post(tmc, req);
    }
}

/* ---- what the device matched -------------------------------------------- */

static fab_peer_t *sender_rank(const mca_pml_tm_recv_request_t *req, int32_t source)
{
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(req->req_recv.req_base.req_comm);

    return 0 <= source && source < tmc->num_sources ? mca_pml_tm_comm_peer(tmc, source) : NULL;
}

/*
 * The sender that match names of the message that the device matched, or will match, to this
 * receive; NULL: not known.
 */
static fab_peer_t *sender_of(const mca_pml_tm_recv_request_t *req, const fab_tm_match_t *match)
{
    /* if the transfer broke off at once, no header was seen */
    return sender_rank(req, match->is_first
                                ? mca_pml_tm_tag_source(match->hdr.tag, mca_pml_tm.source_bits)
                                : req->req_recv.req_base.req_peer);
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
    fab_peer_t *peer = NULL != match->peer ? match->peer : sender_of(req, match);
    fab_hdr_t hdr = match->hdr;

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
            mca_pml_tm_recv_rndv(req, peer, hdr, &match->rndv, NULL, 0);
        } else if (FAB_TM_AGAIN == match->kind) {
            mca_pml_tm_recv_again(req, peer, hdr);
        } else {
            hdr.app_ctx = FAB_TM_READ == match->kind ? 0 : hdr.app_ctx; /* 0: needs no FIN */
            mca_pml_tm_recv_eager(req, peer, hdr, match->data, match->len);
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
        release(req);
    } else {
        place = req->listed.recv.tm.place;
        req->listed.recv.tm.place = NULL;
    }
    receive_matched(req, match);
    if (NULL != place) {
        device.release(device.device, place);
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
        match->len > req->capacity || NULL != req->listed.memory_prev ||
        !mca_pml_tm_comm_is_last_sender(tmc, match->peer, source)) {
        return false;
    }
    ++mca_pml_tm.counters.expected;
    fab_copy(req->data, match->data, match->len);
    release(req);
    mca_pml_tm_deliver_end(req, fab_match_key(source, tag), match->len);
    return true;
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
    mca_pml_tm_recv_request_t *req = NULL != event->recv ? mca_pml_tm_recv_of(&event->recv->match)
                                                         : NULL;

    switch (event->result) {
    case FAB_OFFLOAD_NOTHING:
        break;
    case FAB_OFFLOAD_COMPLETE:
        complete(req, &req->listed.match);
        break;
    case FAB_OFFLOAD_CANCELLED:
        release(req);
        mca_pml_tm_recv_cancelled(req);
        break;
    case FAB_OFFLOAD_DELIVER:
        release(req);
        mca_pml_tm_msg_receive(mca_pml_tm_msg_of(event->msg), req);
        break;
    case FAB_OFFLOAD_WITHDRAWN:
        mca_pml_tm_msg_withdraw(mca_pml_tm_msg_of(event->msg));
        break;
    case FAB_OFFLOAD_UNEXPECTED:
        kept(mca_pml_tm_msg_of(event->msg));
        break;
    case FAB_OFFLOAD_LOST:
        release(req);
        req->listed.match.kind = FAB_TM_LOST;
        req->listed.match.peer = NULL; /* the peer as it was when the match came */
        receive_matched(req, &req->listed.match);
        break;
    default:
        return false;
    }
    return true;
}

static void drain_events(void)
{
    fab_offload_event_t event;

    while (fab_offload_next(&engine, &event)) {
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
    return sender_rank(mca_pml_tm_recv_of(&fab_offload_recv_of(recv)->match),
                       mca_pml_tm_tag_source(tag, mca_pml_tm.source_bits));
}

/* Keep what a completion says, with the header if that came before. */
static void keep(mca_pml_tm_recv_request_t *req, const fab_tm_match_t *match)
{
    const fab_hdr_t hdr = match->is_first ? match->hdr : req->listed.match.hdr;
    const bool has_hdr = match->is_first || req->listed.match.is_first;

    req->listed.match = *match;
    req->listed.match.hdr = hdr;
    req->listed.match.is_first = has_hdr;
}

static bool matched(void *ctx, fab_tm_recv_t *tm_recv, const fab_tm_match_t *match)
{
    fab_offload_recv_t *recv = fab_offload_recv_of(tm_recv);
    mca_pml_tm_recv_request_t *req = mca_pml_tm_recv_of(&recv->match);
    const fab_offload_event_t event = {.result = fab_offload_matched(recv, match->is_last),
                                       .recv = recv};

    (void) ctx;
    /* the usual case: it is not asked for later */
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

/* ---- the table ---------------------------------------------------------- */

/*
 * Untagged messages bypass the device, so a communicator that has them is matched in software.  So
 * is a communicator for whose scope there is no memory.
 */
static void add_comm(mca_pml_tm_comm_t *tmc)
{
    scope_t *scope = NULL == tmc->excid ? calloc(1, sizeof(*scope)) : NULL;

    if (NULL == scope || !fab_offload_scope_init(&scope->scope, &engine, &tmc->match)) {
        free(scope);
        return;
    }
    tmc->scope = &scope->scope;
    tmc->fast &= ~(PML_TM_FAST_RECV | PML_TM_FAST_TAKE | PML_TM_FAST_LOOK);
}

static void del_comm(mca_pml_tm_comm_t *tmc)
{
    fab_offload_scope_fini(tmc->scope);
    free(tmc->scope);
}

static bool cancel(mca_pml_tm_comm_t *tmc, mca_pml_tm_recv_request_t *req, bool *is_late)
{
    fab_offload_recv_t *recv = &req->listed.recv;
    const fab_offload_cancel_t outcome = fab_offload_cancel(tmc->scope, recv);

    if (FAB_OFFLOAD_DONE == outcome) {
        release(req);
        return true;
    }
    /* the device must release it first */
    if (FAB_OFFLOAD_NOT_POSTED == outcome && FAB_OFFLOAD_OUT != recv->state) {
        mca_pml_tm_check_peer(sender_of(req, &req->listed.match));
    }
    *is_late = FAB_OFFLOAD_CANCELLING == recv->state;
    return false;
}

static fab_match_recv_t *arrive(mca_pml_tm_comm_t *tmc, const fab_peer_t *peer, fab_hdr_t hdr)
{
    fab_offload_recv_t *recv = fab_offload_arrive(tmc->scope, mca_pml_tm_msg_source(hdr),
                                                  mca_pml_tm_tag_tag(hdr.tag), is_by_device(peer));

    if (NULL != recv) {
        release(mca_pml_tm_recv_of(&recv->match));
    }
    return (fab_match_recv_t *) recv;
}

static void keep_msg(mca_pml_tm_comm_t *tmc, mca_pml_tm_msg_t *msg)
{
    fab_offload_keep(tmc->scope, &msg->match, mca_pml_tm_msg_source(msg->hdr),
                     mca_pml_tm_tag_tag(msg->hdr.tag), is_by_device(msg->peer));
}

static unsigned num_matched(void)
{
    return fab_offload_num_matched(&engine);
}

static void close_device(void)
{
    (void) fab_tm_use(mca_pml_tm.fab, NULL, NULL, NULL);
    failed(&engine);
    fab_offload_fini(&engine);
}

static const mca_pml_tm_offload_t table = {
    .add_comm = add_comm,
    .del_comm = del_comm,
    .start = start,
    .leave = leave,
    .cancel = cancel,
    .arrive = arrive,
    .keep = keep_msg,
    .withdraw = fab_offload_withdraw,
    .file = fab_offload_file,
    .num_matched = num_matched,
    .close = close_device,
};

void mca_pml_tm_offload_open(void)
{
    mca_pml_tm.offload = NULL;
    memset(memory, 0, sizeof(memory)); /* receives of a session before */
    if (fab_tm_use(mca_pml_tm.fab, &user, &engine, &device) &&
        fab_offload_init(&engine, &(fab_offload_config_t){.ops = device.ops,
                                                          .device = device.device,
                                                          .max_tags = device.max_tags,
                                                          .max_ops = device.max_ops,
                                                          .report_every = REPORT_EVERY})) {
        mca_pml_tm.offload = &table;
    } else {
        (void) fab_tm_use(mca_pml_tm.fab, NULL, NULL, NULL);
    }
}
