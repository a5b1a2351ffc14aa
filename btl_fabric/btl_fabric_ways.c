/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an operation is done: by messages, which the target's CPU answers, or by the fabric, where it
 * can reach the target's memory; in shared memory a message may be an offer, which the fabric
 * replaces.  What the fabric fails to do goes by messages.
 */
#include "btl_fabric_op.h"

#include <string.h>

#include "fabric/fab_claim.h"

/* ---- by messages -------------------------------------------------------- */

/* Is it to be counted?  If not, it has an id, which the answer names. */
static bool is_counted(const mca_btl_fabric_call_t *call)
{
    return 0 == (call->ep->peer->caps & FAB_CAP_RING) &&
           (BTL_FABRIC_AM_PUT == call->am ||
            (BTL_FABRIC_AM_ATOMIC == call->am && NULL == call->local));
}

/* Its message is about to be sent as one that is counted. */
static void op_count(mca_btl_fabric_op_t *op)
{
    STAILQ_INSERT_TAIL(&op->call.ep->counted, op, counted);
}

/* Send the next part of a put. OPAL_ERR_IN_PROCESS: there is more. */
static int send_put(mca_btl_fabric_op_t *op)
{
    fab_peer_t *peer = op->call.ep->peer;
    btl_fabric_put_t put = {.claim = fab_claim_word(op->call.atomic.key) | BTL_FABRIC_ORDERED};
    bool is_counted = 0 == op->id;
    size_t left = op->call.len - op->done;
    size_t max = peer->eager_max - sizeof(put);
    size_t len = left < max ? left : max;
    char *room = fab_item_reserve(peer, sizeof(put) + len);
    bool is_last = len == left;
    uint64_t at = op->call.remote + op->done;

    if (NULL == room) {
        return FAB_PEER_UP == peer->state ? OPAL_ERR_RESOURCE_BUSY : OPAL_ERR_UNREACH;
    }
    if (is_last && is_counted) {
        put.claim = fab_claim_word(op->call.atomic.key) | BTL_FABRIC_COUNTED;
        op_count(op);
    }
    memcpy(room, &put, sizeof(put));
    fab_copy_to(peer, room + sizeof(put), (const char *) op->call.local + op->done, len);
    op->done += len;
    /* on the self provider the answer comes within this call: op may be freed afterwards */
    fab_commit(peer, fab_hdr(BTL_FABRIC_AM_PUT, at, is_last ? op->id : 0), sizeof(put) + len);
    return is_last ? OPAL_SUCCESS : OPAL_ERR_IN_PROCESS;
}

static int send_atomic(mca_btl_fabric_op_t *op)
{
    const btl_fabric_atomic_t *atomic = &op->call.atomic;
    fab_hdr_t hdr = fab_hdr(BTL_FABRIC_AM_ATOMIC, op->call.remote, op->id);
    fab_peer_t *peer = op->call.ep->peer;
    bool is_counted = 0 == op->id;
    int rc;

    if (fab_send_short(peer, hdr, atomic, sizeof(*atomic))) {
        rc = OPAL_SUCCESS; /* op may be freed */
    } else {
        rc = fab_item_send(peer, hdr, atomic, sizeof(*atomic));
    }
    if (OPAL_SUCCESS == rc && is_counted) {
        op_count(op);
    }
    return rc;
}

/* Send the operation's next message. Returns what send_put() returns. */
static int send_op(mca_btl_fabric_op_t *op)
{
    btl_fabric_get_t get = {.claim = fab_claim_word(op->call.atomic.key) | BTL_FABRIC_ORDERED,
                            .len = op->call.len};
    fab_hdr_t hdr = fab_hdr(op->call.am, op->call.remote, op->id);
    fab_peer_t *peer = op->call.ep->peer;

    switch (op->call.am) {
    case BTL_FABRIC_AM_PUT:
        return send_put(op);
    case BTL_FABRIC_AM_GET:
        return fab_item_send(peer, hdr, &get, sizeof(get));
    default:
        return send_atomic(op);
    }
}

static int run_op(fab_item_t *item, fab_peer_t *peer)
{
    mca_btl_fabric_op_t *op = FAB_CONTAINER_OF(item, mca_btl_fabric_op_t, item);
    int rc;

    (void) peer;
    op->is_queued = false;
    rc = send_op(op);
    if (OPAL_ERR_RESOURCE_BUSY == rc || OPAL_ERR_IN_PROCESS == rc) {
        op->is_queued = true;
        return rc;
    }
    if (OPAL_SUCCESS != rc) {
        mca_btl_fabric_op_done(op, rc);
    }
    return OPAL_SUCCESS;
}

