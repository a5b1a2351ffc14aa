/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that were reported before one that goes before them: copies, until that has come.
 */
#ifndef FAB_OFI_EARLY_H
#define FAB_OFI_EARLY_H

#include "ofi/ofi_domain.h"
#include "ofi/ofi_ep.h"

typedef struct fab_ofi_early {
    struct fab_ofi_early *next; /* in the order of their numbers */
    fab_ofi_hdr_t hdr;
    size_t len;
    uint64_t data[]; /* payload, aligned */
} fab_ofi_early_t;

/* Keep it.  False: no memory, or no sender that keeps to the rules sends it now. */
bool fab_ofi_early_keep(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr, const void *data, size_t len);
/* The next message, if it is there: the caller's to free. NULL: it has not come. */
fab_ofi_early_t *fab_ofi_early_take(fab_ofi_ep_t *ep);
void fab_ofi_early_drop(fab_ofi_ep_t *ep);

#endif /* FAB_OFI_EARLY_H */
