/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives messages inline, by the rings of peers that are reached by shm; pml_tm and
 * btl_fabric include this.  Which peers these are says FAB_CAP_RING.
 */
#ifndef FAB_SHM_INL_H
#define FAB_SHM_INL_H

#include "fabric/fab.h"
#include "fabric/fab_copy.h"
#include "fabric/fab_counters.h"
#include "fabric/fab_cpus.h"
#include "shm/shm_ring_inl.h"
#include "shm/shm_ways.h"

/*
 * As fab_send(), for at most FAB_SHORT_MAX bytes. False: nothing was done; fab_send() sends the
 * message or says why it cannot.
 */
#define FAB_SHORT_MAX FAB_SHM_SHORT_MAX

static inline __attribute__((always_inline)) bool fab_send_short(fab_peer_t *peer, fab_hdr_t hdr,
                                                                 const void *buf, size_t len)
{
    if (__builtin_expect(0 == (peer->caps & FAB_CAP_RING) || NULL != peer->pending, 0) ||
        __builtin_expect(!fab_shm_tx_send_short((fab_shm_tx_t *) peer->ep, hdr, buf, len), 0)) {
        return false;
    }
    fab_counters.shm_msgs_sent++;
    return true;
}

/* As fab_send_short(), for any message that the peer takes in one piece. */
static inline bool fab_send_any(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    fab_shm_pair_t *pair = peer->ep;

    if (0 == (peer->caps & FAB_CAP_RING) || NULL != peer->pending || len > peer->eager_max ||
        !fab_shm_tx_send_any(&pair->tx, hdr, buf, len)) {
        return false;
    }
    fab_shm_tx_wrap_early(&pair->tx, pair->rx, fab_shm_num_slots(len));
    fab_counters.shm_msgs_sent++;
    return true;
}

/*
 * fab_reserve() and fab_commit() of at most FAB_SHORT_MAX bytes. NULL: fab_reserve() finds room or
 * says why it cannot.
 */
static inline void *fab_reserve_short(fab_peer_t *peer)
{
    fab_shm_tx_t *tx = peer->ep;

    if (__builtin_expect(0 == (peer->caps & FAB_CAP_RING) || NULL != peer->pending, 0) ||
        __builtin_expect(!fab_shm_tx_has_room(tx, 1), 0)) {
        return NULL;
    }
    return fab_shm_payload(fab_shm_tx_slot(tx));
}

static inline void fab_commit_short(fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    fab_shm_pair_t *pair = peer->ep;

    fab_shm_tx_commit(&pair->tx, fab_shm_tx_slot(&pair->tx), hdr, len, 1);
    fab_shm_tx_fetch_ahead(&pair->tx, pair->rx, 1);
    fab_counters.shm_msgs_sent++;
}

/* As fab_reserve_short(), for as much as the peer takes in one piece. */
static inline void *fab_reserve_any(fab_peer_t *peer, size_t len)
{
    fab_shm_slot_t *slot;

    if (0 == (peer->caps & FAB_CAP_RING) || NULL != peer->pending || len > peer->eager_max) {
        return NULL;
    }
    slot = fab_shm_tx_reserve((fab_shm_tx_t *) peer->ep, fab_shm_num_slots(len));
    return __builtin_expect(NULL == slot, 0) ? NULL : fab_shm_payload(slot);
}

static inline void fab_commit_any(fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    const uint32_t n = fab_shm_num_slots(len);
    fab_shm_pair_t *pair = peer->ep;

    fab_shm_tx_commit(&pair->tx, fab_shm_tx_slot(&pair->tx), hdr, len, n);
    fab_shm_tx_wrap_early(&pair->tx, pair->rx, n);
    fab_shm_tx_fetch_ahead(&pair->tx, pair->rx, n);
    fab_counters.shm_msgs_sent++;
}

/* Copy to the room of a message to the peer. */
static inline void fab_copy_to(fab_peer_t *peer, void *room, const void *from, size_t len)
{
    if (0 != (peer->caps & FAB_CAP_RING)) {
        fab_shm_tx_copy((fab_shm_tx_t *) peer->ep, room, from, len);
    } else {
        fab_copy(room, from, len);
    }
}

