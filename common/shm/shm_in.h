/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings that peers claimed in this process's segment, and the list of connected endpoints.
 */
#ifndef FAB_SHM_IN_H
#define FAB_SHM_IN_H

#include "shm/shm_types.h"

/* Check an entry for a new sender, for one that has left, and for a message in a cold ring. */
void fab_shm_look_at(fab_shm_domain_t *dom, uint32_t index);

void fab_shm_in_heat(fab_shm_domain_t *dom, fab_shm_in_t *in);
void fab_shm_in_cool(fab_shm_domain_t *dom, fab_shm_in_t *in);

/* Release a peer's ring; it becomes free if its sender cannot write to it any more. */
void fab_shm_in_release(fab_shm_domain_t *dom, fab_shm_in_t *in, bool is_sender_gone);

/* Only entries below this may be in use. */
uint32_t fab_shm_high(const fab_shm_domain_t *dom);

/*
 * The list of connected endpoints, whose processes are checked: enter one that gets tx or in; take
 * it out again if it has neither.
 */
int fab_shm_conn_add(fab_shm_ep_t *ep);
void fab_shm_conn_remove(fab_shm_ep_t *ep);

/* The peer's process is dead: fail the peer once all that it sent is delivered. */
void fab_shm_ep_died(fab_shm_ep_t *ep);

#endif /* FAB_SHM_IN_H */
