/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The self-test of matching hardware.
 */
#ifndef FAB_VERBS_TM_TEST_H
#define FAB_VERBS_TM_TEST_H

#include "verbs/verbs_types.h"

/*
 * Has the device's tag matching done what it should, with messages of this process to itself?
 * NULL, or what went wrong: it is not to be used.  no_rndv, if not NULL: rendezvous are tried, too;
 * *no_rndv: what went wrong with them alone.  Takes some milliseconds; a second at most if the
 * device does not answer.  max_tags, max_ops: limits of the device.
 */
const char *fab_verbs_tm_test(fab_verbs_domain_t *dom, uint32_t max_tags, uint32_t max_ops,
                              const char **no_rndv);

#endif /* FAB_VERBS_TM_TEST_H */