int mca_btl_fabric_op_by_messages(mca_btl_fabric_op_t *op)
{
    fab_peer_t *peer = op->call.ep->peer;

    if (!is_counted(&op->call)) {
        op->id = fab_idmap_add(&mca_btl_fabric.ids, op);
        if (0 == op->id) {
            return OPAL_ERR_OUT_OF_RESOURCE;
        }
    }
    mca_btl_fabric_op_wait(op);
    if (NULL != peer->pending || OPAL_SUCCESS != send_op(op)) {
        op->is_queued = true;
        op->item = (fab_item_t){.fn = run_op, .user = FAB_USER_BTL};
        fab_queue(peer, &op->item);
    }
    return OPAL_SUCCESS;
}

/* ---- by the fabric ------------------------------------------------------ */

/* It was begun, and cannot go on.  The layer above may not ask for its status: the peer fails. */
static void fail_for_memory(mca_btl_fabric_op_t *op)
{
    mca_btl_fabric_no_memory(op->call.ep->peer);
    mca_btl_fabric_op_done(op, OPAL_ERR_UNREACH);
}

static void rma_complete(fab_rma_t *rma, int status)
{
    mca_btl_fabric_op_t *op = FAB_CONTAINER_OF(rma, mca_btl_fabric_op_t, rma);

    mca_btl_fabric.num_rma--;
    if (OPAL_SUCCESS != status && OPAL_ERR_UNREACH != status) {
        mca_btl_fabric.counters.rma_failed++;
        if (OPAL_SUCCESS != mca_btl_fabric_op_by_messages(op)) {
            fail_for_memory(op);
        }
        return;
    }
    mca_btl_fabric_op_done(op, status);
}

/* What the fabric needs to do it; region: the target's memory. */
static fab_rma_t rma_of(const mca_btl_fabric_call_t *call, const fab_region_t *region)
{
    return (fab_rma_t){.peer = call->ep->peer,
                       .local = call->local,
                       .remote = call->remote,
                       .len = call->len,
                       .rkey = region->rkey,
                       .complete = rma_complete};
}

/* The fabric is to do it; op->rma is set. False: it cannot. */
static bool by_fabric(mca_btl_fabric_op_t *op)
{
    bool is_put = BTL_FABRIC_AM_PUT == op->call.am;

    if (OPAL_SUCCESS != (is_put ? fab_put(&op->rma) : fab_get(&op->rma))) {
        mca_btl_fabric.counters.no_rma++;
        return false;
    }
    mca_btl_fabric.num_rma++;
    return true;
}

bool mca_btl_fabric_op_start_rma(mca_btl_fabric_op_t *op, const fab_region_t *region)
{
    fab_peer_t *peer = op->call.ep->peer;
    bool is_put = BTL_FABRIC_AM_PUT == op->call.am;

    if (0 == (peer->caps & (is_put ? FAB_CAP_PUT : FAB_CAP_GET))) {
        mca_btl_fabric.counters.no_rma++;
        return false;
    }
    if (!fab_region_is_reachable(region, peer)) {
        mca_btl_fabric.counters.not_exposed++;
        return false;
    }
    op->rma = rma_of(&op->call, region);
    return by_fabric(op);
}

bool mca_btl_fabric_do_now(const mca_btl_fabric_call_t *call, const fab_region_t *region)
{
    bool is_put = BTL_FABRIC_AM_PUT == call->am, is_done = false;

    if (fab_region_is_reachable(region, call->ep->peer)) {
        fab_rma_t rma = rma_of(call, region);
        is_done = is_put ? fab_put_now(&rma) : fab_get_now(&rma);
    }
    mca_btl_fabric.counters.rma += is_done;
    return is_done;
}

/* ---- offers ------------------------------------------------------------- */

/*
 * If the target is inside MPI and polls, its CPU does one sooner than a system call of this
 * process would, if it is short (doc/btl.md has the times); if not, a message would wait for it.
 * So the message is one that can be withdrawn (fab_claim.h).  If the target has not begun
 * after some polls, the fabric does the operation.  A target that ignores offers gets few.  Where
 * processes yield there are none: the next poll, which would withdraw one, may be milliseconds
 * away, and osc/rdma may hold a lock meanwhile.
 */
enum {
    /* polls without its end after which an offer is withdrawn: about the time of a system call */
    OFFER_POLLS = 24,
    /*
     * No offers while so many operations are under way: a strided put is many short ones, which the
     * system call does without a record.
     */
    OFFERS_MAX = 256,
    /* bytes of the longest: what a target that polls copies sooner than a system call would */
    OFFER_MAX = 8192,
    OFFERS_PER_POLL = 16, /* that are withdrawn, each with a system call */
    TRUST = 4,            /* a target that was silent so many times in a row ... */
    TRUST_SKIPPED = 64,   /* ... gets an offer only of one in so many operations */
};

/* Bytes of the message that offers it. */
static size_t message_len(const mca_btl_fabric_call_t *call)
{
    return BTL_FABRIC_AM_PUT == call->am ? sizeof(btl_fabric_put_t) + call->len
                                         : sizeof(btl_fabric_get_t);
}

