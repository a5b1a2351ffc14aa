/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get and put: READs and WRITEs in steps.
 */
#ifndef FAB_VERBS_RMA_H
#define FAB_VERBS_RMA_H

#include "verbs/verbs_types.h"

int fab_verbs_rma(fab_rma_t *op);
int fab_verbs_rma_progress(fab_verbs_domain_t *dom);
/* End all operations, of which none is posted, so that their callers send messages instead. */
void fab_verbs_rma_refuse(fab_verbs_ep_t *ep);
/* End all operations that are not posted, and release what the peer may reach. */
void fab_verbs_rma_drop(fab_verbs_ep_t *ep);

#endif /* FAB_VERBS_RMA_H */
