/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: what btl fabric keeps of a peer.  The lock is held.
 */
#ifndef BTL_FABRIC_EP_H
#define BTL_FABRIC_EP_H

#include "btl_fabric.h"

/* The endpoint of a peer, created at the first call; NULL: no memory. */
mca_btl_fabric_ep_t *mca_btl_fabric_ep_of(fab_peer_t *peer);

/* Close the peer of a deleted endpoint if no operation needs it any more. */
void mca_btl_fabric_ep_close_if_idle(mca_btl_fabric_ep_t *ep);

/* Fail the peer because of an invalid message; `what` says what is wrong with it. */
void mca_btl_fabric_bad_message(fab_peer_t *peer, const char *what);

/* Fail the peer because there is no memory for what it sent. */
void mca_btl_fabric_no_memory(fab_peer_t *peer);

#endif /* BTL_FABRIC_EP_H */
