/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow control of unexpected messages, both sides.  See pml_tm_flow.h.
 */
#include "pml_tm/arrive/pml_tm_flow.h"

#include "fabric/fab_look.h"

#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/request/pml_tm_request.h"

/* Held messages that one turn of the sender's queue releases, before other items get their turn. */
#define SENDS_PER_TURN 256

static bool contexts_have(const mca_pml_tm_contexts_t *contexts, uint32_t context)
{
    for (uint32_t i = 0; i < contexts->count; ++i) {
        if (contexts->context[i] == context) {
            return true;
        }
    }
    return false;
}

static void contexts_remove(mca_pml_tm_contexts_t *contexts, uint32_t context)
{
    for (uint32_t i = 0; i < contexts->count; ++i) {
        if (contexts->context[i] == context) {
            contexts->context[i] = contexts->context[--contexts->count];
            return;
        }
    }
}

/* Tell observers from outside (fab_look.h). */
static void note(const mca_pml_tm_peer_t *record, fab_event_kind_t kind)
{
    fab_look_event(mca_pml_tm.fab,
                   (fab_event_t){.kind = (uint8_t) kind, .peer = record->peer->name});
}

/* ---- receiver ----------------------------------------------------------- */

static void send_flow(fab_peer_t *peer, mca_pml_tm_flow_t what, uint32_t context)
{
    mca_pml_tm_answer(peer, fab_hdr(PML_TM_AM_FLOW, context, (uint32_t) what), NULL, 0);
}

static void stop(mca_pml_tm_peer_t *record)
{
    send_flow(record->peer, PML_TM_FLOW_HOLD, 0);
    record->is_throttled = true;
    record->wanted.count = 0;
    ++mca_pml_tm.num_throttled;
    ++mca_pml_tm.counters.throttled;
    note(record, FAB_EVENT_HOLD);
}

static void release(mca_pml_tm_peer_t *record)
{
    if (record->is_throttled) {
        send_flow(record->peer, PML_TM_FLOW_ALL, 0);
        record->is_throttled = false;
        note(record, FAB_EVENT_GO_ON);
        --mca_pml_tm.num_throttled;
    }
}

static void want(mca_pml_tm_peer_t *record, uint32_t context)
{
    if (!record->is_throttled || contexts_have(&record->wanted, context)) {
        return;
    }
    if (PML_TM_FLOW_CONTEXTS == record->wanted.count) {
        release(record); /* so many communicators that holding messages back gains nothing */
    } else {
        send_flow(record->peer, PML_TM_FLOW_OPEN, context);
        record->wanted.context[record->wanted.count++] = context;
    }
}

/* As fab_match_wanted(); tmc may be NULL. */
static unsigned find_wanted(mca_pml_tm_comm_t *tmc, int32_t sources[FAB_MATCH_SHORT_LEN])
{
    if (NULL == tmc) {
        return 0;
    }
    if (NULL != tmc->scope) {
        mca_pml_tm.offload->file(tmc->scope);
    }
    return fab_match_wanted(&tmc->match, sources);
}

/* Does a receive of the communicator wait for user messages from this source? */
static bool is_wanted(mca_pml_tm_comm_t *tmc, int32_t source)
{
    int32_t sources[FAB_MATCH_SHORT_LEN];
    unsigned count = find_wanted(tmc, sources);

    while (count > 0 && source != sources[count - 1] && FAB_MATCH_ANY != sources[count - 1]) {
        --count;
    }
    return count > 0;
}

void mca_pml_tm_flow_stop(fab_peer_t *peer, fab_hdr_t hdr)
{
    mca_pml_tm_peer_t *record = mca_pml_tm_peer_record(peer);
    uint32_t context = mca_pml_tm_tag_context(hdr.tag, mca_pml_tm.source_bits);

    if (NULL == record) {
        return; /* without memory the sender is not throttled */
    }
    if (!record->is_throttled) {
        stop(record);
    } else if (contexts_have(&record->wanted, context) && mca_pml_tm_tag_tag(hdr.tag) >= 0 &&
               !is_wanted(mca_pml_tm_comm_find(context),
                          mca_pml_tm_tag_source(hdr.tag, mca_pml_tm.source_bits))) {
        send_flow(peer, PML_TM_FLOW_CLOSE, context);
        contexts_remove(&record->wanted, context);
    }
}

void mca_pml_tm_flow_release(void)
{
    for (mca_pml_tm_peer_t *record = mca_pml_tm.peers; NULL != record; record = record->next) {
        release(record);
    }
}

