/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offers: puts and gets in shared memory that the target's CPU may do.
 *
 * If the target is inside MPI and polls, its CPU does one sooner than a system call of this process
 * would; if not, a message would wait for it.  So the message is one that can be withdrawn
 * (btl_fabric_wire.h).  If the target has not begun after some polls, the fabric does the
 * operation.  A target that ignores offers gets few.  Where processes yield there are none: the
 * next poll, which would withdraw one, may be milliseconds away, and osc/rdma may hold a lock
 * meanwhile.
 */
#include "btl_fabric_offer.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/fab_clock.h"

#include "btl_fabric_ways.h"

enum {
    /* polls in vain after which an offer is withdrawn: about the time of a system call */
    OFFER_POLLS = 24,
    /*
     * No offers while so many operations are under way: a strided put is many short ones, which the
     * system call does without a record.
     */
    OFFERS_MAX = 256,
    OFFERS_PER_POLL = 16,  /* that are withdrawn, each with a system call */
    OFFER_SURE = 2048,     /* bytes; up to so many an offer is not slower, if the target polls */
    PACE_SHIFT = 12,       /* up to 2^12 bytes: paces[0]; twice as many: paces[1] */
    OFFER_WINDOW = 262144, /* bytes; longer ones of a window are not offered */
};

/* ---- making and withdrawing --------------------------------------------- */

/* Bytes of the message that offers it. */
static size_t message_len(const mca_btl_fabric_call_t *call)
{
    return BTL_FABRIC_AM_PUT == call->am ? sizeof(btl_fabric_put_t) + call->len
                                         : sizeof(btl_fabric_get_t);
}

static bool may_offer(const mca_btl_fabric_call_t *call, const fab_region_t *region)
{
    fab_peer_t *peer = call->ep->peer;
    bool is_put = BTL_FABRIC_AM_PUT == call->am;

    return !mca_btl_fabric_is_yielding() && call->len <= mca_btl_fabric.params.offer_max &&
           message_len(call) <= peer->eager_max &&
           atomic_load_explicit(&mca_btl_fabric.outstanding, memory_order_relaxed) < OFFERS_MAX &&
           FAB_CAP_RING == (peer->caps & (FAB_CAP_RING | FAB_CAP_MAPPED)) &&
           0 != (peer->caps & (is_put ? FAB_CAP_PUT : FAB_CAP_GET)) && NULL == peer->pending &&
           fab_region_is_reachable(region, peer);
}

/* An offer was chosen: is there room, and is the target likely to see it? */
static bool can_offer(const mca_btl_fabric_call_t *call)
{
    fab_peer_t *peer = call->ep->peer;

    if (!mca_btl_fabric_is_attentive(&call->ep->offers)) {
        return false;
    }
    return fab_has_room(peer, 1, message_len(call));
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
    };
    TAILQ_INSERT_TAIL(&mca_btl_fabric.offers, op, offer.link);
    return room;
}

