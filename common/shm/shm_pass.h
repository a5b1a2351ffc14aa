/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments that /proc does not let others open: they are passed.
 */
#ifndef FAB_SHM_PASS_H
#define FAB_SHM_PASS_H

#include "shm/shm_types.h"

/* Make the socket; without it this process is reached only through /proc. */
void fab_shm_pass_open(fab_shm_domain_t *dom);

/* Can the peer be asked for its segment, and this process by the peer? */
bool fab_shm_pass_is_possible(const fab_shm_domain_t *dom, const fab_shm_addr_t *addr);

/* Ask the peer for its segment. OPAL_ERR_IN_PROCESS, or OPAL_ERR_UNREACH with *why. */
int fab_shm_pass_ask(fab_shm_ep_t *ep, const char **why);

/* Answer those who ask, and map what peers have passed. */
void fab_shm_pass_serve(fab_shm_domain_t *dom);

#endif /* FAB_SHM_PASS_H */
