/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data that was asked for and does not come; the protocol: pml_tm_asked.h.
 */
#include "pml_tm_asked.h"

#include <stdlib.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_inl.h"

#include "pml_tm_recv.h"

/* A sender that polls answers within a few microseconds. */
enum { ASKED_WAIT_NS = 100000 };

struct mca_pml_tm_taken {
    mca_pml_tm_core_t core; /* in the id map; it has no base request */
    mca_pml_tm_taken_t *next;
    size_t came; /* bytes that the sender has sent */
    size_t wanted;
};

static void append(mca_pml_tm_recv_request_t *req)
{
    if (NULL == mca_pml_tm.asked) {
        mca_pml_tm.asked_tail = &mca_pml_tm.asked;
    }
    req->turn_next = NULL;
    req->turn_prev = mca_pml_tm.asked_tail;
    *mca_pml_tm.asked_tail = req;
    mca_pml_tm.asked_tail = &req->turn_next;
}

static void unlink_asked(mca_pml_tm_recv_request_t *req)
{
    *req->turn_prev = req->turn_next;
    if (NULL != req->turn_next) {
        req->turn_next->turn_prev = req->turn_prev;
    } else {
        mca_pml_tm.asked_tail = req->turn_prev;
    }
}

void mca_pml_tm_asked_add(mca_pml_tm_recv_request_t *req)
{
    req->is_asked = true;
    req->asked_seen = fab_ring_taken(req->core.peer);
    req->asked_since = fab_now_ns();
    append(req);
}

void mca_pml_tm_asked_remove(mca_pml_tm_recv_request_t *req)
{
    unlink_asked(req);
    req->is_asked = false;
}

/* ---- reading ------------------------------------------------------------ */

/* All of it was read: its id is for what the sender may still send. */
static void take(mca_pml_tm_recv_request_t *req, mca_pml_tm_taken_t *taken)
{
    *taken = (mca_pml_tm_taken_t){
        .core = {.peer = req->core.peer,
                 .id = req->core.id,
                 .state = PML_TM_ACTIVE,
                 .phase = PML_TM_TAKEN},
        .next = mca_pml_tm.taken,
        .came = req->came,
        .wanted = req->wanted,
    };
    mca_pml_tm.taken = taken;
    fab_idmap_replace(&mca_pml_tm.ids, req->core.id, &taken->core);
    /* its sender needs no answer if it has failed */
    (void) fab_post(req->core.peer, fab_hdr(FAB_AM_FIN, req->core.id, req->core.remote_id), NULL,
                    0);
    req->core.id = 0;
    ++mca_pml_tm.counters.pipeline_taken;
    mca_pml_tm_recv_arrived(req);
}

/* Read the next part.  False: it cannot be read. */
static bool read_part(mca_pml_tm_recv_request_t *req)
{
    size_t left = req->wanted - req->received;
    fab_rma_t get = {
        .peer = req->core.peer,
        .local = req->data + req->received,
        .remote = req->rma.remote + req->received,
        .len = left < FAB_RMA_NOW_LOCKED ? left : FAB_RMA_NOW_LOCKED,
        .rkey = req->rma.rkey,
    };

    if (!fab_get_now(&get) && 0 == get.done) {
        return false;
    }
    /* acquire: pairs with the release in data_item(); the ring is looked at after the memory */
    atomic_thread_fence(memory_order_acquire);
    if (fab_ring_is_empty(req->core.peer)) {
        req->received += get.done;
    }
    return true;
}

/* Nothing has come for long: read.  False: it cannot be read. */
static bool read_on(mca_pml_tm_recv_request_t *req)
{
    mca_pml_tm_taken_t *taken = malloc(sizeof(*taken)); /* before the part that may be the last */

    if (NULL == taken || !read_part(req)) {
        free(taken);
        return false;
    }
    if (req->received == req->wanted) {
        take(req, taken);
    } else {
        free(taken);
    }
    return true;
}

/* Has its sender sent nothing at all for long? */
static bool is_silent(mca_pml_tm_recv_request_t *req, uint64_t now)
{
    const fab_peer_t *peer = req->core.peer;
    uint64_t taken = fab_ring_taken(peer);

    if (req->asked_seen != taken || !fab_ring_is_empty(peer)) {
        req->asked_seen = taken;
        req->asked_since = now;
    }
    return now - req->asked_since >= ASKED_WAIT_NS && FAB_PEER_UP == peer->state;
}

void mca_pml_tm_asked_check(void)
{
    mca_pml_tm_recv_request_t *req = mca_pml_tm.asked;

    if (!is_silent(req, fab_now_ns())) {
        unlink_asked(req); /* one at a time: there may be many */
        append(req);
    } else if (!read_on(req) && req->is_asked) { /* not if the peer failed in it: it was dropped */
        mca_pml_tm_asked_remove(req);
    }
}

/* ---- what comes later --------------------------------------------------- */

static void taken_free(mca_pml_tm_taken_t *taken)
{
    mca_pml_tm_taken_t **link = &mca_pml_tm.taken;

    while (*link != taken) {
        link = &(*link)->next;
    }
    *link = taken->next;
    fab_idmap_remove(&mca_pml_tm.ids, taken->core.id);
    free(taken);
}

void mca_pml_tm_taken_data(mca_pml_tm_core_t *core, fab_hdr_t hdr, size_t len)
{
    mca_pml_tm_taken_t *taken = (mca_pml_tm_taken_t *) core;

    if (PML_TM_STOPPED == hdr.tag && 0 == len) {
        taken_free(taken);
        return;
    }
    if (hdr.tag != taken->came || 0 == len || len > taken->wanted - taken->came) {
        mca_pml_tm_bad_message(core->peer, "data out of order, or more than requested");
        return;
    }
    taken->came += len;
    if (taken->came == taken->wanted) {
        taken_free(taken);
    }
}

void mca_pml_tm_asked_drop(const fab_peer_t *peer)
{
    mca_pml_tm_recv_request_t *req, *next_req;
    mca_pml_tm_taken_t *taken, *next;

    for (req = mca_pml_tm.asked; NULL != req; req = next_req) {
        next_req = req->turn_next;
        if (NULL == peer || peer == req->core.peer) {
            mca_pml_tm_asked_remove(req);
        }
    }
    for (taken = mca_pml_tm.taken; NULL != taken; taken = next) {
        next = taken->next;
        if (NULL == peer || peer == taken->core.peer) {
            taken_free(taken);
        }
    }
}
