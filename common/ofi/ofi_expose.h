/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that peers may reach: registered, by the cache (fab_reg.h).
 */
#ifndef FAB_OFI_EXPOSE_H
#define FAB_OFI_EXPOSE_H

#include "ofi/ofi_domain.h"
#include "ofi/ofi_ep.h"

struct fab_ofi_exposed {
    LIST_ENTRY(fab_ofi_exposed) link;     /* in ep->exposed or dom->exposed */
    LIST_ENTRY(fab_ofi_exposed) key_link; /* in dom->by_key */
    const fab_ofi_exposed_list_t *list;   /* that it is in: several may have one registration */
    fab_reg_t *reg;
    uint64_t key;
};

extern const fab_reg_how_t fab_ofi_reg_how;

int fab_ofi_expose(fab_peer_t *peer, const void *buf, size_t len, unsigned access,
                   fab_rkey_t *rkey);
void fab_ofi_unexpose(fab_peer_t *peer, fab_rkey_t *rkey);
bool fab_ofi_expose_any(fab_domain_t *dom, const void *buf, size_t len, unsigned access,
                        fab_rkey_t *rkey);
void fab_ofi_unexpose_any(fab_domain_t *dom, const fab_rkey_t *rkey);
/* Release all that is in ep->exposed or dom->exposed. */
void fab_ofi_unexpose_all(fab_ofi_domain_t *dom, fab_ofi_exposed_list_t *list);
/* The provider's part of a key. */
fab_ofi_rkey_t fab_ofi_rkey(const fab_rkey_t *rkey);

#endif /* FAB_OFI_EXPOSE_H */
