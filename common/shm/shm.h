/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the provider shm have for each other, from the floor up.
 */
#ifndef FAB_SHM_H
#define FAB_SHM_H

#include <sys/types.h>

#include "shm/shm_types.h"

/* ---- shm_segment.c: this process's own segment ---- */

/*
 * Create and map this process's segment.  addr.page is set; this fills in the other fields of addr
 * that describe the segment.  On an error *why is the reason.
 */
int fab_shm_seg_create(fab_shm_domain_t *dom, const char **why);
void fab_shm_seg_destroy(fab_shm_domain_t *dom);

/* Entries that lie wholly in the first len bytes of the segment. */
static inline uint32_t fab_shm_entries_within(const fab_shm_addr_t *addr, size_t len)
{
    size_t n = (len - sizeof(fab_shm_seg_t)) / sizeof(fab_shm_entry_t);

    return n < addr->num_rings ? (uint32_t) n : addr->num_rings;
}

/*
 * The entry of this process's segment, or of a peer's, and its ring are free.  Claimers look there
 * first if it is lower than their hint.
 */
void fab_shm_entry_release(fab_shm_seg_t *seg, uint32_t index);

/* Make a ring of this process's segment accessible.  False: the kernel has no memory for it. */
bool fab_shm_ring_open(fab_shm_domain_t *dom, uint32_t index);

/* Free a ring of this process's segment, whose claimer is gone. */
void fab_shm_ring_free(fab_shm_domain_t *dom, uint32_t index);

/* ---- shm_in.c ---- */

/* Check an entry for a new sender, for one that has left, and for a message in a cold ring. */
void fab_shm_look_at(fab_shm_domain_t *dom, uint32_t index);

void fab_shm_in_heat(fab_shm_domain_t *dom, fab_shm_in_t *in);
void fab_shm_in_cool(fab_shm_domain_t *dom, fab_shm_in_t *in);

/* Send no more of what was asked for. */
void fab_shm_give_end(fab_shm_give_t *give);

/* Release a peer's ring; it becomes free if its sender cannot write to it any more. */
void fab_shm_in_release(fab_shm_domain_t *dom, fab_shm_in_t *in, bool is_sender_gone);

/* Only entries below this may be in use. */
uint32_t fab_shm_high(const fab_shm_domain_t *dom);

/* The peer's process is dead: fail the peer once all that it sent is delivered. */
void fab_shm_ep_died(fab_shm_ep_t *ep);

/* ---- shm_xpmem.c: a peer's memory by XPMEM, mapped ---- */

/*
 * Make this process's memory accessible, if there is XPMEM and it is to be used: then
 * dom->addr.xpmem_segid is set.
 */
void fab_shm_xpmem_open(fab_shm_domain_t *dom);
void fab_shm_xpmem_close(fab_shm_domain_t *dom);

/* Get access to the peer's memory, if it has not been done. False: there is none by XPMEM. */
bool fab_shm_xpmem_connect(fab_shm_ep_t *ep);
void fab_shm_xpmem_disconnect(fab_shm_ep_t *ep);

/*
 * Copy len bytes from (is_put: to) the peer's memory, which must be mapped there; ep->windows is
 * not NULL. Returns the number of bytes copied, less than len if a part could not be mapped here.
 */
size_t fab_shm_xpmem_copy(fab_shm_ep_t *ep, bool is_put, void *local, uint64_t remote, size_t len);

/* ---- shm_map.c ---- */

/*
 * Map a segment of size bytes, of which the first may be accessed at once and the others after
 * mprotect().  Without memory for it: most of a segment is never used.  In a program that called
 * mlockall(MCL_FUTURE) a new mapping gets memory for all of it that is accessible, so the first
 * become accessible only after it was unlocked; mlockall(MCL_CURRENT) leaves the others alone.
 * Core dumps leave out all of it.  MAP_FAILED, and errno.
 */
void *fab_shm_map_file(int fd, size_t size, size_t first);

