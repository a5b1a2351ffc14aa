/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host and other processes, from /proc; random bytes.
 */
#include "fabric/fab_host.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>
#include <sys/utsname.h>

#define FNV_START UINT64_C(0xcbf29ce484222325)

/* FNV-1a, 64 bits: distinguishes hosts, is no protection. */
static uint64_t fnv1a(uint64_t hash, const void *buf, size_t len)
{
    const uint8_t *bytes = buf;

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

size_t fab_host_read(const char *path, char *buf, size_t size)
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

/* Where the system call is forbidden, the file has the same bytes. */
static bool random_from_file(void *bytes, size_t len)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, len);
    int error = n < 0 ? errno : EIO;

    if (fd >= 0) {
        close(fd);
    }
    errno = error;
    return n == (ssize_t) len;
}

bool fab_random(void *bytes, size_t len)
{
    return (ssize_t) len == getrandom(bytes, len, 0) || random_from_file(bytes, len);
}

/* Add which namespace of this kind the process is in.  False: that cannot be read. */
static bool add_namespace(uint64_t *hash, const char *name)
{
    char path[64], buf[128];
    ssize_t len;

    snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
    len = readlink(path, buf, sizeof(buf));
    *hash = fnv1a(*hash, buf, len > 0 ? (size_t) len : 0);
    return len > 0;
}

uint64_t fab_host_identity(void)
{
    uint64_t hash = FNV_START;
    struct utsname uts;
    char buf[128];
    ssize_t len = (ssize_t) fab_host_read("/proc/sys/kernel/random/boot_id", buf, sizeof(buf));

    hash = fnv1a(hash, buf, (size_t) len);
    if (0 == uname(&uts)) {
        hash = fnv1a(hash, uts.nodename, strlen(uts.nodename));
    }
    if (!add_namespace(&hash, "pid")) {
        uint64_t unlike_others = 0; /* a pid means something only in a namespace that is known */

        (void) fab_random(&unlike_others, sizeof(unlike_others));
        hash = fnv1a(hash, &unlike_others, sizeof(unlike_others));
    }
    (void) add_namespace(&hash, "time"); /* a process's start time differs there */
    return hash;
}

uint64_t fab_host_namespace(const char *name)
{
    uint64_t hash = FNV_START;

    (void) add_namespace(&hash, name);
    return hash;
}

bool fab_proc_is_own(void)
{
    char target[16];
    ssize_t len = readlink("/proc/self", target, sizeof(target) - 1);

    target[len > 0 ? len : 0] = '\0';
    return strtol(target, NULL, 10) == getpid();
}

/* What a process's stat line says. */
typedef struct {
    uint64_t start_time; /* clock ticks since boot */
    uint32_t parent;
    bool is_ended; /* none of its threads runs */
} stat_t;

/*
 * proc(5): pid (comm) state ppid ... num_threads is field 20, starttime 22; comm may contain
 * anything, also blanks and parentheses.  The state is that of the first thread, which is a zombie
 * until the others have ended, too.
 */
static bool parse_stat(const char *text, stat_t *stat)
{
    const char *at = strrchr(text, ')');
    char state;
    long threads;
    unsigned long long start_time;

    if (NULL == at || 4 != sscanf(at + 1,
                                  " %c %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                                  "%*s %ld %*s %llu",
                                  &state, &stat->parent, &threads, &start_time)) {
        return false;
    }
    stat->start_time = start_time;
    stat->is_ended = 'X' == state || ('Z' == state && threads <= 1);
    return true;
}

/* False: there is no such line, or none that this process can see. */
static bool read_stat(uint32_t pid, stat_t *stat)
{
    char path[64] = "/proc/self/stat", text[1024];

    if ((uint32_t) getpid() != pid) {
        if (!fab_proc_is_own()) {
            return false;
        }
        snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    }
    return fab_host_read(path, text, sizeof(text)) > 0 && parse_stat(text, stat);
}

uint64_t fab_proc_start_time(uint32_t pid)
{
    stat_t stat;

    return read_stat(pid, &stat) && !stat.is_ended ? stat.start_time : 0;
}

uint32_t fab_proc_parent(uint32_t pid)
{
    stat_t stat;

    return read_stat(pid, &stat) ? stat.parent : 0;
}

bool fab_proc_has_no_pid(uint32_t pid)
{
    return 0 != kill((pid_t) pid, 0) && ESRCH == errno;
}

/*
 * That /proc shows nothing means nothing: /proc may hide the process (hidepid), be that of another
 * pid namespace, or be out of reach after chroot(); or no descriptor is left to read it.
 */
bool fab_proc_is_gone(uint32_t pid, uint64_t start_time)
{
    stat_t stat;

    if (fab_proc_has_no_pid(pid)) {
        return true;
    }
    if (!read_stat(pid, &stat)) {
        return fab_proc_has_no_pid(pid); /* its parent may have waited for it meanwhile */
    }
    return stat.is_ended || (0 != start_time && stat.start_time != start_time);
}

int fab_host_ptrace_scope(void)
{
    char buf[16];

    return fab_host_read("/proc/sys/kernel/yama/ptrace_scope", buf, sizeof(buf)) > 0 ? atoi(buf)
                                                                                     : -1;
}
