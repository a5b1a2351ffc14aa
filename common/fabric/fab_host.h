/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This host and the processes on it, as the kernel tells: what providers need to know whether a
 * peer is on the same host, and whether it lives.  No state.
 */
#ifndef FAB_HOST_H
#define FAB_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fab_export.h"

/*
 * Identity of host, boot, host name and pid namespace: a pid means the same to all processes that
 * have the same one.
 */
FAB_EXPORT uint64_t fab_host_identity(void);

/* The value of yama's ptrace_scope, -1 if there is none. */
int fab_host_ptrace_scope(void);

/*
 * Start time of a process in clock ticks since boot; 0: it is gone, a zombie, or cannot be seen
 * now.
 */
FAB_EXPORT uint64_t fab_proc_start_time(uint32_t pid);

/* Is that process gone for certain?  It is not, if it has the start time; in doubt it is not. */
FAB_EXPORT bool fab_proc_is_gone(uint32_t pid, uint64_t start_time);

/* Has no process this pid?  One system call; a zombie has one. */
bool fab_proc_has_no_pid(uint32_t pid);

#endif /* FAB_HOST_H */
