/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The providers verbs and ofi are separate DSOs beside the library.  verbs is loaded if the host
 * has an RDMA device, ofi if it has one that libfabric serves better, or if the user names a
 * provider of libfabric.  Otherwise start-up loads neither libibverbs nor libfabric.
 */
#ifndef FAB_LOAD_H
#define FAB_LOAD_H

#include "fabric/fab_provider.h"

/* The provider; loaded once, and never unloaded.  NULL: *why, a sentence. */
const fab_provider_t *fab_load_verbs(fab_t *fab, const char **why);
const fab_provider_t *fab_load_ofi(fab_t *fab, const char **why);

#endif /* FAB_LOAD_H */
