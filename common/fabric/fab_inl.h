/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending a short message without a call, where the provider offers that in its header: shm.
 */
#ifndef FAB_INL_H
#define FAB_INL_H

#include "fabric/fab.h"
#include "fabric/fab_counters.h"
#include "shm/shm_ring_inl.h"

/*
 * As fab_send(), of at most FAB_SHORT_MAX bytes. False: nothing was done, fab_send() says why or
 * does it.
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

/*
 * Is there room for so many messages of len bytes each to a peer with FAB_CAP_RING?  Then as many
 * fab_item_reserve() succeed.  No sooner than the first message to it has gone.
 */
static inline bool fab_has_room(fab_peer_t *peer, uint32_t count, size_t len)
{
    fab_shm_tx_t *tx = (fab_shm_tx_t *) peer->ep;
    /* one more for the end of the ring, where a message may not fit */
    const uint32_t slots = (count + 1) * fab_shm_num_slots(len);

    return FAB_PEER_UP == peer->state && 0 != tx->limit && slots <= tx->mask + 1 &&
           (fab_shm_tx_has_room(tx, slots) ||
            (fab_shm_tx_refresh(tx) && fab_shm_tx_has_room(tx, slots)));
}

#endif /* FAB_INL_H */
