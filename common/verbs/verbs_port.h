/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What messages of a port have in their headers besides addresses: partition and class.
 */
#ifndef FAB_VERBS_PORT_H
#define FAB_VERBS_PORT_H

#include "verbs/verbs_types.h"

/*
 * Choose the port's partition, or take the user's; fills pkey_index and, of addr, pkey. NULL, or
 * why it cannot be used.
 */
const char *fab_verbs_port_partition(fab_verbs_domain_t *dom, struct ibv_context *ctx, uint8_t num,
                                     const struct ibv_port_attr *port);
/* Fill sl and traffic_class, after the GID is known. */
void fab_verbs_port_class(fab_verbs_domain_t *dom, const char *device);

/*
 * What of the port's address is no longer what other processes were told at the start; NULL:
 * nothing.
 */
const char *fab_verbs_port_change(const fab_verbs_domain_t *dom);

/* Of a port: enum ibv_mtu, no larger than the user wants. */
uint8_t fab_verbs_port_mtu(const struct ibv_port_attr *port);
/*
 * Use this port: opens the device; fills all that the port tells, in addr too.  cm_ops is set.
 * NULL, or why it cannot be.
 */
const char *fab_verbs_port_use(fab_verbs_domain_t *dom, struct ibv_device *device, uint8_t num);

#endif /* FAB_VERBS_PORT_H */
