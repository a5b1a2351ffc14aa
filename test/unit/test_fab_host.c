/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is a process gone?  Zombies, processes whose first thread has ended, a /proc that shows nothing,
 * and one of another pid namespace.
 *
 * TEST: sources=common/fabric/fab_host.c ldflags=-Wl,--wrap=open,--wrap=readlink variants=asan timeout=60
 */
#include "fabric/fab_host.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_cmocka.h"

static int open_error; /* 0: none */
static pid_t reaped;   /* a child that is waited for when its stat is opened; 0: none */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
    if (0 != open_error) {
        errno = open_error;
        return -1;
    }
    if (0 != reaped && NULL != strstr(path, "/stat")) {
        (void) waitpid(reaped, NULL, 0);
        reaped = 0;
    }
    return __real_open(path, flags);
}

static const char *self; /* what /proc/self is; NULL: what it is */
static bool hides_namespaces;

ssize_t __real_readlink(const char *path, char *buf, size_t size);
ssize_t __wrap_readlink(const char *path, char *buf, size_t size);

ssize_t __wrap_readlink(const char *path, char *buf, size_t size)
{
    if (hides_namespaces && NULL != strstr(path, "/ns/")) {
        errno = ENOENT;
        return -1;
    }
    if (NULL == self || 0 != strcmp(path, "/proc/self")) {
        return __real_readlink(path, buf, size);
    }
    memcpy(buf, self, strlen(self));
    return '\0' != *self ? (ssize_t) strlen(self) : -1;
}

/* Wait until the process's first thread has ended. */
static void wait_for_zombie(pid_t pid)
{
    while (0 != fab_proc_start_time((uint32_t) pid)) {
        char path[64], stat[512] = "";
        snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
        FILE *stream = fopen(path, "r");
        assert_non_null(stream);
        assert_non_null(fgets(stat, sizeof(stat), stream));
        fclose(stream);
        if (NULL != strstr(stat, ") Z ")) {
            return;
        }
        usleep(1000);
    }
}

static void *outlive(void *arg)
{
    (void) arg;
    while (true) {
        pause();
    }
    return NULL;
}

/* A child; is_first_ended: its first thread ends, another one waits to be killed. */
static pid_t start(bool is_first_ended)
{
    pthread_t thread;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (0 == pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* if a check fails */
        if (is_first_ended && 0 == pthread_create(&thread, NULL, outlive, NULL)) {
            pthread_exit(NULL);
        }
        outlive(NULL);
    }
    return pid;
}

static void test_ends(void **state)
{
    pid_t pid = start(false);
    const uint32_t id = (uint32_t) pid;
    const uint64_t began = fab_proc_start_time(id);

    (void) state;
    assert_true(0 != began);
    assert_false(fab_proc_is_gone(id, began));
    assert_false(fab_proc_is_gone(id, 0));
    assert_true(fab_proc_is_gone(id, began + 1)); /* that one is gone, another one has its pid */
    kill(pid, SIGKILL);
    wait_for_zombie(pid);
    assert_false(fab_proc_has_no_pid(id));
    assert_int_equal(fab_proc_start_time(id), 0);
    assert_true(fab_proc_is_gone(id, began));
    assert_true(fab_proc_is_gone(id, 0));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(fab_proc_has_no_pid(id));
    assert_true(fab_proc_is_gone(id, began));
}

/* Its parent waits for it when kill() has found it, and /proc does not show it any more. */
static void test_reaped(void **state)
{
    pid_t pid = start(false);
    const uint64_t began = fab_proc_start_time((uint32_t) pid);

    (void) state;
    kill(pid, SIGKILL);
    wait_for_zombie(pid);
    reaped = pid;
    assert_true(fab_proc_is_gone((uint32_t) pid, began));
    assert_int_equal(reaped, 0);
}

static void test_first_thread_ended(void **state)
{
    pid_t pid = start(true);
    const uint32_t id = (uint32_t) pid;
    const uint64_t began = fab_proc_start_time(id);

    (void) state;
    wait_for_zombie(pid);
    assert_false(fab_proc_is_gone(id, began));
    assert_int_equal(fab_proc_start_time(id), began);
    kill(pid, SIGKILL);
    while (!fab_proc_is_gone(id, began)) {
        usleep(1000);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* hidepid, chroot(), another /proc, no descriptor left: kill() alone decides. */
static void test_hidden(void **state)
{
    static const int errors[] = {ENOENT, EACCES, EMFILE, ESRCH};
    pid_t pid = start(false);
    const uint32_t id = (uint32_t) pid;
    const uint64_t began = fab_proc_start_time(id);

    (void) state;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        open_error = errors[i];
        assert_false(fab_proc_is_gone(id, began));
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(fab_proc_is_gone(id, began));
    open_error = 0;
}

/* /proc is that of another pid namespace: what it shows of a pid is another process. */
static void test_other_proc(void **state)
{
    static const char *const selves[] = {"1", "x", ""};
    pid_t pid = start(false);
    const uint32_t id = (uint32_t) pid;
    const uint64_t began = fab_proc_start_time(id);

    (void) state;
    assert_true(fab_proc_is_own() && 0 != began && (uint32_t) getpid() == fab_proc_parent(id));
    kill(pid, SIGKILL);
    wait_for_zombie(pid);
    for (size_t i = 0; i < sizeof(selves) / sizeof(selves[0]); i++) {
        self = selves[i];
        assert_false(fab_proc_is_own());
        assert_false(fab_proc_is_gone(id, began)); /* a zombie there; kill() finds a process */
        assert_false(fab_proc_is_gone(id, began + 1));
        assert_int_equal(fab_proc_parent(id), 0);
        assert_true(0 != fab_proc_start_time((uint32_t) getpid())); /* its own is known */
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(fab_proc_is_gone(id, began));
    self = NULL;
}

/* Where the pid namespace is not known, no process is of the same host. */
static void test_identity(void **state)
{
    const uint64_t identity = fab_host_identity();

    (void) state;
    assert_true(identity == fab_host_identity());
    hides_namespaces = true;
    assert_true(identity != fab_host_identity());
    assert_true(fab_host_identity() != fab_host_identity());
    hides_namespaces = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),     cmocka_unit_test(test_first_thread_ended),
        cmocka_unit_test(test_hidden),   cmocka_unit_test(test_other_proc),
        cmocka_unit_test(test_identity), cmocka_unit_test(test_reaped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
