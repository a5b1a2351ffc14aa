/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider verbs is a separate DSO beside the library, loaded if the host has an RDMA device.
 * Without a device, start-up loads neither libibverbs nor its dependencies.
 */
#ifndef FAB_LOAD_H
#define FAB_LOAD_H

#include "fabric/fab_provider.h"

/* The provider; loaded once, and never unloaded.  NULL: *why, a sentence. */
const fab_provider_t *fab_load_verbs(fab_t *fab, const char **why);

#endif /* FAB_LOAD_H */