/* A receive in the communicator waits for messages from this source, or from all. */
static void want_source(mca_pml_tm_comm_t *tmc, int32_t source)
{
    fab_peer_t *peer;

    if (FAB_MATCH_ANY == source) {
        for (mca_pml_tm_peer_t *record = mca_pml_tm.peers; NULL != record; record = record->next) {
            want(record, tmc->context);
        }
    } else {
        peer = mca_pml_tm_comm_peer(tmc, source);
        if (NULL != peer && NULL != peer->user[FAB_USER_PML]) {
            want(peer->user[FAB_USER_PML], tmc->context);
        }
    }
}

void mca_pml_tm_flow_feed(void)
{
    int32_t sources[FAB_MATCH_SHORT_LEN];

    for (uint32_t i = 0; i < mca_pml_tm.num_comms && 0 != mca_pml_tm.num_throttled; ++i) {
        mca_pml_tm_comm_t *tmc = mca_pml_tm.comms[i];
        unsigned count = find_wanted(tmc, sources);

        while (count > 0) {
            want_source(tmc, sources[--count]);
        }
    }
}

void mca_pml_tm_flow_probe(mca_pml_tm_comm_t *tmc, int32_t source, int32_t tag)
{
    if (tag >= 0 || FAB_MATCH_ANY == tag) {
        want_source(tmc, source);
    }
}

/* ---- sender ------------------------------------------------------------- */

/* Are messages with this context id in their tag held back? */
static inline bool must_hold(const mca_pml_tm_peer_t *record, uint32_t context)
{
    return record->must_hold && !contexts_have(&record->open, context);
}

static inline bool is_exempt(const mca_pml_tm_send_request_t *req)
{
    return req->is_untagged || mca_pml_tm_tag_tag(req->tag) < 0 || 0 != req->offset ||
           mca_pml_tm.fab->config.name == req->core.peer->name;
}

/* Is this the queued item of a send that must be held? */
static bool is_to_hold(const fab_item_t *item, const void *ctx)
{
    const mca_pml_tm_send_request_t *req = mca_pml_tm_send_of_item((fab_item_t *) item);

    return mca_pml_tm.send_item == item->fn && !is_exempt(req) &&
           must_hold(ctx, mca_pml_tm_tag_context(req->tag, mca_pml_tm.source_bits));
}

/* Where the oldest held send of this context is linked; *link NULL: none is held. */
static mca_pml_tm_send_request_t **find_held(mca_pml_tm_peer_t *record, uint32_t context)
{
    mca_pml_tm_send_request_t **link = &record->held;

    while (NULL != *link && context != (*link)->held_context) {
        link = &(*link)->held_other;
    }
    return link;
}

/* The newest of the context whose oldest is linked here. */
static void append_held(mca_pml_tm_send_request_t **link, mca_pml_tm_send_request_t *req)
{
    mca_pml_tm_send_request_t *first = *link;

    if (NULL == first) {
        req->held_next = req->held_prev = req;
        req->held_other = NULL;
        *link = req;
    } else {
        req->held_next = first;
        req->held_prev = first->held_prev;
        first->held_prev->held_next = req;
        first->held_prev = req;
    }
}

/* The oldest of its context: link is what find_held() returns. */
static void prepend_held(mca_pml_tm_send_request_t **link, mca_pml_tm_send_request_t *req)
{
    mca_pml_tm_send_request_t *other = NULL != *link ? (*link)->held_other : NULL;

    append_held(link, req); /* of a ring, the end that is called the beginning */
    req->held_other = other;
    *link = req;
}

/* Its context's oldest is linked here. */
static void remove_held(mca_pml_tm_send_request_t **link, mca_pml_tm_send_request_t *req)
{
    if (*link == req && req->held_next == req) {
        *link = req->held_other;
        return;
    }
    if (*link == req) {
        req->held_next->held_other = req->held_other;
        *link = req->held_next;
    }
    req->held_prev->held_next = req->held_next;
    req->held_next->held_prev = req->held_prev;
}

static fab_item_t *reverse(fab_item_t *item)
{
    fab_item_t *reversed = NULL, *next;

    for (; NULL != item; item = next) {
        next = item->next;
        item->next = reversed;
        reversed = item;
    }
    return reversed;
}

/* Sends that are queued for room are older than held ones and go in front of them. */
static void hold_queued(mca_pml_tm_peer_t *record)
{
    fab_item_t *item = reverse(fab_unqueue(record->peer, is_to_hold, record)), *next;

    for (; NULL != item; item = next) {
        mca_pml_tm_send_request_t *req = mca_pml_tm_send_of_item(item);

        next = item->next;
        item->next = NULL;
        req->core.phase = PML_TM_HELD;
        req->held_context = mca_pml_tm_tag_context(req->tag, mca_pml_tm.source_bits);
        prepend_held(find_held(record, req->held_context), req);
        ++mca_pml_tm.counters.held_sends;
    }
}