/* Can it be offered, is there room, and is the target likely to see it? */
static bool may_offer(const mca_btl_fabric_call_t *call, const fab_region_t *region)
{
    fab_peer_t *peer = call->ep->peer;
    bool is_put = BTL_FABRIC_AM_PUT == call->am;

    return !mca_btl_fabric_is_yielding() && call->len <= OFFER_MAX &&
           message_len(call) <= peer->eager_max &&
           atomic_load_explicit(&mca_btl_fabric.outstanding, memory_order_relaxed) < OFFERS_MAX &&
           FAB_CAP_RING == (peer->caps & (FAB_CAP_RING | FAB_CAP_MAPPED)) &&
           0 != (peer->caps & (is_put ? FAB_CAP_PUT : FAB_CAP_GET)) && NULL == peer->pending &&
           fab_region_is_reachable(region, peer) &&
           (call->ep->ignored < TRUST || 0 == ++call->ep->skipped % TRUST_SKIPPED) &&
           fab_has_room(peer, 1, message_len(call));
}

/* Begin the message of an offer, for which there is room. */
static void *reserve_offer(mca_btl_fabric_op_t *op, size_t len)
{
    fab_peer_t *peer = op->call.ep->peer;
    char *room = fab_reserve(peer, len);

    op->offer = (mca_btl_fabric_offer_t){
        .claim = (_Atomic uint64_t *) (uintptr_t) room,
        .position = fab_ring_position(peer),
        .polls = mca_btl_fabric.polls,
    };
    TAILQ_INSERT_TAIL(&mca_btl_fabric.offers, op, offer.link);
    return room;
}

static int make_offer(mca_btl_fabric_op_t *op, const fab_region_t *region)
{
    const mca_btl_fabric_call_t *call = &op->call;
    bool is_put = BTL_FABRIC_AM_PUT == call->am;
    btl_fabric_get_t get = {.claim = fab_claim_word(call->atomic.key), .len = call->len};
    btl_fabric_put_t put = {.claim = get.claim};
    size_t len = message_len(call);
    char *room;

    op->id = fab_idmap_add(&mca_btl_fabric.ids, op);
    if (0 == op->id) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    mca_btl_fabric_op_wait(op);
    op->rma = rma_of(call, region);
    room = reserve_offer(op, len);
    if (is_put) {
        memcpy(room, &put, sizeof(put));
        fab_copy_to(call->ep->peer, room + sizeof(put), call->local, call->len);
    } else {
        memcpy(room, &get, sizeof(get));
    }
    fab_commit(call->ep->peer, fab_hdr(call->am, call->remote, op->id), len);
    mca_btl_fabric.counters.offered++;
    return OPAL_SUCCESS;
}

/* The target does not do it, so this process does. */
static void do_here(mca_btl_fabric_op_t *op)
{
    bool is_put = BTL_FABRIC_AM_PUT == op->call.am;

    mca_btl_fabric_op_unwait(op);
    if (is_put ? fab_put_now(&op->rma) : fab_get_now(&op->rma)) {
        mca_btl_fabric_op_done(op, OPAL_SUCCESS);
    } else if (!by_fabric(op) && OPAL_SUCCESS != mca_btl_fabric_op_by_messages(op)) {
        fail_for_memory(op);
    }
}

static void withdraw(mca_btl_fabric_op_t *op)
{
    mca_btl_fabric_ep_t *ep = op->call.ep;
    mca_btl_fabric_offer_t offer = op->offer;
    uint32_t parts;

    mca_btl_fabric_offer_end(op);
    if (FAB_PEER_UP != ep->peer->state) {
        return; /* its end will come */
    }
    if (fab_ring_is_reused(ep->peer, offer.position) ||
        !fab_claim_close(offer.claim, op->call.atomic.key, &parts) || 0 != parts) {
        ep->ignored = 0;
        return; /* the target has begun, or the message is gone there: the answer will come */
    }
    ep->ignored++;
    mca_btl_fabric.counters.withdrawn++;
    do_here(op);
}

void mca_btl_fabric_offers_check(void)
{
    const unsigned polls = mca_btl_fabric.polls;
    mca_btl_fabric_op_t *op;

    for (int n = 0;
         n < OFFERS_PER_POLL && NULL != (op = TAILQ_FIRST(&mca_btl_fabric.offers)) &&
         polls - op->offer.polls > OFFER_POLLS && polls - op->call.ep->heard > OFFER_POLLS;
         n++) {
        withdraw(op); /* the target has done nothing for long since it was made */
    }
}

bool mca_btl_fabric_offer(const mca_btl_fabric_call_t *call, const fab_region_t *region)
{
    mca_btl_fabric_op_t *op;

    if (!may_offer(call, region)) {
        return false;
    }
    op = mca_btl_fabric_op_new(call);
    if (NULL != op && OPAL_SUCCESS != make_offer(op, region)) {
        mca_btl_fabric_op_cancel(op);
        op = NULL;
    }
    return NULL != op;
}
