/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processors of this job on this host: affinity, and the quotas of control groups, of version 2
 * (cpu.max) and 1 (cpu.cfs_quota_us, cpu.cfs_period_us).
 */
#include "fabric/fab_cpus.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_host.h"

enum { MAX_CPUS = 1 << 14 };

/* Add the processors that a process may run on to the set. */
static void add_affinity(pid_t pid, cpu_set_t *set, cpu_set_t *room, size_t size)
{
    CPU_ZERO_S(size, room);
    if (0 == sched_getaffinity(pid, size, room)) {
        CPU_OR_S(size, set, set, room);
    }
}

/*
 * mpirun's daemon, or what else started this rank.  Launchers make a process group for each rank,
 * so it is the first ancestor outside this process's group: a script between the two is in it, and
 * bound as the rank is.
 */
static pid_t find_daemon(void)
{
    pid_t pid = getppid(), parent;

    while (getpgid(pid) == getpgrp() && (parent = (pid_t) fab_proc_parent((uint32_t) pid)) > 0) {
        pid = parent;
    }
    return pid;
}

/* 0: not known. */
static int count_affinity(void)
{
    const size_t size = CPU_ALLOC_SIZE(MAX_CPUS);
    cpu_set_t *set = CPU_ALLOC(MAX_CPUS);
    cpu_set_t *room = CPU_ALLOC(MAX_CPUS);
    int count = 0;

    if (NULL != set && NULL != room) {
        CPU_ZERO_S(size, set);
        add_affinity(0, set, room, size);
        add_affinity(find_daemon(), set, room, size);
        count = CPU_COUNT_S(size, set);
    }
    CPU_FREE(set);
    CPU_FREE(room);
    return count;
}

/* Read a file below root, of one line; false: there is none. */
static bool read_line(const char *root, const char *group, const char *file, char *line,
                      size_t size)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof(path), "%s%s/%s", root, group, file) < (int) sizeof(path) &&
           fab_host_read(path, line, size) > 0;
}

/* Processors that a quota of one group allows; a large number: it has none. */
static double group_quota(const char *root, const char *group)
{
    char line[64], period_line[64];
    double quota, period;

    if (read_line(root, group, "cpu.max", line, sizeof(line))) {
        return 2 == sscanf(line, "%lf %lf", &quota, &period) && period > 0 ? quota / period
                                                                           : MAX_CPUS;
    }
    if (read_line(root, group, "cpu.cfs_quota_us", line, sizeof(line)) &&
        read_line(root, group, "cpu.cfs_period_us", period_line, sizeof(period_line)) &&
        1 == sscanf(line, "%lf", &quota) && 1 == sscanf(period_line, "%lf", &period) && quota > 0 &&
        period > 0) {
        return quota / period;
    }
    return MAX_CPUS;
}

/* The least quota of the group and all above it, up to its hierarchy's mount point. */
static double least_quota(const char *root, const char *mount, const char *group)
{
    char path[PATH_MAX];
    size_t base = strlen(mount);
    double least = MAX_CPUS, quota;
    char *slash;

    if (snprintf(path, sizeof(path), "%s%s", mount, group) >= (int) sizeof(path)) {
        return MAX_CPUS;
    }
    for (;;) {
        quota = group_quota(root, path);
        least = quota < least ? quota : least;
        slash = strrchr(path + base, '/');
        if (NULL == slash) {
            return least;
        }
        *slash = '\0';
    }
}

/*
 * Of /proc/self/cgroup's line "0::/group" or "1:cpu,cpuacct:/group"; other hierarchies have none.
 */
static double line_quota(const char *root, char *line)
{
    char *names = strchr(line, ':'), *group;
    char *end = strchr(line, '\n');

    if (NULL == names || NULL == (group = strchr(names + 1, ':'))) {
        return MAX_CPUS;
    }
    if (NULL != end) {
        *end = '\0';
    }
    *group++ = '\0';
    names++;
    if ('\0' == *names) {
        return least_quota(root, "/sys/fs/cgroup", group);
    }
    if (0 == strcmp(names, "cpu") || 0 == strncmp(names, "cpu,", 4) ||
        NULL != strstr(names, ",cpu,")) {
        return least_quota(root, "/sys/fs/cgroup/cpu", group);
    }
    return MAX_CPUS;
}

static double find_quota(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    double least = MAX_CPUS, quota;
    FILE *stream;

    (void) snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    stream = fopen(path, "re");
    if (NULL == stream) {
        return MAX_CPUS;
    }
    while (NULL != fgets(line, sizeof(line), stream)) {
        quota = line_quota(root, line);
        least = quota < least ? quota : least;
    }
    (void) fclose(stream);
    return least;
}

double fab_cpus(const char *root)
{
    int affinity = count_affinity();
    double quota = find_quota(root);

    return affinity > 0 && affinity < quota ? affinity : quota;
}

static uint32_t gcd(uint32_t a, uint32_t b)
{
    return 0 == b ? a : gcd(b, a % b);
}

uint32_t fab_cpu_turn(uint32_t rank, uint32_t parts, uint32_t num)
{
    return (1 == gcd(parts, num) ? rank : rank + rank / parts) % num;
}

uint64_t fab_cpu_pause_ns(void)
{
    enum { TIMES = 5, PAUSES = 64 };
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < TIMES; ++i) {
        uint64_t time = fab_now_ns();
        for (int k = 0; k < PAUSES; ++k) {
            fab_cpu_pause();
        }
        time = fab_now_ns() - time;
        least = time < least ? time : least;
    }
    return least / PAUSES;
}
