/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider verbs is an object of its own beside the library, which is loaded where the host has
 * an RDMA device: without one, a start costs neither libibverbs nor what that loads.
 */
#ifndef FAB_LOAD_H
#define FAB_LOAD_H

#include "fabric/fab_provider.h"

/* The provider; loaded once, and never unloaded.  NULL: *why, a sentence. */
const fab_provider_t *fab_load_verbs(fab_t *fab, const char **why);

#endif /* FAB_LOAD_H */
