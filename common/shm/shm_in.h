/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings that peers claimed in this process's segment.
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

#endif /* FAB_SHM_IN_H */
