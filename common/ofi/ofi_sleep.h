/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions that end a sleep: see fab_sleep().
 */
#ifndef FAB_OFI_SLEEP_H
#define FAB_OFI_SLEEP_H

#include "ofi/ofi_domain.h"

/*
 * Make the completion queue of this size, with a descriptor to wait for, if somebody may sleep and
 * the provider has that.  Returns an error of libfabric's, or 0.
 */
int fab_ofi_sleep_open_queue(fab_ofi_domain_t *dom, size_t size);
/* The next completion makes the descriptor readable.  False: there is something already. */
bool fab_ofi_sleep_arm(fab_domain_t *dom);
int fab_ofi_sleep_fd(const fab_domain_t *dom);

#endif /* FAB_OFI_SLEEP_H */
