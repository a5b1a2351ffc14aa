/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many processors the job's processes on this host share, so that a waiting process knows
 * whether others need its processor.
 */
#ifndef FAB_CPUS_H
#define FAB_CPUS_H

#include "fabric/fab.h"

/*
 * The number of processors that this process or its parent (mpirun's daemon, which is not bound as
 * a rank is) may run on, limited by the quota of every control group of this process.  At least 0;
 * a quota may be a fraction.
 *
 * root: "", or a directory with proc/self/cgroup and sys/fs/cgroup in it, for tests.
 */
FAB_EXPORT double fab_cpus(const char *root);

#endif /* FAB_CPUS_H */
