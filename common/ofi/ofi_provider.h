/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider's table.
 */
#ifndef FAB_OFI_PROVIDER_H
#define FAB_OFI_PROVIDER_H

#include "fabric/fab_provider.h"

extern const fab_provider_t fab_ofi_provider;

#endif /* FAB_OFI_PROVIDER_H */
