/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Are the peers there?  libfabric reports nothing of a peer to which nothing is sent.
 */
#ifndef FAB_OFI_ALIVE_H
#define FAB_OFI_ALIVE_H

#include "ofi/ofi_types.h"

enum { FAB_OFI_TICK_US = 250000 }; /* between calls of fab_ofi_alive_tick() */

/* Look at some of those with a session. */
void fab_ofi_alive_tick(fab_ofi_domain_t *dom);

#endif /* FAB_OFI_ALIVE_H */
