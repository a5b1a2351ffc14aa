/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: what the shm provider does for one peer.
 */
#ifndef FAB_SHM_EP_H
#define FAB_SHM_EP_H

#include "shm/shm_types.h"

extern const fab_ops_t fab_shm_ops;

/* See fab_provider_t. */
bool fab_shm_expose_any(fab_domain_t *domain, const void *buf, size_t len, unsigned access,
                        fab_rkey_t *rkey);
void fab_shm_unexpose_any(fab_domain_t *domain, const fab_rkey_t *rkey);

int fab_shm_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why);
void fab_shm_detach(fab_domain_t *dom, fab_peer_t *peer);
bool fab_shm_drop(fab_domain_t *dom, fab_peer_t *peer);
void fab_shm_ep_free(fab_shm_ep_t *ep);

#endif /* FAB_SHM_EP_H */