/*
 * Map the head of the peer's segment, if its file can be opened.  Done once, when the peer comes:
 * later this process may have no descriptor left or another root directory, and the files of the
 * peer below /proc may be out of reach.
 */
void fab_shm_find(fab_shm_ep_t *ep);

/*
 * The peer has passed its segment's file: map its head, if the peer is up, has not left, and no
 * answer came before.  The caller keeps fd.
 */
void fab_shm_found(fab_shm_ep_t *ep, int fd);

/* The file of the peer's segment.  On an error *fd is -1. */
int fab_shm_map_open(fab_shm_ep_t *ep, int *fd, const char **why);

/* Map what a claimer needs in any case; its first page may be accessed. */
int fab_shm_map_head(fab_shm_ep_t *ep, int fd, const char **why);

/* All of it may be accessed. */
int fab_shm_map_ahead(fab_shm_ep_t *ep, const char **why);

/*
 * Extend the mapping to len bytes; it may move.  No file is needed for this.  It is unlocked, since
 * a locked one would get memory for all of it.
 */
bool fab_shm_map_more(fab_shm_ep_t *ep, size_t len);

void fab_shm_unmap(fab_shm_ep_t *ep);

/*
 * What errno means for a connection.  OPAL_ERR_OUT_OF_RESOURCE: something is used up, which others
 * may give back; try again later.
 */
int fab_shm_connect_error(int error);

/* ---- shm_access.c: a peer's memory ---- */

/*
 * Read up to len bytes of the peer's memory, or write them.  OPAL_SUCCESS: *moved is their number.
 * OPAL_ERR_IN_PROCESS: try again.  OPAL_ERR_NOT_SUPPORTED: this memory cannot be accessed.
 * OPAL_ERR_UNREACH: the process is gone.
 */
int fab_shm_transfer(fab_shm_ep_t *ep, bool is_put, void *local, uint64_t remote, size_t len,
                     size_t *moved);

/*
 * The test call, if access is FAB_SHM_ACCESS_UNTRIED.  OPAL_ERR_NOT_SUPPORTED: the memory cannot be
 * accessed.  OPAL_ERR_UNREACH: the process is gone.
 */
int fab_shm_access_try(fab_shm_ep_t *ep);

/* Can the peer's memory be accessed?  If this is not known, a test call finds out. */
static inline bool fab_shm_is_accessible(fab_shm_ep_t *ep)
{
    return FAB_SHM_ACCESS_WORKS == ep->access ||
           (FAB_SHM_ACCESS_UNTRIED == ep->access && OPAL_SUCCESS == fab_shm_access_try(ep));
}

/*
 * For fab_describe(): if CMA was not tried with any peer yet, try it with one.
 */
void fab_shm_access_try_one(fab_shm_domain_t *dom);

/* ---- shm_pass.c: segments that /proc does not let others open: they are passed ---- */

/* Make the socket; without it this process is reached only through /proc. */
void fab_shm_pass_open(fab_shm_domain_t *dom);

/* Can the peer be asked for its segment, and this process by the peer? */
bool fab_shm_pass_is_possible(const fab_shm_domain_t *dom, const fab_shm_addr_t *addr);

/* Ask the peer for its segment. OPAL_ERR_IN_PROCESS or OPAL_ERR_UNREACH, with *why. */
int fab_shm_pass_ask(fab_shm_ep_t *ep, const char **why);

/* Answer processes that ask, and map what peers have passed. */
void fab_shm_pass_serve(fab_shm_domain_t *dom);

/* ---- shm_coop.c: long gets whose memory its owner gives ---- */

/* Take the messages of cooperative gets, from when the domain opens. */
void fab_shm_coop_open(fab_shm_domain_t *dom);
void fab_shm_coop_close(fab_shm_domain_t *dom);

/* See fab_provider_t: only cooperative gets need a key. */
bool fab_shm_expose(fab_domain_t *domain, fab_peer_t *peer, const void *buf, size_t len,
                    unsigned access, fab_rkey_t *rkey);
void fab_shm_unexpose(fab_domain_t *domain, fab_peer_t *peer, const fab_rkey_t *rkey);