/*
 * The ring that the peer's messages come by, to take some out of it.  NULL: there is none yet, it
 * is cold, or the peer is not UP.
 */
static inline fab_shm_rx_t *fab_ring_from(const fab_peer_t *peer)
{
    if (__builtin_expect(0 == (peer->caps & FAB_CAP_RING) || FAB_PEER_UP != peer->state, 0)) {
        return NULL;
    }
    return ((const fab_shm_pair_t *) peer->ep)->rx;
}

/*
 * Take the next message of the peer, past its handler: if it is there, or comes while it is looked
 * for so many times (with pauses in between, or without), is FAB_AM_EAGER with no app_ctx, has at
 * most *len bytes and no more than FAB_SHORT_MAX, and a tag of which the bits of mask are those of
 * want. Then *len bytes of it are at buf. False: nothing was done.
 */
static inline __attribute__((always_inline)) bool fab_recv_short(fab_peer_t *peer, unsigned looks,
                                                                 bool is_pausing, uint64_t want,
                                                                 uint64_t mask, void *buf,
                                                                 size_t *len, uint64_t *tag)
{
    fab_shm_rx_t *rx = fab_ring_from(peer);

    if (__builtin_expect(NULL == rx, 0)) {
        return false;
    }
    while (!fab_shm_rx_is_ready(rx)) {
        if (0 == --looks) {
            return false;
        }
        fab_shm_rx_fetch_ahead(rx);
        if (is_pausing) {
            fab_cpu_pause();
        }
    }
    if (!fab_shm_rx_take_short(rx, FAB_AM_EAGER, want, mask, buf, len, tag)) {
        return false;
    }
    fab_counters.shm_msgs_received++;
    return true;
}

/* As fab_recv_short(), for a message of any length that is there. */
static inline bool fab_recv_any(fab_peer_t *peer, uint64_t want, uint64_t mask, void *buf,
                                size_t *len, uint64_t *tag)
{
    fab_shm_rx_t *rx = fab_ring_from(peer);

    if (NULL == rx || !fab_shm_rx_take_any(rx, FAB_AM_EAGER, want, mask, buf, len, tag)) {
        return false;
    }
    fab_counters.shm_msgs_received++;
    return true;
}

/* As fab_recv_any(), but the message stays: *len and *tag are set. */
static inline bool fab_peek_any(fab_peer_t *peer, uint64_t want, uint64_t mask, size_t *len,
                                uint64_t *tag)
{
    fab_shm_rx_t *rx = fab_ring_from(peer);
    fab_shm_msg_t msg;

    if (NULL == rx || FAB_SHM_MESSAGE != fab_shm_rx_peek(rx, &msg) || FAB_AM_EAGER != msg.hdr.id ||
        0 != msg.hdr.app_ctx || want != (msg.hdr.tag & mask)) {
        return false;
    }
    *len = msg.len;
    *tag = msg.hdr.tag;
    return true;
}

/*
 * Is there room for this many messages of len bytes each to a peer with FAB_CAP_RING? If so, as
 * many fab_item_reserve() succeed. False before the first message to the peer has gone.
 */
static inline bool fab_has_room(fab_peer_t *peer, uint32_t count, size_t len)
{
    fab_shm_tx_t *tx = (fab_shm_tx_t *) peer->ep;
    /* one more for the end of the ring, where a message may not fit */
    const uint32_t slots = (count + 1) * fab_shm_num_slots(len);

    if (FAB_PEER_UP != peer->state || 0 == tx->limit ||
        (!fab_shm_tx_has_room(tx, slots) &&
         (!fab_shm_tx_refresh(tx) || !fab_shm_tx_has_room(tx, slots)))) {
        return false;
    }
    tx->promised = tx->head + slots; /* an early wrap would use up room */
    return true;
}

/* Bytes of the ring towards a peer with FAB_CAP_RING, when it has grown; 64: there is none yet. */
static inline size_t fab_ring_size(const fab_peer_t *peer)
{
    return ((size_t) ((const fab_shm_tx_t *) peer->ep)->full + 1) * FAB_SHM_LINE;
}

