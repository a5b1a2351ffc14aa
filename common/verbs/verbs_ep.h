/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: what the provider does for one peer.
 */
#ifndef FAB_VERBS_EP_H
#define FAB_VERBS_EP_H

#include "verbs/verbs_types.h"

extern const fab_ops_t fab_verbs_ops;

int fab_verbs_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why);
void fab_verbs_detach(fab_domain_t *dom, fab_peer_t *peer);
bool fab_verbs_drop(fab_domain_t *dom, fab_peer_t *peer);
void **fab_verbs_spare(const fab_peer_t *peer);
bool fab_verbs_is_bound(const fab_peer_t *peer);
/* Free it and all that it owns but its connection, which is gone already. */
void fab_verbs_ep_free(fab_verbs_ep_t *ep);
/*
 * The peer will not come back, or this process is done with it: free the endpoint and, if it was
 * closed, the record.
 */
void fab_verbs_ep_finish(fab_verbs_ep_t *ep);
/* Release peers that closed the connection, or left, and whose answers have all arrived. */
void fab_verbs_ep_end_ending(fab_verbs_domain_t *dom, uint64_t now);
/* One of the provider's own messages came. */
void fab_verbs_ep_on_control(fab_verbs_ep_t *ep, uint8_t id);

#endif /* FAB_VERBS_EP_H */
