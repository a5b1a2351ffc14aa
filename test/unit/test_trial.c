/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of two ways a trial chooses, and how often it tries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fabric/fab_trial.h"

/* Use the trial that often; way w takes ns[w] for each try. Returns how often way 1 was used. */
static unsigned use(fab_trial_t *trial, unsigned times, const uint64_t *ns, unsigned *tries)
{
    unsigned ones = 0;

    *tries = 0;
    for (unsigned i = 0; i < times; i++) {
        bool is_try;
        unsigned way = fab_trial_next(trial, &is_try);
        ones += way;
        if (is_try) {
            fab_trial_note(trial, way, 1048576, ns[way]);
            ++*tries;
        }
    }
    return ones;
}

/* A trial whose first round begins. */
static fab_trial_t begun(void)
{
    static const uint64_t ns[2];
    fab_trial_t trial = fab_trial_begin();
    unsigned tries;

    assert_int_equal(0, use(&trial, FAB_TRIAL_FIRST, ns, &tries));
    assert_int_equal(0, tries);
    return trial;
}

static void uses_the_faster_way(void **state)
{
    static const uint64_t slow_one[] = {100, 101}, fast_one[] = {101, 100}, equal[] = {7, 7};
    fab_trial_t trial = begun();
    unsigned tries;

    (void) state;
    assert_int_equal(4, use(&trial, 256, slow_one, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(4, use(&trial, 256, equal, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(28, use(&trial, 32, fast_one, &tries)); /* a change is checked soon */
    assert_int_equal(8, tries);
    assert_int_equal(4 * 252, use(&trial, 4 * 256, fast_one, &tries));
    assert_int_equal(32, tries);
}

/* A change that the check takes back is not tried again for long. */
static void changes_are_checked(void **state)
{
    static const uint64_t slow_one[] = {100, 101}, fast_one[] = {101, 100};
    fab_trial_t trial = begun();
    unsigned tries;

    (void) state;
    assert_int_equal(28, use(&trial, 32, fast_one, &tries));
    assert_int_equal(4, use(&trial, 4096, slow_one, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(28, use(&trial, 32, fast_one, &tries));
    assert_int_equal(8, tries);
}

/* Times are compared per byte. */
static void lengths_may_differ(void **state)
{
    fab_trial_t trial = begun();
    bool is_try;

    (void) state;
    for (unsigned i = 0; i < 8; i++) {
        unsigned way = fab_trial_next(&trial, &is_try);
        fab_trial_note(&trial, way, 0 == way ? 20000 : 100000, 0 == way ? 1000 : 4000);
    }
    assert_int_equal(1, fab_trial_next(&trial, &is_try));
}

/* A time per MiB that does not fit is a long one, and known. */
static void times_may_be_very_long(void **state)
{
    fab_trial_t trial = begun();
    bool is_try;

    (void) state;
    for (unsigned i = 0; i < 8; i++) {
        unsigned way = fab_trial_next(&trial, &is_try);
        fab_trial_note(&trial, way, 1024, 0 == way ? UINT64_C(1) << 22 : 1000);
    }
    assert_true(fab_trial_knows(&trial));
    assert_int_equal(1, fab_trial_best(&trial));
}

/*
 * Tries may end late, in any order, or never: while a time is unknown the way is used that was used
 * before, at first way 0.
 */
static void tries_may_never_end(void **state)
{
    static const uint64_t fast_one[] = {101, 100};
    fab_trial_t trial = begun();
    unsigned tries;
    bool is_try;

    (void) state;
    for (unsigned i = 0; i < 8; i++) {
        (void) fab_trial_next(&trial, &is_try);
        assert_true(is_try);
    }
    assert_int_equal(0, fab_trial_next(&trial, &is_try));
    fab_trial_note(&trial, 1, 1, UINT64_MAX); /* longer than can be noted */
    fab_trial_note(&trial, 1, 4096, 0);
    fab_trial_note(&trial, 1, 4096, 0);
    assert_int_equal(0, fab_trial_next(&trial, &is_try));
    fab_trial_note(&trial, 0, 4096, 1);
    assert_int_equal(0, fab_trial_next(&trial, &is_try));
    fab_trial_note(&trial, 0, 4096, 1);
    assert_int_equal(1, fab_trial_next(&trial, &is_try));

    trial = begun();
    assert_int_equal(28, use(&trial, 32, fast_one, &tries));
    for (unsigned i = 0; i < 8; i++) {
        (void) fab_trial_next(&trial, &is_try);
        assert_true(is_try);
    }
    assert_int_equal(1, fab_trial_next(&trial, &is_try));
}

/* Of four tries of each way the second least time counts. */
static void odd_times_are_passed_over(void **state)
{
    static const uint64_t ns[] = {300, 1, 400, 310, 100000, 301, 299, 302};
    fab_trial_t trial = fab_trial_begin();
    unsigned tries;
    bool is_try;

    (void) state;
    assert_int_equal(0, use(&trial, FAB_TRIAL_FIRST, ns, &tries));
    for (unsigned i = 0; i < 8; i++) {
        unsigned way = fab_trial_next(&trial, &is_try);
        assert_true(is_try);
        assert_int_equal(i / 4, way);
        assert_int_equal(0, fab_trial_best(&trial));
        fab_trial_note(&trial, way, 1048576, ns[i]);
    }
    assert_int_equal(300, trial.second[0]);
    assert_int_equal(301, trial.second[1]);
    assert_int_equal(0, fab_trial_next(&trial, &is_try));
}

/* Rounds are longer where one way is clearly slower. */
static void clear_rounds_are_long(void **state)
{
    static const uint64_t near[] = {100, 140}, clear[] = {150, 100};
    fab_trial_t trial = fab_trial_begin();
    unsigned tries;

    (void) state;
    assert_int_equal(0, use(&trial, FAB_TRIAL_FIRST, near, &tries));
    assert_int_equal(4, use(&trial, 256, near, &tries));
    assert_int_equal(28, use(&trial, 32, clear, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(508, use(&trial, 16 * 32, clear, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(4092, use(&trial, 4096, clear, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(4, use(&trial, 32, near, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(4, use(&trial, 256, near, &tries));
    assert_int_equal(8, tries);
}

/* Tries begin with the way that was used before; the other one is given up if it is far slower. */
static void slow_way_is_given_up(void **state)
{
    static const uint64_t slow_one[] = {100, 200}, less_slow[] = {100, 199},
                          slow_zero[] = {200, 100};
    fab_trial_t trial = fab_trial_begin();
    unsigned tries;

    (void) state;
    assert_int_equal(0, use(&trial, FAB_TRIAL_FIRST, slow_one, &tries));
    assert_int_equal(4, use(&trial, 256, slow_one, &tries)); /* of the first round all are made */
    assert_int_equal(8, tries);
    assert_int_equal(2, use(&trial, 256 - 2, slow_one, &tries)); /* nor is the second one longer */
    assert_int_equal(6, tries);
    assert_int_equal(2, use(&trial, 4096 - 2, slow_one, &tries));
    assert_int_equal(6, tries);
    assert_int_equal(4, use(&trial, 4096, less_slow, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(28, use(&trial, 32, slow_zero, &tries)); /* way 0, used before, is not */
    assert_int_equal(8, tries);
    assert_int_equal(512 - 4, use(&trial, 512 - 2, slow_zero, &tries));
    assert_int_equal(6, tries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uses_the_faster_way),   cmocka_unit_test(changes_are_checked),
        cmocka_unit_test(lengths_may_differ),    cmocka_unit_test(times_may_be_very_long),
        cmocka_unit_test(tries_may_never_end),   cmocka_unit_test(odd_times_are_passed_over),
        cmocka_unit_test(clear_rounds_are_long), cmocka_unit_test(slow_way_is_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
