/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many processors the job's processes on this host share, so that a waiting process knows
 * whether others need its processor; and how a loop that polls leaves more of a processor to
 * another hardware thread of it.
 */
#ifndef FAB_CPUS_H
#define FAB_CPUS_H

#include "opal_config.h" /* first: it defines _GNU_SOURCE */

#include <stdint.h>

#include "fabric/fab_export.h"

/*
 * The number of processors that this process or mpirun's daemon (which is not bound as a rank is)
 * may run on, limited by the quota of every control group of this process.  At least 0; a quota may
 * be a fraction.
 *
 * root: "", or a directory with proc/self/cgroup and sys/fs/cgroup in it, for tests.
 */
FAB_EXPORT double fab_cpus(const char *root);

/*
 * Which of the num devices nearest the process its rank (on this host) uses.  The machine has so
 * many equal parts (packages, say), and mpirun has placed ranks on them in turn, or filled one
 * after the other: that is not known here.  Either way the ranks of each part are to use all of its
 * devices: of two packages with two devices each, ranks 0, 2 and 4 must not all use the first.
 */
FAB_EXPORT uint32_t fab_cpu_turn(uint32_t rank, uint32_t parts, uint32_t num);

/* One pass of a loop that waits for another processor. */
static inline void fab_cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* on most processors "yield" does not pause */
#else
    __asm__ volatile("" ::: "memory"); /* read again */
#endif
}

/* How long that takes, which differs much between processors. Measured, for some 10 us. */
FAB_EXPORT uint64_t fab_cpu_pause_ns(void);

#endif /* FAB_CPUS_H */
