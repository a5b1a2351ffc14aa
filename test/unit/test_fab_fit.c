/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guard against another Open MPI than that of the build: versions and sizes of classes as they
 * may be found.
 *
 * TEST: sources=common/fabric/fab_fit.c,common/fabric/fab_help.c variants=asan
 */
#include "fabric/fab_fit.h"

#include <unistd.h>

#include "test_cmocka.h"

static const size_t sizes[] = {16, 368};

static fab_fit_class_t classes[] = {{"opal_object_t", 16, &sizes[0]},
                                    {"ompi_communicator_t", 368, &sizes[1]}};

static fab_fit_t fit_of(const char *built, const char *runs)
{
    return (fab_fit_t){.component = "PML \"tm\"",
                       .built = built,
                       .runs = runs,
                       .classes = classes,
                       .num = sizeof(classes) / sizeof(classes[0])};
}

static void expect(const char *built, const char *runs, bool is_fit)
{
    const fab_fit_t fit = fit_of(built, runs);
    char why[128];

    assert_int_equal(NULL == fab_fit_why_not(&fit, why, sizeof(why)), is_fit);
}

static void test_series(void **state)
{
    (void) state;
    expect("4.1.4", "4.1.4", true);
    expect("4.1.4", "4.1.8", true);
    expect("5.0.9", "5.0.10", true);
    expect("5.0.10", "5.0.9rc1", true);
    expect("4.1.4", "5.0.7", false);
    expect("5.0.7", "5.1.0", false);
    expect("5.0.7", "6.0.7", false);
    expect("4.1.4", "4.10.4", false);
    expect("4.1.4", "4.1", false);
    expect("5.0.7", "", false);
}

static void test_sizes(void **state)
{
    const fab_fit_t fit = fit_of("5.0.7", "5.0.6");
    char why[128];

    (void) state;
    classes[1].built += 8;
    assert_non_null(fab_fit_why_not(&fit, why, sizeof(why)));
    assert_string_equal(why, "ompi_communicator_t has 368 bytes; it had 376 in the build");
    classes[1].built -= 8;
    assert_null(fab_fit_why_not(&fit, why, sizeof(why)));
}

/* What fab_fit_check() says on standard error. */
static bool check_said(const fab_fit_t *fit, char *said, size_t size)
{
    int ends[2], err = dup(STDERR_FILENO);
    ssize_t len;
    bool is_fit;

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    is_fit = fab_fit_check(fit);
    assert_int_equal(dup2(err, STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    len = read(ends[0], said, size - 1);
    assert_true(len >= 0);
    said[len] = '\0';
    close(ends[0]);
    close(err);
    return is_fit;
}

/* The first process of a host says it. */
static void test_message(void **state)
{
    const fab_fit_t good = fit_of("4.1.4", "4.1.5"), bad = fit_of("4.1.4", "5.0.7");
    char said[2048];

    (void) state;
    assert_true(check_said(&good, said, sizeof(said)));
    assert_string_equal(said, "");
    assert_false(check_said(&bad, said, sizeof(said)));
    assert_non_null(strstr(said, "The PML \"tm\" was built for another Open MPI"));
    assert_non_null(strstr(said, "Built for:  Open MPI 4.1.4\n"));
    assert_non_null(strstr(said, "Running:    Open MPI 5.0.7 ("));
    assert_int_equal(setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1), 0);
    assert_false(check_said(&bad, said, sizeof(said)));
    assert_null(strstr(said, "Built for:"));
    assert_non_null(
        strstr(said, "The PML \"tm\", built for Open MPI 4.1.4, is not used with 5.0.7: "));
    assert_int_equal(unsetenv("OMPI_COMM_WORLD_LOCAL_RANK"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_message),
    };

    unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
