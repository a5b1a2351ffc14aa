/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits: see tm_info.h.
 */
#include "tm_info.h"

#include "fabric/fab_host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    FEW_FILES = 4096,            /* a process has one for each peer that it reaches by TCP */
    LITTLE_LOCKED = 1024 * 1024, /* KiB; RDMA devices pin what they send and receive */
};

static void set(tm_info_limit_t *limit, const char *name, const char *advice)
{
    limit->name = name;
    limit->advice = advice;
}

static void find_files(tm_info_limit_t *limit)
{
    struct rlimit files = {0};

    (void) getrlimit(RLIMIT_NOFILE, &files);
    snprintf(limit->value, sizeof(limit->value), "%llu", (unsigned long long) files.rlim_cur);
    set(limit, "open files",
        files.rlim_cur < FEW_FILES ? "few for TCP, which needs one for each peer: raise ulimit -n"
                                   : NULL);
}

static void find_locked(tm_info_limit_t *limit)
{
    struct rlimit locked = {0};

    (void) getrlimit(RLIMIT_MEMLOCK, &locked);
    set(limit, "locked memory", NULL);
    if (RLIM_INFINITY == locked.rlim_cur) {
        snprintf(limit->value, sizeof(limit->value), "unlimited");
        return;
    }
    snprintf(limit->value, sizeof(limit->value), "%llu KiB",
             (unsigned long long) locked.rlim_cur / 1024);
    if (locked.rlim_cur / 1024 < LITTLE_LOCKED &&
        0 == access("/sys/class/infiniband_verbs", F_OK)) {
        limit->advice = "little for the RDMA device: ulimit -l unlimited";
    }
}

static void find_ptrace(tm_info_limit_t *limit)
{
    const int scope = fab_host_ptrace_scope();

    snprintf(limit->value, sizeof(limit->value), scope < 0 ? "none" : "%d", scope);
    set(limit, "ptrace_scope",
        scope > 1 ? "a peer's memory cannot be read, so large messages are copied twice: "
                    "sysctl kernel.yama.ptrace_scope=1"
                  : NULL);
}

/* A filter that forbids the call does so for the caller's own memory, too. */
static void find_process_vm(tm_info_limit_t *limit)
{
    char from = 1, to = 0;
    const struct iovec local = {&to, 1}, remote = {&from, 1};

    set(limit, "process_vm_readv", NULL);
    if (1 == process_vm_readv(getpid(), &local, 1, &remote, 1, 0)) {
        snprintf(limit->value, sizeof(limit->value), "allowed");
        return;
    }
    snprintf(limit->value, sizeof(limit->value), "%s", strerror(errno));
    limit->advice = "large messages inside the host are copied twice: allow it in the seccomp "
                    "profile (Docker: --cap-add=SYS_PTRACE)";
}

static void find_hidepid(tm_info_limit_t *limit)
{
    int is_hidden = 0 != access("/proc/1/stat", F_OK);

    snprintf(limit->value, sizeof(limit->value), "%s", is_hidden ? "yes" : "no");
    set(limit, "hidepid",
        is_hidden ? "processes of other users are hidden in /proc: jobs of several users do not "
                    "see each other by shared memory"
                  : NULL);
}

static void find_memfd(tm_info_limit_t *limit)
{
    int fd = memfd_create("tm_info", MFD_CLOEXEC);

    set(limit, "memfd_create", NULL);
    if (fd >= 0) {
        snprintf(limit->value, sizeof(limit->value), "allowed");
        close(fd);
        return;
    }
    snprintf(limit->value, sizeof(limit->value), "%s", strerror(errno));
    limit->advice = "there is no shared memory: allow it in the seccomp profile";
}

void tm_info_find_limits(tm_info_limit_t limits[TM_INFO_LIMITS])
{
    find_files(&limits[0]);
    find_locked(&limits[1]);
    find_ptrace(&limits[2]);
    find_process_vm(&limits[3]);
    find_hidepid(&limits[4]);
    find_memfd(&limits[5]);
}
