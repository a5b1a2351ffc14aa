/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is a process gone?  Zombies, processes whose first thread has ended, and a /proc that shows
 * nothing.
 *
 * TEST: sources=common/fabric/fab_host.c ldflags=-Wl,--wrap=open variants=asan timeout=60
 */
#include "fabric/fab_host.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int open_error; /* 0: none */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
    if (0 != open_error) {
        errno = open_error;
        return -1;
    }
    return __real_open(path, flags);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_first_thread_ended),
        cmocka_unit_test(test_hidden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