/*
 * Is a long message of len bytes to a peer with FAB_CAP_RING to be announced, as the peer wants to
 * read it?  Any value is a preference: the peer takes the message in either way.
 */
static inline bool fab_is_pulled(const fab_peer_t *peer, size_t len)
{
    const fab_shm_tx_t *tx = peer->ep;

    return 0 != tx->limit && 0 != (atomic_load_explicit(&tx->ctl->pulled, memory_order_relaxed) >>
                                       fab_shm_class(len) &
                                   1);
}

/*
 * For the choice of shm_ways.h: a message that such a peer could have announced comes in fragments,
 * and its first one is here; all of it has been copied, if the first call returned true.
 */
FAB_EXPORT bool fab_shm_stream_begin(fab_peer_t *peer, size_t len);
FAB_EXPORT void fab_shm_stream_end(fab_peer_t *peer, size_t len);

/*
 * The same of one of up to 16 KiB that comes whole, and ends with fab_shm_stream_end().  is_last:
 * the program has posted no more receives.
 */
FAB_EXPORT bool fab_shm_whole_begin(fab_peer_t *peer, size_t len, bool is_last);

/*
 * Messages to a peer with FAB_CAP_RING lie in memory that both processes see, where fab_reserve()
 * has put them, until the peer has handled them and this process needs the room again.  The
 * position, read between fab_reserve() and fab_commit(), says later whether it has.
 */
static inline uint64_t fab_ring_position(const fab_peer_t *peer)
{
    return ((const fab_shm_tx_t *) peer->ep)->head;
}

/* Is there another message now where the one at this position was? The peer must be UP. */
static inline bool fab_ring_is_reused(const fab_peer_t *peer, uint64_t position)
{
    const fab_shm_tx_t *tx = peer->ep;

    return tx->head - position > (uint64_t) tx->mask + 1;
}

/* No message of this peer has come: get what the next one needs into the cache. */
static inline void fab_fetch_ahead(const fab_peer_t *peer)
{
    const fab_shm_rx_t *rx = fab_ring_from(peer);

    if (NULL != rx) {
        fab_shm_rx_fetch_ahead(rx);
    }
}

/* Does a message of this peer wait in its ring, which is polled? */
static inline bool fab_has_come(const fab_peer_t *peer)
{
    const fab_shm_rx_t *rx = fab_ring_from(peer);

    return NULL != rx && fab_shm_rx_is_ready(rx);
}

/* A message that stays in its ring until fab_release(). */
typedef fab_shm_rx_t fab_retained_t;

/*
 * For the handler of a message from a peer with FAB_CAP_RING: the payload stays valid until
 * fab_release().  Messages that come after it are delivered meanwhile, as many as the ring holds.
 * One message of a peer at a time.
 */
static inline fab_retained_t *fab_retain(fab_peer_t *peer)
{
    fab_shm_rx_t *rx = ((const fab_shm_pair_t *) peer->ep)->rx;

    fab_shm_rx_retain(rx);
    return rx;
}

/*
 * Take the next message of the peer, past its handler, if it is there and has this id.  It is
 * described in *msg and stays where it is until fab_release().  NULL: there is none.
 */
static inline fab_retained_t *fab_take(fab_peer_t *peer, uint8_t id, fab_shm_msg_t *msg)
{
    fab_shm_rx_t *rx = fab_ring_from(peer);

    if (NULL == rx || FAB_SHM_MESSAGE != fab_shm_rx_peek(rx, msg) || id != msg->hdr.id) {
        return NULL;
    }
    fab_shm_rx_retain(rx);
    fab_shm_rx_advance(rx, msg->slots);
    fab_shm_rx_expect(rx, msg->slots);
    fab_shm_rx_fetch_ahead(rx);
    fab_counters.shm_msgs_received++;
    return rx;
}

static inline void fab_release(fab_retained_t *retained)
{
    fab_shm_rx_release(retained);
}

#endif /* FAB_SHM_INL_H */
