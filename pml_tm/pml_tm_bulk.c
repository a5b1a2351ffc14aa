/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows of long messages; see pml_tm_bulk.h.
 */
#include "pml_tm_bulk.h"

#include "fabric/fab_clock.h"

#include "pml_tm_asked.h"
#include "pml_tm_peer.h"
#include "pml_tm_recv.h"
#include "pml_tm_stream.h"

enum {
    BULK_MIN = 16384, /* bytes; to read less costs more than its copy */
    /*
     * Bytes that are begun ahead of those that are complete: at least the longest ring that is
     * chosen by default.  Less would leave it empty now and then; two messages are begun in any
     * case.
     */
    BULK_AHEAD = 4 << 20,
    BULK_BATCH = 4 << 20, /* bytes */
    BULK_FIRST = 4,       /* batches that come through the ring before both ways are tried */
};

/* May it come in either way, and is it unknown which is faster? */
static bool has_choice(const mca_pml_tm_recv_request_t *req, const fab_rndv_t *rndv)
{
    const fab_peer_t *peer = req->core.peer;
    int limit = mca_pml_tm.stream_limit;

    return 0 != rndv->addr && NULL != req->data && req->wanted >= BULK_MIN &&
           0 != (peer->caps & FAB_CAP_LONG_RING) && 0 != (peer->caps & FAB_CAP_GET) &&
           mca_pml_tm_stream_works(peer) && (limit < 0 || rndv->len <= (size_t) limit);
}

/* Begin the next batch. */
static void batch_begin(mca_pml_tm_bulk_t *bulk)
{
    int choice = mca_pml_tm.params.stream_get;

    if (0 == bulk->trial.round) {
        bulk->trial = fab_trial_begin(BULK_FIRST, false);
    }
    bulk->is_try = false;
    bulk->way = choice >= 0 ? (unsigned) choice : fab_trial_next(&bulk->trial, &bulk->is_try);
    bulk->left = BULK_BATCH;
    bulk->bytes = 0;
    bulk->since = bulk->is_try ? fab_now_ns() : 0;
}

/* Nothing of the batch is under way any more. */
static void batch_end(mca_pml_tm_bulk_t *bulk)
{
    if (bulk->is_try) {
        fab_trial_note(&bulk->trial, bulk->way, bulk->bytes, fab_now_ns() - bulk->since);
        bulk->is_try = false;
    }
    bulk->left = 0;
}

/* May one more be begun now? */
static bool may_begin(const mca_pml_tm_bulk_t *bulk)
{
    if (0 == bulk->left && (bulk->is_try || fab_trial_is_due(&bulk->trial))) {
        return 0 == bulk->open;
    }
    return bulk->open < 2 || bulk->open_bytes < BULK_AHEAD;
}

/* A message of that many bytes is not under way any more. */
static void ended(mca_pml_tm_bulk_t *bulk, size_t bytes)
{
    bulk->open--;
    bulk->open_bytes -= bytes;
    if (0 == bulk->open && (0 == bulk->left || NULL == bulk->first)) {
        batch_end(bulk);
    }
}

/* Ask for the data.  False: this is impossible, and the receive has ended. */
static bool ask(mca_pml_tm_recv_request_t *req)
{
    ++mca_pml_tm.counters.pipeline_chosen;
    if (!mca_pml_tm_recv_pipeline(req)) {
        return false;
    }
    mca_pml_tm_asked_add(req);
    return true;
}

/* Begin those that may be begun. */
static void begin(mca_pml_tm_bulk_t *bulk)
{
    mca_pml_tm_recv_request_t *req;

    while (NULL != (req = bulk->first) && may_begin(bulk)) {
        const fab_rndv_t rndv = {.addr = req->rma.remote, .rkey = req->rma.rkey};
        size_t bytes = req->wanted;
        bulk->first = req->turn_next;
        if (0 == bulk->left) {
            batch_begin(bulk);
        }
        bulk->left -= bytes < bulk->left ? bytes : bulk->left;
        bulk->bytes += bytes;
        bulk->open++;
        bulk->open_bytes += bytes;
        if (!(0 == bulk->way ? ask(req) : mca_pml_tm_recv_fetch(req, &rndv))) {
            ended(bulk, bytes);
        }
    }
}

bool mca_pml_tm_bulk_add(mca_pml_tm_recv_request_t *req, const fab_rndv_t *rndv)
{
    mca_pml_tm_peer_t *record;

    if (!has_choice(req, rndv) || NULL == (record = mca_pml_tm_peer_record(req->core.peer))) {
        return false;
    }
    req->is_bulk = true;
    req->rma.remote = rndv->addr;
    req->rma.rkey = rndv->rkey;
    req->turn_next = NULL;
    req->core.phase = PML_TM_WAIT_TURN;
    if (NULL == record->bulk.first) {
        record->bulk.tail = &record->bulk.first;
    }
    *record->bulk.tail = req;
    record->bulk.tail = &req->turn_next;
    begin(&record->bulk);
    return true;
}

void mca_pml_tm_bulk_came(const fab_peer_t *peer, size_t bytes)
{
    mca_pml_tm_peer_t *record = (mca_pml_tm_peer_t *) peer->user[FAB_USER_PML];

    if (NULL != record && 0 != record->bulk.open) { /* the peer did not fail meanwhile */
        ended(&record->bulk, bytes);
        begin(&record->bulk);
    }
}

void mca_pml_tm_bulk_drop(const fab_peer_t *peer)
{
    mca_pml_tm_peer_t *record = (mca_pml_tm_peer_t *) peer->user[FAB_USER_PML];

    if (NULL != record) {
        record->bulk = (mca_pml_tm_bulk_t){.open = 0};
    }
}
