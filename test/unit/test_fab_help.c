/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts for the user, of a process that may open no file.
 *
 * TEST: sources=common/fabric/fab_help.c variants=asan
 */
#include "fabric/fab_help.h"

#include <sys/resource.h>
#include <unistd.h>

#include "test_cmocka.h"

static const fab_help_topic_t topics[] = {
    {"one", "First, host %s.\n"},
    {"two", "Second, host %s,\n%d times.\n"},
    {NULL, NULL},
};

static void test_show(void **state)
{
    static const char rule[] =
        "--------------------------------------------------------------------------\n";
    struct rlimit saved, none;
    char want[1024], got[1024] = "";
    int ends[2], err = dup(STDERR_FILENO);

    (void) state;
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = saved.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    fab_help_show(topics, "two", "a", 7);
    fab_help_show(topics, "three");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
    assert_true(dup2(err, STDERR_FILENO) >= 0);
    assert_true(read(ends[0], got, sizeof(got) - 1) > 0);
    snprintf(want, sizeof(want), "%sSecond, host a,\n7 times.\n%s%sthree\n%s", rule, rule, rule,
             rule);
    assert_string_equal(got, want);
    close(ends[0]);
    close(ends[1]);
    close(err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_show),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