/*
 * A held send found no room, after it had been removed from here.  If a part of it is out, it is
 * the first that goes on: no other stream may begin inside of it.
 */
static void put_back(mca_pml_tm_peer_t *record, mca_pml_tm_send_request_t **link,
                     mca_pml_tm_send_request_t *req)
{
    req->core.phase = PML_TM_HELD;
    if (NULL != *link && req->held_context != (*link)->held_context) {
        req->held_next = req->held_prev = req;
        req->held_other = *link;
        *link = req;
    } else {
        prepend_held(link, req);
    }
    if (0 != req->offset) {
        *link = req->held_other;
        req->held_other = record->held;
        record->held = req;
    }
}

/* Send held messages that may go, those of a context in order, as long as there is room. */
static int held_item(fab_item_t *item, fab_peer_t *peer)
{
    mca_pml_tm_peer_t *record = peer->user[FAB_USER_PML];
    mca_pml_tm_send_request_t **link = &record->held, *req;

    (void) item;
    for (int count = 0; NULL != *link;) {
        req = *link;
        /* a message that has begun goes on: its receive may be matched, and releases nothing */
        if (0 == req->offset && must_hold(record, req->held_context)) {
            link = &req->held_other;
            continue;
        }
        if (SENDS_PER_TURN == count++) {
            return OPAL_ERR_IN_PROCESS;
        }
        remove_held(link, req);
        if (OPAL_ERR_RESOURCE_BUSY == mca_pml_tm.send_item(&req->item, peer)) {
            put_back(record, link, req);
            return OPAL_ERR_RESOURCE_BUSY;
        }
    }
    record->is_queued = false;
    return OMPI_SUCCESS;
}

static void queue_held(mca_pml_tm_peer_t *record)
{
    if (!record->is_queued && NULL != record->held) {
        record->is_queued = true;
        record->item = (fab_item_t){.fn = held_item, .user = FAB_USER_PML};
        fab_queue(record->peer, &record->item);
    }
}

bool mca_pml_tm_flow_hold(mca_pml_tm_send_request_t *req)
{
    mca_pml_tm_peer_t *record = req->core.peer->user[FAB_USER_PML];
    mca_pml_tm_send_request_t **link;
    uint32_t context;
    bool must_wait;

    if (is_exempt(req)) {
        return false;
    }
    context = mca_pml_tm_tag_context(req->tag, mca_pml_tm.source_bits);
    link = find_held(record, context);
    must_wait = must_hold(record, context);
    if (NULL == *link && !must_wait) {
        return false;
    }
    ++mca_pml_tm.counters.held_sends;
    req->core.phase = PML_TM_HELD;
    req->held_context = context;
    req->item.next = NULL;
    append_held(link, req);
    if (!must_wait) {
        queue_held(record);
    }
    return true;
}

void mca_pml_tm_flow_unhold(mca_pml_tm_send_request_t *req)
{
    remove_held(find_held(req->core.peer->user[FAB_USER_PML], req->held_context), req);
}

void mca_pml_tm_flow_told(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_peer_t *record = mca_pml_tm_peer_record(peer);
    bool has_context = PML_TM_FLOW_OPEN == hdr.app_ctx || PML_TM_FLOW_CLOSE == hdr.app_ctx;

    (void) ctx;
    (void) data;
    if (0 != len || hdr.app_ctx > PML_TM_FLOW_CLOSE ||
        hdr.tag >= (has_context ? mca_pml_tm.max_context : 1)) {
        mca_pml_tm_bad_message(peer, "flow control: unknown request");
        return;
    }
    if (NULL == record) {
        return; /* without memory nothing is held back */
    }
    if (!has_context) {
        record->must_hold = PML_TM_FLOW_HOLD == hdr.app_ctx;
        note(record, record->must_hold ? FAB_EVENT_TOLD_HOLD : FAB_EVENT_TOLD_GO_ON);
        record->open.count = 0;
    } else if (PML_TM_FLOW_CLOSE == hdr.app_ctx) {
        contexts_remove(&record->open, (uint32_t) hdr.tag);
    } else if (record->open.count < PML_TM_FLOW_CONTEXTS) {
        record->open.context[record->open.count++] = (uint32_t) hdr.tag;
    } else {
        mca_pml_tm_bad_message(peer, "flow control: too many communicators");
        return;
    }
    hold_queued(record);
    queue_held(record);
}