/* The peer is gone: end all that was exposed to it. */
void fab_shm_coop_forget(fab_shm_domain_t *dom, const fab_peer_t *peer);

/* Send what peers have asked for, as there is room.  Returns the number of messages. */
int fab_shm_coop_give(fab_shm_domain_t *dom);

/* Twice: this process polls.  Before and after it copies much: it copies.  Lock held. */
static inline void fab_shm_beat(fab_shm_domain_t *dom)
{
    const uint32_t beat = atomic_load_explicit(&dom->seg->beat, memory_order_relaxed);

    atomic_store_explicit(&dom->seg->beat, beat + 1, memory_order_relaxed);
}

/*
 * A long message of the peer that could be pushed or pulled (shm_ways.h): it is here or announced,
 * and it has come, by this way.  Both, or neither, of each message.
 */
void fab_shm_long_begin(fab_shm_ep_t *ep);
void fab_shm_long_end(fab_shm_ep_t *ep, size_t len, unsigned way);

/* As fab_shm_long_end(), for one that did not come. */
void fab_shm_long_fail(fab_shm_ep_t *ep, size_t len, unsigned way, int rc);

/* Is this a get of a long message that the peer could give? */
bool fab_shm_coop_is_possible(const fab_rma_t *op);

/* ... and is the peer to give it? */
bool fab_shm_coop_is_worth_it(const fab_shm_ep_t *ep, const fab_rma_t *op);

/* The cooperative get of this operation, begun now if worthwhile; NULL: it is none. */
fab_shm_fetch_t *fab_shm_fetch_of(fab_shm_ep_t *ep, fab_rma_t *op);

/*
 * Move it on, by up to about max bytes.  OPAL_ERR_IN_PROCESS: call again.  OPAL_ERR_RESOURCE_BUSY:
 * call again later, the peer is giving.  Any other result: the get has ended with it.
 */
int fab_shm_fetch_step(fab_shm_ep_t *ep, fab_shm_fetch_t *fetch, size_t max);

/* ---- shm_connect.c: claiming a ring in a peer's segment, and giving it up ---- */

/*
 * Map the peer's segment and claim a ring in it: afterwards ep->tx can send.  On an error nothing
 * is left behind, and *why is the reason.  OPAL_ERR_RESOURCE_BUSY (all rings are in use) and
 * OPAL_ERR_OUT_OF_RESOURCE (no memory, or no file descriptor): a later attempt may succeed.
 * OPAL_ERR_IN_PROCESS: the peer was asked for its segment, and answers when it is in MPI.
 * OPAL_ERR_UNREACH: no attempt will succeed.
 */
int fab_shm_connect(fab_shm_ep_t *ep, const char **why);

/* Give up the ring: its owner takes what is in it, and then frees it. Unmap the segment. */
void fab_shm_disconnect(fab_shm_ep_t *ep);

/* ---- shm_rma.c: get and put ---- */

int fab_shm_rma(fab_rma_t *op);
bool fab_shm_rma_now(fab_rma_t *op);
int fab_shm_rma_progress(fab_shm_domain_t *dom);

/* The peer failed: complete all its RMA, in error. */
void fab_shm_rma_drop(fab_shm_domain_t *dom, fab_peer_t *peer);

/* ---- shm_ep.c: endpoints: what the shm provider does for one peer ---- */

extern const fab_ops_t fab_shm_ops;

/* See fab_provider_t. */
int fab_shm_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why);
void fab_shm_detach(fab_domain_t *dom, fab_peer_t *peer);
bool fab_shm_drop(fab_domain_t *dom, fab_peer_t *peer);

/* With all that it has; its peer's ring here was released before. */
void fab_shm_ep_free(fab_shm_ep_t *ep);

/* ---- shm_progress.c: a progress call, and whether the peers are alive ---- */

int fab_shm_progress(fab_domain_t *dom);
int fab_shm_poll(void *dom);

/* Check a part of the peers, if it is time. */
void fab_shm_tick(fab_shm_domain_t *dom);

#endif /* FAB_SHM_H */
