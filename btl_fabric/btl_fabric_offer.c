/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offers: puts and gets in shared memory that the target's CPU may do.
 *
 * If the target is inside MPI and polls, its CPU does one sooner than a system call of this
 * process would, if it is short (doc/btl.md has the times); if not, a message would wait for it.
 * So the message is one that can be withdrawn (btl_fabric_wire.h).  If the target has not begun
 * after some polls, the fabric does the operation.  A target that ignores offers gets few.  Where
 * processes yield there are none: the next poll, which would withdraw one, may be milliseconds
 * away, and osc/rdma may hold a lock meanwhile.
 */
#include "btl_fabric_offer.h"

#include <string.h>

#include "btl_fabric_ways.h"

enum {
    /* polls in vain after which an offer is withdrawn: about the time of a system call */
    OFFER_POLLS = 24,
    /*
     * No offers while so many operations are under way: a strided put is many short ones, which the
     * system call does without a record.
     */
    OFFERS_MAX = 256,
    OFFERS_PER_POLL = 16, /* that are withdrawn, each with a system call */
};

/* ---- making and withdrawing --------------------------------------------- */

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

    return !mca_btl_fabric_is_yielding() && call->len <= mca_btl_fabric.params.offer_max &&
           message_len(call) <= peer->eager_max &&
           atomic_load_explicit(&mca_btl_fabric.outstanding, memory_order_relaxed) < OFFERS_MAX &&
           FAB_CAP_RING == (peer->caps & (FAB_CAP_RING | FAB_CAP_MAPPED)) &&
           0 != (peer->caps & (is_put ? FAB_CAP_PUT : FAB_CAP_GET)) && NULL == peer->pending &&
           fab_region_is_reachable(region, peer) && mca_btl_fabric_is_attentive(call->ep) &&
           fab_has_room(peer, 1, message_len(call));
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
        ep->ignored = 0;
        return; /* the answer will come */
    }
    ep->ignored++;
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

/* ---- an operation ------------------------------------------------------- */

bool mca_btl_fabric_offer(const mca_btl_fabric_call_t *call, const fab_region_t *region)
{
    mca_btl_fabric_op_t *op;

    if (!may_offer(call, region)) {
        return false;
    }
    op = mca_btl_fabric_op_new(call);
    if (NULL != op && OPAL_SUCCESS != start(op, region)) {
        mca_btl_fabric_op_cancel(op);
        op = NULL;
    }
    return NULL != op;
}
