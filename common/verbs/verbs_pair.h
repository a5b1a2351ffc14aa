/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs of ports, one of each of two processes, over which they may reach each other.  Both number
 * them in the same way, and try them in this order:
 *
 *      0                   the first port of both, which each has chosen as the best
 *      then                ports with the same rail: what is wired alike may share a switch
 *      then                all others
 *
 * by the ports of the process with the smaller name first.  A pair with a flaw is left out: both
 * see the same flaws.
 */
#ifndef FAB_VERBS_PAIR_H
#define FAB_VERBS_PAIR_H

#include "verbs/verbs_types.h"

/* The process's address as if this port of it were its first; it has no matching hardware then. */
fab_verbs_addr_t fab_verbs_addr_at(const fab_verbs_addr_t *addr, uint8_t port);
/* Of the peer's port that is used or will be: FAB_VERBS_ADDR_*. */
uint16_t fab_verbs_peer_flags(const fab_verbs_ep_t *ep);

/* The ports of a pair. False: there is no such pair. */
bool fab_verbs_pair(const fab_verbs_domain_t *first, uint64_t name, const fab_verbs_addr_t *addr,
                    uint32_t pair, uint8_t *own, uint8_t *remote);
/*
 * The first pair from this one on without a flaw, as fab_verbs_pair().  NULL, or the flaw of the
 * last one.
 */
const char *fab_verbs_pair_find(const fab_verbs_domain_t *first, uint64_t name,
                                const fab_verbs_addr_t *addr, uint32_t *pair, uint8_t *own,
                                uint8_t *remote);

#endif /* FAB_VERBS_PAIR_H */
