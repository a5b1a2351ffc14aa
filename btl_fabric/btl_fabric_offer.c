/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offers: short puts and gets in shared memory that the target's CPU may do.
 *
 * If the target is inside MPI and polls, its CPU does one sooner than a system call of this process
 * would; if not, a message would wait for it.  So the message is one that can be withdrawn
 * (btl_fabric_wire.h).  If the target has not begun after some polls, the fabric does the
 * operation.  A target that ignores offers gets few.
 */
#include "btl_fabric_op.h"

#include <string.h>

#include "fabric/fab_clock.h"

enum {
    /* polls in vain after which an offer is withdrawn: about the time of a system call */
    OFFER_POLLS = 24,
    /*
     * No offers while so many operations are under way: a strided put is many short ones, which the
     * system call does without a record.
     */
    OFFERS_MAX = 256,
    OFFERS_PER_POLL = 16,  /* that are withdrawn, each with a system call */
    OFFER_SURE = 2048,     /* bytes; up to so many an offer is not slower than a system call */
    PACE_SHIFT = 12,       /* up to 2^12 bytes: paces[0]; twice as many: paces[1] */
    PACE_FIRST = 512,      /* of the first so many operations ... */
    PACE_EVERY_FIRST = 32, /* ... one in so many is timed each way, ... */
    PACE_EVERY = 256,      /* ... and then one in so many */
    PACE_MAX = 10000,      /* nanoseconds: longer times count as this */
};

/* ---- making and withdrawing --------------------------------------------- */

static bool may_offer(const mca_btl_fabric_call_t *call, const fab_region_t *region)
{
    fab_peer_t *peer = call->ep->peer;
    bool is_put = BTL_FABRIC_AM_PUT == call->am;
    size_t len = is_put ? sizeof(btl_fabric_put_t) + call->len : sizeof(btl_fabric_get_t);

    return call->len <= mca_btl_fabric.params.offer_max && len <= peer->eager_max &&
           mca_btl_fabric.outstanding < OFFERS_MAX &&
           FAB_CAP_RING == (peer->caps & (FAB_CAP_RING | FAB_CAP_MAPPED)) &&
           0 != (peer->caps & (is_put ? FAB_CAP_PUT : FAB_CAP_GET)) && NULL == peer->pending &&
           fab_region_is_reachable(region, peer) &&
           mca_btl_fabric_is_attentive(&call->ep->offers) && fab_has_room(peer, 1, len);
}

/* Begin the message of an offer, for which there is room. */
static void *reserve_offer(mca_btl_fabric_op_t *op, size_t len)
{
    fab_peer_t *peer = op->call.ep->peer;
    char *room = fab_reserve(peer, len);

    op->offer = (mca_btl_fabric_offer_t){
        .claim = (_Atomic uint32_t *) (room + BTL_FABRIC_CLAIM_AT),
        .position = fab_ring_position(peer),
        .polls = mca_btl_fabric.polls,
        .prev = mca_btl_fabric.offers_tail,
    };
    *op->offer.prev = op;
    mca_btl_fabric.offers_tail = &op->offer.next;
    return room;
}

void mca_btl_fabric_offer_end(mca_btl_fabric_op_t *op)
{
    *op->offer.prev = op->offer.next;
    if (NULL != op->offer.next) {
        op->offer.next->offer.prev = op->offer.prev;
    } else {
        mca_btl_fabric.offers_tail = op->offer.prev;
    }
    op->offer.claim = NULL;
}

