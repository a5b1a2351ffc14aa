/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which port of which device is used.
 */
#ifndef FAB_VERBS_DEVICE_H
#define FAB_VERBS_DEVICE_H

#include "verbs/verbs_types.h"

/*
 * Choose device, port and GID; opens the device. Fills ctx, device, port, port_num, gid_index,
 * name, and addr as far as the port tells. NULL, or why there is none.
 */
const char *fab_verbs_device_open(fab_verbs_domain_t *dom);

/*
 * How near the device is to this process, larger is nearer (verbs_near.h), and of how many parts
 * that the machine is divided into one holds both; asked only if there is a choice.  NULL, as at
 * first: all are equally near.
 */
extern int (*fab_verbs_near)(const char *device, uint32_t *parts);

#endif /* FAB_VERBS_DEVICE_H */