static int start(mca_btl_fabric_op_t *op, const fab_region_t *region)
{
    const mca_btl_fabric_call_t *call = &op->call;
    bool is_put = BTL_FABRIC_AM_PUT == call->am;
    btl_fabric_get_t get = {.key = call->atomic.key, .claim = BTL_FABRIC_OFFERED, .len = call->len};
    btl_fabric_put_t put = {.key = call->atomic.key, .claim = BTL_FABRIC_OFFERED};
    size_t len = message_len(call);
    char *room;

    op->id = fab_idmap_add(&mca_btl_fabric.ids, op);
    if (0 == op->id) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    mca_btl_fabric_op_wait(op);
    op->rma = mca_btl_fabric_rma_of(call, region);
    op->is_offered = true;
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

/* Has the target done nothing for long since the offer was made? */
static bool is_overdue(const mca_btl_fabric_op_t *op)
{
    unsigned polls = mca_btl_fabric.polls;

    return polls - op->offer.polls > OFFER_POLLS && polls - op->call.ep->heard > OFFER_POLLS;
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

/* The target does not do it, so this process does. */
static void do_here(mca_btl_fabric_op_t *op)
{
    bool is_put = BTL_FABRIC_AM_PUT == op->call.am;

    op->is_offered = false;
    mca_btl_fabric_op_unwait(op);
    if (is_put ? fab_put_now(&op->rma) : fab_get_now(&op->rma)) {
        mca_btl_fabric_op_done(op, OPAL_SUCCESS);
    } else if (!mca_btl_fabric_op_by_fabric(op) &&
               OPAL_SUCCESS != mca_btl_fabric_op_by_messages(op)) {
        mca_btl_fabric_op_done(op, OPAL_ERR_OUT_OF_RESOURCE);
    }
}

static void withdraw(mca_btl_fabric_op_t *op)
{
    mca_btl_fabric_ep_t *ep = op->call.ep;
    mca_btl_fabric_offer_t offer = op->offer;

    mca_btl_fabric_offer_end(op);
    if (FAB_PEER_UP != ep->peer->state) {
        return; /* its end will come */
    }
    if (is_taken(&offer, ep->peer)) {
        ep->offers.ignored = 0;
        return; /* the answer will come */
    }
    ep->offers.ignored++;
    mca_btl_fabric_try_again(&op->try);
    mca_btl_fabric.counters.withdrawn++;
    do_here(op);
}

void mca_btl_fabric_offer_declined(mca_btl_fabric_op_t *op)
{
    mca_btl_fabric.counters.declined++;
    do_here(op);
}

void mca_btl_fabric_offers_check(void)
{
    mca_btl_fabric_op_t *op;

    for (int n = 0; n < OFFERS_PER_POLL && NULL != (op = TAILQ_FIRST(&mca_btl_fabric.offers)) &&
                    is_overdue(op);
         n++) {
        withdraw(op);
    }
}

/* ---- which is faster? --------------------------------------------------- */

/* What is known of operations of this length; NULL: there is no memory for it. */
static mca_btl_fabric_pace_t *pace_of(const mca_btl_fabric_call_t *call, bool is_window)
{
    mca_btl_fabric_ep_t *ep = call->ep;
    mca_btl_fabric_pace_t *paces;
    unsigned i = 0, known;

    if (NULL == ep->paces) {
        ep->paces = calloc(4, sizeof(*ep->paces));
    }
    if (NULL == ep->paces) {
        return NULL;
    }
    while (i < BTL_FABRIC_PACES - 1 && call->len > (size_t) 1 << (PACE_SHIFT + i)) {
        i++;
    }
    paces = ep->paces[(BTL_FABRIC_AM_PUT == call->am) + 2 * is_window];
    if (OPAL_UNLIKELY(0 == paces[i].number)) {
        for (known = i; known > 0 && 0 == paces[known].number; known--) {
        }
        mca_btl_fabric_pace_begin(&paces[i], is_window, &paces[known]);
    }
    return &paces[i];
}

/* Is it one of several that are started together? */
static bool is_in_window(mca_btl_fabric_ep_t *ep)
{
    unsigned before = ep->started;

    ep->started = mca_btl_fabric.polls;
    return before == ep->started || 0 != ep->outstanding;
}

/* The way of the next operation, by the parameter or by measurement. */
static mca_btl_fabric_way_t choose(const mca_btl_fabric_call_t *call, mca_btl_fabric_try_t *try)
{
    bool is_window = is_in_window(call->ep);
    int choice = mca_btl_fabric.params.offer_choice;
    mca_btl_fabric_pace_t *pace;

    if (call->len <= OFFER_SURE) {
        return BTL_FABRIC_BY_OFFER;
    }
    if (is_window && call->len > OFFER_WINDOW) {
        return BTL_FABRIC_BY_CALL;
    }
    if (choice >= 0) {
        return (mca_btl_fabric_way_t) choice;
    }
    pace = pace_of(call, is_window);
    return NULL != pace ? mca_btl_fabric_pace_next(pace, try) : BTL_FABRIC_BY_CALL;
}

/* ---- an operation ------------------------------------------------------- */

/* Offer it. False: there is no memory. */
static bool offer(const mca_btl_fabric_call_t *call, const fab_region_t *region,
                  const mca_btl_fabric_try_t *try)
{
    mca_btl_fabric_op_t *op = mca_btl_fabric_op_new(call);

    if (NULL == op) {
        return false;
    }
    op->try = *try;
    if (OPAL_SUCCESS != start(op, region)) {
        mca_btl_fabric_op_cancel(op);
        return false;
    }
    return true;
}

bool mca_btl_fabric_offer(const mca_btl_fabric_call_t *call, const fab_region_t *region,
                          mca_btl_fabric_try_t *try)
{
    mca_btl_fabric_way_t way;

    try->pace = NULL;
    if (!may_offer(call, region)) {
        return false;
    }
    way = choose(call, try);
    if (BTL_FABRIC_BY_OFFER == way && !can_offer(call)) {
        try->pace = NULL; /* it tells nothing of offers */
        return false;
    }
    if (OPAL_UNLIKELY(NULL != try->pace)) {
        mca_btl_fabric_try_begin(try, fab_now_ns());
    }
    return BTL_FABRIC_BY_OFFER == way && offer(call, region, try);
}
