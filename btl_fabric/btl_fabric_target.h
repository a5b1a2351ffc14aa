/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts, gets and atomic operations of other processes, by messages.
 */
#ifndef BTL_FABRIC_TARGET_H
#define BTL_FABRIC_TARGET_H

#include "btl_fabric.h"

/*
 * Is it an atomic operation that the module's flags announce, on a word (len: bytes) that is
 * aligned?
 */
static inline bool mca_btl_fabric_can_apply(unsigned op, size_t len, uint64_t address)
{
    return (4 == len || 8 == len) && 0 == (address & (len - 1)) &&
           (MCA_BTL_ATOMIC_ADD == op || MCA_BTL_ATOMIC_AND == op || MCA_BTL_ATOMIC_OR == op ||
            MCA_BTL_ATOMIC_XOR == op || MCA_BTL_ATOMIC_SWAP == op || BTL_FABRIC_CSWAP == op);
}

/* The fabric is closed: free the replies that it had not sent. */
void mca_btl_fabric_replies_fini(void);

/* Handlers of BTL_FABRIC_AM_PUT, GET and ATOMIC. */
void mca_btl_fabric_on_put(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                           size_t len);
void mca_btl_fabric_on_get(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                           size_t len);
void mca_btl_fabric_on_atomic(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                              size_t len);

#endif /* BTL_FABRIC_TARGET_H */
