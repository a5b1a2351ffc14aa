/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The channel for connection set-up: fixed-size frames over short-lived TCP connections, out of
 * band (sock.h), and this process's IP addresses.
 */
#ifndef FAB_VERBS_OOB_H
#define FAB_VERBS_OOB_H

#include "verbs/verbs_types.h"

/*
 * Listen; fills ips and num_ips of dom->addr. Also watches the device's events. NULL, or why that
 * cannot be.
 */
const char *fab_verbs_oob_open(fab_verbs_domain_t *dom);
void fab_verbs_oob_close(fab_verbs_domain_t *dom);

int fab_verbs_oob_poll(fab_verbs_domain_t *dom);

#endif /* FAB_VERBS_OOB_H */
