/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts, gets and atomic operations of other processes that came as messages: this process does them
 * in its memory.  Each address is checked against the registered memory that the key names.
 */
#include "btl_fabric_entry.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/fab_claim.h"

#include "btl_fabric_mem.h"

/* Send the answer. A failed peer needs none. */
static void answer(fab_peer_t *peer, uint64_t value, uint32_t id)
{
    fab_hdr_t hdr = fab_hdr(BTL_FABRIC_AM_DONE, value, id);

    if (!fab_send_short(peer, hdr, NULL, 0)) {
        (void) fab_post(peer, hdr, NULL, 0);
    }
}

static int run_count(fab_item_t *item, fab_peer_t *peer)
{
    mca_btl_fabric_ep_t *ep = FAB_CONTAINER_OF(item, mca_btl_fabric_ep_t, count);
    int rc = fab_item_send(peer, fab_hdr(BTL_FABRIC_AM_COUNT, 0, ep->num_counted), NULL, 0);

    if (OPAL_ERR_RESOURCE_BUSY == rc) {
        return rc;
    }
    ep->num_counted = 0;
    return OPAL_SUCCESS;
}

/* A counted message was done: say so at the end of this progress call, for all that it finds. */
static void count(fab_peer_t *peer)
{
    mca_btl_fabric_ep_t *ep = mca_btl_fabric_ep_of(peer);

    if (NULL == ep) {
        mca_btl_fabric_no_memory(peer);
    } else if (1 == ++ep->num_counted) {
        ep->count = (fab_item_t){.fn = run_count, .user = FAB_USER_BTL};
        fab_queue(peer, &ep->count);
    }
}

/* The registered memory that a claim word names. */
static uint32_t key_of(uint64_t claim)
{
    return (uint32_t) (claim >> 32);
}

/* Of a put or get.  In shared memory its origin may be changing it. */
static uint64_t claim_of(const fab_peer_t *peer, const void *data)
{
    uint64_t claim;

    if (0 != (peer->caps & FAB_CAP_RING)) {
        return atomic_load_explicit((const _Atomic uint64_t *) data, memory_order_relaxed);
    }
    memcpy(&claim, data, sizeof(claim));
    return claim;
}

/*
 * May this process do what the message asks for?  An offer, which its origin may be withdrawing,
 * has to be taken on first.
 */
static bool may_begin(fab_peer_t *peer, const void *data, uint64_t claim)
{
    if (BTL_FABRIC_ORDERED == (uint32_t) claim) {
        return true;
    }
    if (0 == (peer->caps & FAB_CAP_RING) || 0 != (claim & ~FAB_CLAIM_CLOSED & UINT32_MAX)) {
        mca_btl_fabric_bad_message(peer, "an invalid offer");
        return false;
    }
    return fab_claim_part((_Atomic uint64_t *) (uintptr_t) data, key_of(claim), 0);
}

/* ---- put ---------------------------------------------------------------- */

void mca_btl_fabric_on_put(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    uint64_t claim;

    (void) ctx;
    if (len < sizeof(btl_fabric_put_t)) {
        mca_btl_fabric_bad_message(peer, "a put without key");
        return;
    }
    claim = claim_of(peer, data);
    if (BTL_FABRIC_COUNTED != (uint32_t) claim && !may_begin(peer, data, claim)) {
        return;
    }
    len -= sizeof(btl_fabric_put_t);
    if (!mca_btl_fabric_mem_allows(key_of(claim), hdr.tag, len, MCA_BTL_REG_FLAG_REMOTE_WRITE)) {
        mca_btl_fabric_bad_message(peer, "a put to memory that is not registered for it");
        return;
    }
    memcpy((void *) (uintptr_t) hdr.tag, (const char *) data + sizeof(btl_fabric_put_t), len);
    if (BTL_FABRIC_COUNTED == (uint32_t) claim) {
        count(peer);
    } else if (0 != hdr.app_ctx) {
        answer(peer, 0, hdr.app_ctx);
    }
}

/* ---- get ---------------------------------------------------------------- */

