/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Are blocking sends of more than 32 KiB to be streamed (pml_tm_stream.h), or announced and read?
 * Which is faster depends on the caches that the two processors share; nothing says where the
 * processes run.  So the receiver measures both, by its own clock, of messages whose receives are
 * posted, and tells the sender which it wants (shm_inl.h).  Shorter ones are always streamed: to
 * read one takes 3 us and more whatever its length.  Parameter stream_limit switches this off.
 */
#ifndef PML_TM_CHOICE_H
#define PML_TM_CHOICE_H

#include "fabric/fab_choice.h"

#include "pml_tm_comm.h"

/* As the sender: is a message that could be streamed to be announced?  Lock held. */
bool mca_pml_tm_choice_announces(const fab_peer_t *peer, size_t len);

/* It is not: it begins to go through the ring.  Lock held. */
void mca_pml_tm_choice_sends(const fab_peer_t *peer, const mca_pml_tm_comm_t *tmc, size_t len);

/*
 * As the receiver: a message of this length, whose receive is posted, begins to come in this way
 * (FAB_BY_...).  Returns the time, ns; 0: it is not to be taken.  Lock held.
 */
uint64_t mca_pml_tm_choice_begin(const fab_peer_t *peer, unsigned way, size_t len);

/*
 * It has come, `bytes` of it since it began; since: what mca_pml_tm_choice_begin() returned, or 0.
 * Lock held.
 */
void mca_pml_tm_choice_end(const fab_peer_t *peer, unsigned way, size_t len, size_t bytes,
                           uint64_t since);

/* It was announced, but cannot be read.  Lock held. */
void mca_pml_tm_choice_failed(const fab_peer_t *peer, size_t len, uint64_t since);

#endif /* PML_TM_CHOICE_H */
