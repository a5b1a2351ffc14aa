/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's memory.
 */
#ifndef FAB_SHM_ACCESS_H
#define FAB_SHM_ACCESS_H

#include "shm/shm_types.h"

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

#endif /* FAB_SHM_ACCESS_H */
