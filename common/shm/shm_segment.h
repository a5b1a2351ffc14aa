/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process's own segment.
 */
#ifndef FAB_SHM_SEGMENT_H
#define FAB_SHM_SEGMENT_H

#include "shm/shm_types.h"

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

#endif /* FAB_SHM_SEGMENT_H */
