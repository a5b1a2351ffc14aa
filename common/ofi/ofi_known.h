/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes without an endpoint.
 */
#ifndef FAB_OFI_KNOWN_H
#define FAB_OFI_KNOWN_H

#include "ofi/ofi_domain.h"
#include "ofi/ofi_ep.h"

extern const fab_ops_t fab_ofi_known_ops;

/*
 * What a process of this address gets for fab_peer_t.ep, with the operations for it: peer->ep and
 * peer->ops.  False: no memory.
 */
bool fab_ofi_know(fab_ofi_domain_t *dom, fab_peer_t *peer, const fab_ofi_addr_t *addr);

/* Can libfabric be given its name?  Text must end. */
bool fab_ofi_is_name(const fab_ofi_addr_t *addr);

/* Is the peer's ep a fab_ofi_known_t? */
bool fab_ofi_is_known(const fab_peer_t *peer);

/* Of a known process: where the fabric keeps what it needs (fab_provider_t.spare). */
void **fab_ofi_known_spare(const fab_peer_t *peer);

/* Release it; ep is NULL then. */
void fab_ofi_forget(fab_peer_t *peer);
/* The same for all when the fabric closes: nobody uses their ep any more. */
void fab_ofi_forget_all(fab_ofi_domain_t *dom);

/* The peer's endpoint, made if there is none yet.  NULL: no memory. */
fab_ofi_ep_t *fab_ofi_ep_of(fab_peer_t *peer);

#endif /* FAB_OFI_KNOWN_H */
