/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's memory.
 */
#ifndef FAB_SHM_ACCESS_H
#define FAB_SHM_ACCESS_H

#include "shm/shm_types.h"

/*
 * Read or write up to len bytes of the peer's memory.  OPAL_SUCCESS: *moved is their number.
 * OPAL_ERR_IN_PROCESS: try again.  OPAL_ERR_NOT_SUPPORTED: this memory cannot be accessed.
 * OPAL_ERR_UNREACH: the process is gone.
 */
int fab_shm_read(fab_shm_ep_t *ep, void *to, uint64_t from, size_t len, size_t *moved);
int fab_shm_write(fab_shm_ep_t *ep, const void *from, uint64_t to, size_t len, size_t *moved);

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
