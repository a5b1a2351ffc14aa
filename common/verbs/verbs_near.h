/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How near an RDMA device is to the CPUs that this process may run on: as deep in the machine's
 * tree (package, NUMA node, ...) as the smallest part that holds both.  A process that may run
 * anywhere finds all devices equally near.
 */
#ifndef FAB_VERBS_NEAR_H
#define FAB_VERBS_NEAR_H

#include "opal_config.h"
/* hwloc's, under the names that Open MPI gives its own copy */
#include "opal/mca/hwloc/base/base.h"

/*
 * The depth of the smallest part of the machine that holds the device and all of cpus.  0, the
 * whole machine: also where the topology does not know the device, or none of the CPUs.
 */
int fab_verbs_near_depth(hwloc_topology_t topology, hwloc_const_cpuset_t cpus, const char *device);

/* Choose devices by it, from the next fab_open() on (fab_verbs_near). */
void fab_verbs_near_use_hwloc(void);

#endif /* FAB_VERBS_NEAR_H */