static int start(mca_btl_fabric_op_t *op, const fab_region_t *region)
{
    const mca_btl_fabric_call_t *call = &op->call;
    bool is_put = BTL_FABRIC_AM_PUT == call->am;
    btl_fabric_get_t get = {.key = call->atomic.key, .claim = BTL_FABRIC_OFFERED, .len = call->len};
    btl_fabric_put_t put = {.key = call->atomic.key, .claim = BTL_FABRIC_OFFERED};
    size_t len = is_put ? sizeof(put) + call->len : sizeof(get);
    char *room;

    op->id = fab_idmap_add(&mca_btl_fabric.ids, op);
    if (0 == op->id) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    mca_btl_fabric_op_wait(op);
    op->rma = mca_btl_fabric_rma_of(call, region);
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

/* Has the target begun, or does it no longer see the message?  If not, it will not begin. */
static bool is_taken(const mca_btl_fabric_offer_t *offer, const fab_peer_t *peer)
{
    uint32_t offered = BTL_FABRIC_OFFERED;

    return fab_ring_is_reused(peer, offer->position) ||
           /* acq_rel: pairs with the exchange in may_begin() */
           !atomic_compare_exchange_strong_explicit(offer->claim, &offered, BTL_FABRIC_WITHDRAWN,
                                                    memory_order_acq_rel, memory_order_relaxed);
}

static void withdraw(mca_btl_fabric_op_t *op)
{
    mca_btl_fabric_ep_t *ep = op->call.ep;
    mca_btl_fabric_offer_t offer = op->offer;
    bool is_put = BTL_FABRIC_AM_PUT == op->call.am;

    mca_btl_fabric_offer_end(op);
    if (FAB_PEER_UP != ep->peer->state) {
        return; /* its end will come */
    }
    if (is_taken(&offer, ep->peer)) {
        ep->offers.ignored = 0;
        return; /* the answer will come */
    }
    ep->offers.ignored++;
    mca_btl_fabric_op_unwait(op);
    mca_btl_fabric.counters.withdrawn++;
    if (is_put ? fab_put_now(&op->rma) : fab_get_now(&op->rma)) {
        mca_btl_fabric_op_done(op, OPAL_SUCCESS);
    } else if (OPAL_SUCCESS != mca_btl_fabric_op_by_messages(op)) {
        mca_btl_fabric_op_done(op, OPAL_ERR_OUT_OF_RESOURCE);
    }
}

void mca_btl_fabric_offers_check(void)
{
    mca_btl_fabric_op_t *op;

    for (int n = 0; n < OFFERS_PER_POLL && NULL != (op = mca_btl_fabric.offers) &&
                    mca_btl_fabric.polls - op->offer.polls > OFFER_POLLS;
         n++) {
        withdraw(op);
    }
}

/* ---- which is faster? --------------------------------------------------- */

/*
 * Up to 2 KiB an offer is not slower, if the target polls.  Above, that depends on how far apart
 * the two processors are: the data of an offer goes through the caches of both, line by line (here
 * 8 KiB took 1.4 us on two threads of one core and 5 us on distant cores; the system call took
 * 2.2).  So now and then an operation is timed each way.
 */
static mca_btl_fabric_pace_t *pace_of(const mca_btl_fabric_call_t *call)
{
    unsigned i = 0;

    if (call->len <= OFFER_SURE) {
        return NULL;
    }
    while (i < BTL_FABRIC_PACES - 1 && call->len > (size_t) 1 << (PACE_SHIFT + i)) {
        i++;
    }
    return &call->ep->paces[BTL_FABRIC_AM_PUT == call->am][i];
}

/* Of *pace, the average of the latest times is kept: single ones vary by a factor. */
void mca_btl_fabric_pace_note(uint32_t *pace, uint64_t begin)
{
    uint64_t time = fab_now_ns() - begin;

    time = time < PACE_MAX ? time : PACE_MAX;
    *pace = 0 == *pace ? (uint32_t) time : *pace - *pace / 4 + (uint32_t) time / 4;
}

/*
 * Is the next operation of this pace to be an offer?  *is_timed: it is to be timed.  It takes
 * longer if the one before it was done the other way, so two are done each way, and the second is
 * timed.
 */
static bool pace_prefers_offer(mca_btl_fabric_pace_t *pace, bool *is_timed)
{
    uint32_t count = pace->count++;
    uint32_t turn = count % (count < PACE_FIRST ? PACE_EVERY_FIRST : PACE_EVERY);

    *is_timed = 1 == turn || 3 == turn;
    return turn < 4 ? turn < 2 : pace->offer <= pace->call;
}

/* An offer was begun: poll until it is done, to see how long that takes.  Lock held. */
static void pace_wait(const mca_btl_fabric_op_t *op, mca_btl_fabric_pace_t *pace, uint64_t begin)
{
    mca_btl_fabric.timed = op;
    do {
        (void) fab_poll(mca_btl_fabric.fab);
    } while (NULL != mca_btl_fabric.timed && fab_now_ns() - begin < PACE_MAX);
    mca_btl_fabric.timed = NULL;
    mca_btl_fabric_pace_note(&pace->offer, begin);
}

/* ---- an operation ------------------------------------------------------- */

bool mca_btl_fabric_offer(const mca_btl_fabric_call_t *call, const fab_region_t *region,
                          uint32_t **timed)
{
    mca_btl_fabric_pace_t *pace = pace_of(call);
    bool is_timed = false;
    mca_btl_fabric_op_t *op;
    uint64_t begin;

    *timed = NULL;
    if (!may_offer(call, region)) {
        return false;
    }
    if (NULL != pace && !pace_prefers_offer(pace, &is_timed)) {
        *timed = is_timed ? &pace->call : NULL;
        return false;
    }
    begin = is_timed ? fab_now_ns() : 0;
    op = mca_btl_fabric_op_new(call);
    if (NULL == op) {
        return false;
    }
    if (OPAL_SUCCESS != start(op, region)) {
        mca_btl_fabric_op_cancel(op);
        return false;
    }
    if (is_timed) {
        pace_wait(op, pace, begin);
    }
    return true;
}
