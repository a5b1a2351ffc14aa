/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of libfabric's offers (fi_info) this process uses.
 */
#ifndef FAB_OFI_DEVICE_H
#define FAB_OFI_DEVICE_H

#include <stdbool.h>
#include <rdma/fabric.h>

#include "fabric/fab.h"

/*
 * The offer, which the caller frees (fi_freeinfo()).  NULL: *why, a sentence.  Of the providers
 * that the user names, or of those with hardware, the first; of its devices those that are near,
 * which the processes of the host take in turn.
 */
struct fi_info *fab_ofi_choose(fab_t *fab, const char **why);

/* Does the offer have this provider, alone or below a utility provider ("tcp" of "tcp;ofi_rxm")? */
bool fab_ofi_is_provider(const struct fi_info *info, const char *name);

#endif /* FAB_OFI_DEVICE_H */