/* The data of a get, on its way to the peer. */
typedef struct mca_btl_fabric_reply {
    fab_item_t item;
    LIST_ENTRY(mca_btl_fabric_reply) link; /* in mca_btl_fabric.replies */
    fab_out_t out;
    fab_peer_t *peer;
    uint64_t from;
    uint64_t len;
    uint64_t sent;
    uint32_t key; /* of the memory */
    uint32_t id;
} reply_t;

static void reply_free(reply_t *reply)
{
    LIST_REMOVE(reply, link);
    free(reply);
}

void mca_btl_fabric_replies_fini(void)
{
    while (!LIST_EMPTY(&mca_btl_fabric.replies)) {
        reply_free(LIST_FIRST(&mca_btl_fabric.replies));
    }
}

static bool may_read(fab_peer_t *peer, uint32_t key, uint64_t from, uint64_t len)
{
    if (!mca_btl_fabric_mem_allows(key, from, len, MCA_BTL_REG_FLAG_REMOTE_READ)) {
        mca_btl_fabric_bad_message(peer, "a get of memory that is not registered for it");
        return false;
    }
    return true;
}

/* A part that was sent from the memory is on its way: send the next one. */
static void reply_part_sent(fab_out_t *out, int status)
{
    reply_t *reply = FAB_CONTAINER_OF(out, reply_t, out);

    mca_btl_fabric.num_rma--;
    if (OPAL_SUCCESS == status && reply->sent < reply->len) {
        fab_queue(reply->peer, &reply->item);
    } else {
        reply_free(reply);
    }
}

/* Copy the next bytes to a message. OPAL_ERR_IN_PROCESS: there are more. */
static int send_copy(reply_t *reply)
{
    fab_peer_t *peer = reply->peer;
    const uint64_t left = reply->len - reply->sent;
    const size_t len = left < peer->eager_max ? (size_t) left : peer->eager_max;
    char *room = fab_item_reserve(peer, len);

    if (NULL == room) {
        return FAB_PEER_UP == peer->state ? OPAL_ERR_RESOURCE_BUSY : OPAL_ERR_UNREACH;
    }
    fab_copy_to(peer, room, (const char *) (uintptr_t) (reply->from + reply->sent), len);
    fab_commit(peer, fab_hdr(BTL_FABRIC_AM_DATA, reply->sent, reply->id), len);
    reply->sent += len;
    return reply->sent < reply->len ? OPAL_ERR_IN_PROCESS : OPAL_SUCCESS;
}

/* Send the next bytes without copying them; reply_part_sent() goes on. */
static int send_in_place(reply_t *reply)
{
    uint64_t left = reply->len - reply->sent;
    size_t len = left < FAB_FRAGMENT_LOCAL_MAX ? (size_t) left : FAB_FRAGMENT_LOCAL_MAX;
    int rc;

    reply->out = (fab_out_t){.buf = (const void *) (uintptr_t) (reply->from + reply->sent),
                             .len = len,
                             .complete = reply_part_sent};
    rc = fab_item_send_from(reply->peer, fab_hdr(BTL_FABRIC_AM_DATA, reply->sent, reply->id),
                            &reply->out);
    if (OPAL_SUCCESS == rc) {
        mca_btl_fabric.num_rma++;
        reply->sent += reply->out.len; /* maybe less than was asked for */
    }
    return rc;
}

/* Go on, if the memory is still registered: a peer that died does not wait for it. */
static int run_reply(fab_item_t *item, fab_peer_t *peer)
{
    reply_t *reply = (reply_t *) item;
    bool is_in_place = fab_peer_has_places(peer);
    int rc = OPAL_ERR_UNREACH;

    if (FAB_PEER_UP == peer->state &&
        may_read(peer, reply->key, reply->from + reply->sent, reply->len - reply->sent)) {
        rc = is_in_place ? send_in_place(reply) : send_copy(reply);
    }
    if (OPAL_ERR_RESOURCE_BUSY == rc || OPAL_ERR_IN_PROCESS == rc) {
        return rc;
    }
    if (OPAL_SUCCESS != rc || !is_in_place) {
        reply_free(reply);
    }
    return OPAL_SUCCESS;
}

