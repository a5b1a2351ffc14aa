/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many processors there are for the job: affinity, and quotas of control groups of both
 * versions, as files below a directory of the test's own.
 *
 * TEST: sources=common/fabric/fab_cpus.c,common/fabric/fab_host.c variants=asan
 */
#include "fabric/fab_cpus.h"

#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_cmocka.h"

static char root[64];

/* A file below root, with the directories above it. */
static void put(const char *path, const char *text)
{
    char full[256];
    FILE *stream;

    snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); NULL != slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    stream = fopen(full, "w");
    assert_non_null(stream);
    assert_true(fputs(text, stream) >= 0);
    assert_int_equal(fclose(stream), 0);
}

static int setup(void **state)
{
    (void) state;
    strcpy(root, "/tmp/test_fab_cpus.XXXXXX");
    return NULL != mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[128];

    (void) state;
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

/* What there is without any quota. */
static double unlimited(void)
{
    return fab_cpus("/nonexistent");
}

/* Bind this process to the first of its processors. */
static void bind_to_one(void)
{
    cpu_set_t all, one;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && 0 == CPU_COUNT(&one); cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

static void test_affinity(void **state)
{
    cpu_set_t before;
    double all = unlimited();

    (void) state;
    assert_true(all >= 1);
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    assert_true(all >= CPU_COUNT(&before));
    bind_to_one();
    assert_true(all == unlimited()); /* a rank that is bound: its parent is not */
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

/* A launcher binds a script, which starts a script, which starts the rank. */
static void test_scripts(void **state)
{
    double all = unlimited();
    pid_t pid = fork();
    int status = -1;

    (void) state;
    if (0 == pid) {
        setpgid(0, 0);
        bind_to_one();
        for (int i = 0; i < 2; i++) {
            pid_t child = fork();
            if (0 != child) {
                _exit(waitpid(child, &status, 0) == child && 0 == status ? 0 : 1);
            }
        }
        _exit(all == unlimited() ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_version_2(void **state)
{
    (void) state;
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_true(unlimited() == fab_cpus(root));
    put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    assert_true(0.5 == fab_cpus(root));
    put("/sys/fs/cgroup/a/cpu.max", "25000 100000\n"); /* of a group above */
    assert_true(0.25 == fab_cpus(root));
    put("/proc/self/cgroup", "0::/\n"); /* in a container: the mount point is the group */
    put("/sys/fs/cgroup/cpu.max", "75000 100000\n");
    assert_true(0.75 == fab_cpus(root));
}

static void test_version_1(void **state)
{
    (void) state;
    put("/proc/self/cgroup", "4:memory:/m\n3:cpuset:/s\n2:cpu,cpuacct:/a\n0::/\n");
    put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    assert_true(unlimited() == fab_cpus(root));
    put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "10000\n");
    assert_true(0.1 == fab_cpus(root));
}

static void test_nonsense(void **state)
{
    (void) state;
    put("/proc/self/cgroup", "\n0\n0:\n::\n0::/a\n");
    put("/sys/fs/cgroup/a/cpu.max", "none\n");
    assert_true(unlimited() == fab_cpus(root));
    put("/sys/fs/cgroup/a/cpu.max", "10000 0\n");
    assert_true(unlimited() == fab_cpus(root));
    put("/sys/fs/cgroup/a/cpu.max", "");
    assert_true(unlimited() == fab_cpus(root));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_scripts),
        cmocka_unit_test_setup_teardown(test_version_2, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version_1, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nonsense, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
