/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Information from the kernel about this host and its processes: whether a peer is on the same
 * host, and whether it is alive; and random bytes.  No state.
 */
#ifndef FAB_HOST_H
#define FAB_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fab_export.h"

/*
 * Identity of host, boot, host name, pid and time namespace.  A pid and the start time of its
 * process mean the same to all processes with the same identity.  Where /proc does not tell the pid
 * namespace, the identity is no other process's.
 */
FAB_EXPORT uint64_t fab_host_identity(void);

/* Identity, on this host, of this process's namespace of that kind: "user", "net", ... */
uint64_t fab_host_namespace(const char *name);

/* Read the start of a file as a string. Returns its length; 0: it is empty, or errno says why. */
size_t fab_host_read(const char *path, char *buf, size_t size);

/* Fill len bytes, at most 256, for a key or nonce.  False, and errno: there are none. */
FAB_EXPORT bool fab_random(void *bytes, size_t len);

/* The value of yama's ptrace_scope, -1 if there is none. */
FAB_EXPORT int fab_host_ptrace_scope(void);

/*
 * Does /proc name processes by the pids that this process knows?  It does not where it belongs to
 * another pid namespace ("unshare --pid" without a /proc of its own, a container that has the
 * host's): /proc/PID is another process there.
 */
bool fab_proc_is_own(void);

/*
 * Start time of a process in clock ticks since boot; 0: the process is gone, a zombie, or not
 * visible now.
 */
FAB_EXPORT uint64_t fab_proc_start_time(uint32_t pid);

/* The parent of a process; 0: not known. */
uint32_t fab_proc_parent(uint32_t pid);

/*
 * True only if that process is certainly gone: no process has its pid, or one with another start
 * time has, or a zombie without threads.  start_time 0: any process that has the pid counts as it.
 */
FAB_EXPORT bool fab_proc_is_gone(uint32_t pid, uint64_t start_time);

/* True if no process has this pid. One system call; a zombie still has its pid. */
bool fab_proc_has_no_pid(uint32_t pid);

#endif /* FAB_HOST_H */
