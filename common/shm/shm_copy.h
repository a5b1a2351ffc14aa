/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies into a ring: through the cache, or past it.
 */
#ifndef FAB_SHM_COPY_H
#define FAB_SHM_COPY_H

#include <stddef.h>

#include "fabric/fab_export.h"
#include "fabric/fab_trial.h"

enum { FAB_SHM_PAST_MIN = 2048 }; /* bytes; shorter copies are as fast through the cache */

/*
 * fab_copy() of at least FAB_SHM_PAST_MIN bytes into a ring, or as much past the cache.  trial: of
 * this ring; way 1 is past the cache.
 */
FAB_EXPORT void fab_shm_copy_in(fab_trial_t *trial, void *to, const void *from, size_t len);

#endif /* FAB_SHM_COPY_H */
