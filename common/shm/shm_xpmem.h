/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's memory by XPMEM, mapped.
 */
#ifndef FAB_SHM_XPMEM_H
#define FAB_SHM_XPMEM_H

#include "shm/shm_types.h"

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

#endif /* FAB_SHM_XPMEM_H */
