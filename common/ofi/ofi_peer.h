/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How endpoints come and go, and what the fabric calls for one peer.
 */
#ifndef FAB_OFI_PEER_H
#define FAB_OFI_PEER_H

#include "ofi/ofi_ep.h"

extern const fab_ops_t fab_ofi_ops;

int fab_ofi_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why);
void fab_ofi_detach(fab_domain_t *dom, fab_peer_t *peer);
bool fab_ofi_drop(fab_domain_t *dom, fab_peer_t *peer);
void **fab_ofi_spare(const fab_peer_t *peer);
/* Free it and all that it owns, sent or not. */
void fab_ofi_ep_free(fab_ofi_ep_t *ep);
/* Free those of nobody that have sent what was left, or cannot. */
void fab_ofi_ep_end_lingering(fab_ofi_domain_t *dom, uint64_t now);
/* One of the provider's own messages that end a session came. */
void fab_ofi_ep_on_end(fab_ofi_ep_t *ep, uint8_t id);

#endif /* FAB_OFI_PEER_H */
