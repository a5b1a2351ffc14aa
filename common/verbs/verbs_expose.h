/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory: what peers, or the device for a listed receive, may reach.
 */
#ifndef FAB_VERBS_EXPOSE_H
#define FAB_VERBS_EXPOSE_H

#include "verbs/verbs_types.h"

int fab_verbs_expose(fab_peer_t *peer, const void *buf, size_t len, unsigned access,
                     fab_rkey_t *rkey);
void fab_verbs_unexpose(fab_peer_t *peer, fab_rkey_t *rkey);
bool fab_verbs_expose_any(fab_domain_t *dom, const void *buf, size_t len, unsigned access,
                          fab_rkey_t *rkey);
void fab_verbs_unexpose_any(fab_domain_t *dom, const fab_rkey_t *rkey);
/* How a peer reaches what this process exposed, as matching hardware reads and writes it. */
fab_verbs_rvh_t fab_verbs_rvh(const fab_rndv_t *rndv);
fab_rndv_t fab_verbs_rndv(const fab_verbs_rvh_t *rvh);
void fab_verbs_let_go(fab_verbs_exposed_t *exposed);
/*
 * May the peer's device still answer a request of this process?  It does so on another QP, so its
 * answer may come after the peer's last message.
 */
bool fab_verbs_is_answer_due(const fab_verbs_ep_t *ep);
/* The receiver's device may answer this request, at most once, until the memory is let go. */
void fab_verbs_requested(fab_verbs_domain_t *dom, const fab_rndv_t *rndv);

/*
 * Memory of this process for a READ or WRITE.  access: FAB_REG_*.  NULL: it
 * cannot be registered, which is counted.
 */
fab_reg_t *fab_verbs_register(fab_verbs_domain_t *dom, const void *buf, size_t len,
                              unsigned access);
/* The device's key in one that a process made. */
uint32_t fab_verbs_rkey(const fab_rkey_t *rkey);
/* Was it made for this port of that process? */
bool fab_verbs_is_key_of(const fab_rkey_t *rkey, uint8_t port);

/* Has it one for this further port, too, for shares (verbs_rails.h)?  The device's key there. */
bool fab_verbs_has_rail_key(const fab_rkey_t *rkey, uint8_t port);
uint32_t fab_verbs_rail_key(const fab_rkey_t *rkey, uint8_t port);

#endif /* FAB_VERBS_EXPOSE_H */
