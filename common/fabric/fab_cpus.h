/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many processors the processes of this job on this host share, so that those who wait know
 * whether others want theirs.
 */
#ifndef FAB_CPUS_H
#define FAB_CPUS_H

#include "fabric/fab.h"

/*
 * The processors that this process and its parent (mpirun's daemon, which no binding of a rank
 * narrows) may run on, and no more than the quota of any control group that this process is in.  At
 * least 0; a quota may be a fraction.
 *
 * root: "", or a directory with proc/self/cgroup and sys/fs/cgroup in it, for tests.
 */
FAB_EXPORT double fab_cpus(const char *root);

#endif /* FAB_CPUS_H */