void mca_btl_fabric_on_get(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    uint64_t claim, bytes;
    reply_t *reply;

    (void) ctx;
    if (sizeof(btl_fabric_get_t) != len) {
        mca_btl_fabric_bad_message(peer, "a get of a wrong length");
        return;
    }
    memcpy(&bytes, (const char *) data + offsetof(btl_fabric_get_t, len), sizeof(bytes));
    claim = claim_of(peer, data);
    if (!may_begin(peer, data, claim) || !may_read(peer, key_of(claim), hdr.tag, bytes)) {
        return;
    }
    if (bytes <= peer->eager_max &&
        OPAL_ERR_RESOURCE_BUSY != fab_send(peer, fab_hdr(BTL_FABRIC_AM_DATA, 0, hdr.app_ctx),
                                           (const void *) (uintptr_t) hdr.tag, bytes)) {
        return;
    }
    reply = malloc(sizeof(*reply));
    if (NULL == reply) {
        mca_btl_fabric_no_memory(peer);
        return;
    }
    *reply = (reply_t){.item = {.fn = run_reply, .user = FAB_USER_BTL},
                       .peer = peer,
                       .from = hdr.tag,
                       .len = bytes,
                       .key = key_of(claim),
                       .id = hdr.app_ctx};
    LIST_INSERT_HEAD(&mca_btl_fabric.replies, reply, link);
    fab_queue(peer, &reply->item);
}

/* ---- atomic operations -------------------------------------------------- */

/*
 * By atomic instructions, because processes of this host that have mapped the memory may use such
 * instructions on it at the same time.
 */
#define APPLY(type)                                                                                \
    static uint64_t apply_##type(type *at, const btl_fabric_atomic_t *atomic)                      \
    {                                                                                              \
        type operand = (type) atomic->operand;                                                     \
        type old = (type) atomic->compare;                                                         \
        switch (atomic->op) {                                                                      \
        case MCA_BTL_ATOMIC_ADD:                                                                   \
            return __atomic_fetch_add(at, operand, __ATOMIC_SEQ_CST);                              \
        case MCA_BTL_ATOMIC_AND:                                                                   \
            return __atomic_fetch_and(at, operand, __ATOMIC_SEQ_CST);                              \
        case MCA_BTL_ATOMIC_OR:                                                                    \
            return __atomic_fetch_or(at, operand, __ATOMIC_SEQ_CST);                               \
        case MCA_BTL_ATOMIC_XOR:                                                                   \
            return __atomic_fetch_xor(at, operand, __ATOMIC_SEQ_CST);                              \
        case MCA_BTL_ATOMIC_SWAP:                                                                  \
            return __atomic_exchange_n(at, operand, __ATOMIC_SEQ_CST);                             \
        default: /* BTL_FABRIC_CSWAP: on a mismatch old gets the value found */                    \
            (void) __atomic_compare_exchange_n(at, &old, operand, false, __ATOMIC_SEQ_CST,         \
                                               __ATOMIC_SEQ_CST);                                  \
            return old;                                                                            \
        }                                                                                          \
    }

APPLY(uint32_t)
APPLY(uint64_t)

void mca_btl_fabric_on_atomic(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                              size_t len)
{
    btl_fabric_atomic_t atomic;
    uint64_t old;

    (void) ctx;
    if (sizeof(atomic) != len) {
        mca_btl_fabric_bad_message(peer, "an atomic operation of a wrong length");
        return;
    }
    memcpy(&atomic, data, sizeof(atomic));
    if (!mca_btl_fabric_can_apply(atomic.op, atomic.len, hdr.tag)) {
        mca_btl_fabric_bad_message(peer, "an unknown atomic operation");
        return;
    }
    if (!mca_btl_fabric_mem_allows(atomic.key, hdr.tag, atomic.len,
                                   MCA_BTL_REG_FLAG_REMOTE_ATOMIC)) {
        mca_btl_fabric_bad_message(peer,
                                   "an atomic operation on memory that is not registered for it");
        return;
    }
    old = 8 == atomic.len ? apply_uint64_t((uint64_t *) (uintptr_t) hdr.tag, &atomic)
                          : apply_uint32_t((uint32_t *) (uintptr_t) hdr.tag, &atomic);
    if (0 != hdr.app_ctx) {
        answer(peer, old, hdr.app_ctx);
    } else {
        count(peer);
    }
}
