/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer fails when all that it sent before is delivered.
 */
#ifndef FAB_OFI_FAIL_H
#define FAB_OFI_FAIL_H

#include "ofi/ofi_domain.h"
#include "ofi/ofi_ep.h"

/* Fail the peer as soon as all that it sent before is delivered. */
void fab_ofi_ep_defer_failure(fab_ofi_ep_t *ep, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* It is not to fail any more. */
void fab_ofi_ep_forget_failure(fab_ofi_ep_t *ep);
/* The completion queue was empty. */
int fab_ofi_ep_fail_deferred(fab_ofi_domain_t *dom);

#endif /* FAB_OFI_FAIL_H */
