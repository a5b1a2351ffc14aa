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

static inline bool fab_send_short(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    if (__builtin_expect(0 == (peer->caps & FAB_CAP_RING) || NULL != peer->pending, 0) ||
        __builtin_expect(!fab_shm_tx_send_short((fab_shm_tx_t *) peer->ep, hdr, buf, len), 0)) {
        return false;
    }
    fab_counters.shm_msgs_sent++;
    return true;
}

#endif /* FAB_INL_H */
