/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large gets that both sides copy.
 */
#ifndef FAB_SHM_COOP_H
#define FAB_SHM_COOP_H

#include "shm/shm_types.h"

/*
 * Set dom->is_coop, by the parameter and the number of cores.  Called again for each peer, because
 * the parameter may be registered after the fabric was opened, by the other user of the fabric.
 */
void fab_shm_coop_configure(fab_shm_domain_t *dom);

/* The part of a key that names memory of a process of this host. */
uint64_t fab_shm_key_of(const fab_rkey_t *rkey);

/*
 * Returns the key, also for unexpose; 0: this process will not help to copy this memory.  peer: who
 * may fetch it; NULL: any.  is_window: any may write it, too.
 */
uint64_t fab_shm_coop_expose(fab_shm_domain_t *dom, fab_peer_t *peer, const void *buf, size_t len,
                             bool is_window);
void fab_shm_coop_unexpose(fab_shm_domain_t *dom, uint64_t key);

/* The peer is gone: end all that was exposed to it. */
void fab_shm_coop_forget(fab_shm_domain_t *dom, const fab_peer_t *peer);

/* Copy one chunk of a get that a peer offers, if there is any.  Returns the number of events. */
int fab_shm_coop_help(fab_shm_domain_t *dom);

/* Is it likely that the peer helps with this operation? */
bool fab_shm_coop_is_worth_it(const fab_shm_ep_t *ep, const fab_rma_t *op);

/* The cooperative get of this operation, offered now if worthwhile; NULL: it is none. */
fab_shm_fetch_t *fab_shm_fetch_of(fab_shm_ep_t *ep, fab_rma_t *op);

/*
 * Copy up to about max bytes.  OPAL_ERR_IN_PROCESS: call again.  OPAL_ERR_RESOURCE_BUSY: call again
 * later, the peer is copying the rest.  Any other result: the get has ended with it.
 */
int fab_shm_fetch_step(fab_shm_ep_t *ep, fab_shm_fetch_t *fetch, size_t max);

/* End all gets from the peer without completing them.  True: the peer writes no more. */
bool fab_shm_fetch_end(fab_shm_ep_t *ep);

/* The same, and wait: until the peer has copied its chunk, or is found dead. */
void fab_shm_fetch_wait(fab_shm_ep_t *ep);

#endif /* FAB_SHM_COOP_H */
