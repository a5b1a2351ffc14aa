/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAB_OFI_PROGRESS_H
#define FAB_OFI_PROGRESS_H

#include "ofi/ofi_types.h"

int fab_ofi_progress(fab_domain_t *dom);
/* A sleep has ended, by something that came. */
void fab_ofi_is_awake(fab_domain_t *dom);
/* Without what may wait for some calls. */
int fab_ofi_poll(void *dom);

#endif /* FAB_OFI_PROGRESS_H */
