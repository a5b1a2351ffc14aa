/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host and other processes, from /proc.
 */
#include "fabric/fab_host.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/utsname.h>

/* FNV-1a, 64 bits: distinguishes hosts, is no protection. */
static uint64_t fnv1a(uint64_t hash, const void *buf, size_t len)
{
    const uint8_t *bytes = buf;

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Read the start of a file as a string. Returns its length; 0: it is empty, or errno says why. */
static size_t read_file(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len;
    int error;

    buf[0] = '\0';
    if (fd < 0) {
        return 0;
    }
    len = read(fd, buf, size - 1);
    error = len < 0 ? errno : 0;
    close(fd);
    errno = error;
    buf[len > 0 ? len : 0] = '\0';
    return len > 0 ? (size_t) len : 0;
}

uint64_t fab_host_identity(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    struct utsname uts;
    char buf[128];
    ssize_t len = (ssize_t) read_file("/proc/sys/kernel/random/boot_id", buf, sizeof(buf));

    hash = fnv1a(hash, buf, (size_t) len);
    if (0 == uname(&uts)) {
        hash = fnv1a(hash, uts.nodename, strlen(uts.nodename));
    }
    len = readlink("/proc/self/ns/pid", buf, sizeof(buf));
    return fnv1a(hash, buf, len > 0 ? (size_t) len : 0);
}

/*
 * The start time in a process's stat line; 0 for a zombie.  proc(5): pid (comm) state ppid ...
 * starttime is field 22; comm may contain anything, also blanks and parentheses.
 */
static uint64_t parse_stat(const char *stat)
{
    const char *at = strrchr(stat, ')');

    if (NULL == at || ' ' != at[1] || 'Z' == at[2] || 'X' == at[2]) {
        return 0;
    }
    for (int field = 2; field < 22 && NULL != at; field++) {
        at = strchr(at + 1, ' ');
    }
    return NULL != at ? strtoull(at + 1, NULL, 10) : 0;
}

uint64_t fab_proc_start_time(uint32_t pid)
{
    char path[64];
    char stat[1024];

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    return read_file(path, stat, sizeof(stat)) > 0 ? parse_stat(stat) : 0;
}

bool fab_proc_has_no_pid(uint32_t pid)
{
    return 0 != kill((pid_t) pid, 0) && ESRCH == errno;
}

bool fab_proc_is_gone(uint32_t pid, uint64_t start_time)
{
    char path[64];
    char stat[1024];

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    if (read_file(path, stat, sizeof(stat)) > 0) {
        return parse_stat(stat) != start_time;
    }
    /* No such file: gone. Other errors (no file descriptor left) say nothing. */
    return ENOENT == errno || ESRCH == errno || fab_proc_has_no_pid(pid);
}

int fab_host_ptrace_scope(void)
{
    char buf[16];

    return read_file("/proc/sys/kernel/yama/ptrace_scope", buf, sizeof(buf)) > 0 ? atoi(buf) : -1;
}
