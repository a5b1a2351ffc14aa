/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The further ports of this process.  They are known, and in its address, from the start; one is
 * opened when a peer is to be reached by it.  Each is a domain with queues, buffers and a cache of
 * registrations of its own; sockets and address are the first port's.
 */
#ifndef FAB_VERBS_PORTS_H
#define FAB_VERBS_PORTS_H

#include "verbs/verbs_types.h"

/* A new domain, of the first port if first is NULL; NULL: no memory. */
fab_verbs_domain_t *fab_verbs_domain_alloc(fab_t *fab, fab_verbs_domain_t *first);
/* Of its device, once that is known: protection domain, cache. NULL, or why not. */
const char *fab_verbs_domain_prepare(fab_verbs_domain_t *dom);
/* Free a domain without connections and endpoints. */
void fab_verbs_domain_free(fab_verbs_domain_t *dom);

/* This process's port with this index, which is opened if it is not yet.  NULL: *why. */
fab_verbs_domain_t *fab_verbs_port_domain(fab_verbs_domain_t *first, uint8_t index,
                                          const char **why);
/*
 * The first pair of ports from this one on that has no flaw, and whose port here can be opened:
 * the domain of that.  NULL: there is none, and *why.
 */
fab_verbs_domain_t *fab_verbs_ports_choose(fab_verbs_domain_t *first, uint64_t name,
                                           const fab_verbs_addr_t *addr, uint32_t *pair,
                                           uint8_t *remote, const char **why);

/* The domains of a process, the first port's first: n from 0 on. NULL: no more. */
static inline fab_verbs_domain_t *fab_verbs_nth(fab_verbs_domain_t *first, int n)
{
    if (0 == n) {
        return first;
    }
    for (int i = 0; i < FAB_VERBS_PORTS - 1; i++) {
        if (NULL != first->others[i] && 0 == --n) {
            return first->others[i];
        }
    }
    return NULL;
}

#endif /* FAB_VERBS_PORTS_H */
