/* SPDX-License-Identifier: BSD-3-Clause */
/* TEST: cflags=-Ipml_tm */
/* Which of two ways a trial chooses, and how often it tries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pml_tm_trial.h"

/* Use the trial that often; way w takes ns[w] for each try. Returns how often way 1 was used. */
static unsigned use(mca_pml_tm_trial_t *trial, unsigned times, const uint64_t *ns, unsigned *tries)
{
    unsigned ones = 0;

    *tries = 0;
    for (unsigned i = 0; i < times; i++) {
        bool is_try, is_due = mca_pml_tm_trial_is_due(trial);
        unsigned way = mca_pml_tm_trial_next(trial, &is_try);
        assert_true(is_due == is_try);
        ones += way;
        if (is_try) {
            mca_pml_tm_trial_note(trial, way, 1048576, ns[way]);
            ++*tries;
        }
    }
    return ones;
}

/* A trial whose first round begins. */
static mca_pml_tm_trial_t begun(void)
{
    static const uint64_t ns[2];
    mca_pml_tm_trial_t trial = {.turn = 0};
    unsigned tries;

    assert_int_equal(0, use(&trial, PML_TM_TRIAL_FIRST, ns, &tries));
    assert_int_equal(0, tries);
    return trial;
}

static void uses_the_faster_way(void **state)
{
    static const uint64_t slow_one[] = {100, 101}, fast_one[] = {101, 100}, equal[] = {7, 7};
    mca_pml_tm_trial_t trial = begun();
    unsigned tries;

    (void) state;
    assert_int_equal(62, use(&trial, 64, fast_one, &tries));
    assert_int_equal(4, tries);
    assert_int_equal(2, use(&trial, 256, slow_one, &tries));
    assert_int_equal(4, tries);
    assert_int_equal(2, use(&trial, 256, equal, &tries));
    assert_int_equal(4, tries);
    assert_int_equal(1016, use(&trial, 4 * 256, fast_one, &tries));
    assert_int_equal(16, tries);
}

static void one_delay_decides_nothing(void **state)
{
    static const uint64_t ns[] = {200, 200, 1000000, 100};
    mca_pml_tm_trial_t trial = begun();
    bool is_try;

    (void) state;
    for (unsigned i = 0; i < 4; i++) {
        unsigned way = mca_pml_tm_trial_next(&trial, &is_try);
        assert_true(is_try);
        assert_int_equal(i / 2, way);
        mca_pml_tm_trial_note(&trial, way, 1048576, ns[i]);
    }
    assert_int_equal(1, mca_pml_tm_trial_next(&trial, &is_try));
    assert_false(is_try);
}

/* Times are compared per byte. */
static void lengths_may_differ(void **state)
{
    mca_pml_tm_trial_t trial = begun();
    bool is_try;

    (void) state;
    for (unsigned i = 0; i < 4; i++) {
        unsigned way = mca_pml_tm_trial_next(&trial, &is_try);
        mca_pml_tm_trial_note(&trial, way, 0 == way ? 20000 : 100000, 0 == way ? 1000 : 4000);
    }
    assert_int_equal(1, mca_pml_tm_trial_next(&trial, &is_try));
}

/* The first round may begin sooner. */
static void first_uses_may_be_fewer(void **state)
{
    static const uint64_t fast_one[] = {101, 100};
    mca_pml_tm_trial_t trial = mca_pml_tm_trial_begin(4, false);
    unsigned tries;

    (void) state;
    assert_int_equal(0, use(&trial, 4, fast_one, &tries));
    assert_int_equal(0, tries);
    assert_int_equal(14, use(&trial, 16, fast_one, &tries));
    assert_int_equal(4, tries);
    assert_int_equal(62, use(&trial, 64, fast_one, &tries));
    assert_int_equal(4, tries);
}

/*
 * Tries may end late, in any order, or never: while a time is unknown the way is used that was used
 * before, at first way 0.
 */
static void tries_may_never_end(void **state)
{
    static const uint64_t fast_one[] = {101, 100};
    mca_pml_tm_trial_t trial = begun();
    unsigned tries;
    bool is_try;

    (void) state;
    for (unsigned i = 0; i < 4; i++) {
        (void) mca_pml_tm_trial_next(&trial, &is_try);
    }
    assert_int_equal(0, mca_pml_tm_trial_next(&trial, &is_try));
    mca_pml_tm_trial_note(&trial, 1, 1, UINT64_MAX); /* longer than can be noted: it never counts */
    assert_int_equal(0, mca_pml_tm_trial_next(&trial, &is_try));
    mca_pml_tm_trial_note(&trial, 1, 4096, 0);
    assert_int_equal(0, mca_pml_tm_trial_next(&trial, &is_try));
    mca_pml_tm_trial_note(&trial, 0, 4096, 1);
    assert_int_equal(1, mca_pml_tm_trial_next(&trial, &is_try));

    trial = begun();
    assert_int_equal(62, use(&trial, 64, fast_one, &tries));
    for (unsigned i = 0; i < 4; i++) {
        (void) mca_pml_tm_trial_next(&trial, &is_try);
        assert_true(is_try);
    }
    assert_int_equal(1, mca_pml_tm_trial_next(&trial, &is_try));
    mca_pml_tm_trial_note(&trial, 0, 4096, 1);
    assert_int_equal(1, mca_pml_tm_trial_next(&trial, &is_try));
    mca_pml_tm_trial_note(&trial, 1, 4096, 2);
    assert_int_equal(0, mca_pml_tm_trial_next(&trial, &is_try));
}

/* What would be tried next is known before it is. */
static void next_way_is_known(void **state)
{
    mca_pml_tm_trial_t trial = begun();
    bool is_try;

    (void) state;
    for (unsigned i = 0; i < 200; i++) {
        bool is_due = mca_pml_tm_trial_is_due(&trial);
        unsigned due = mca_pml_tm_trial_due(&trial);
        unsigned best = mca_pml_tm_trial_best(&trial);
        unsigned way = mca_pml_tm_trial_next(&trial, &is_try);
        assert_int_equal(is_due ? due : best, way);
        if (is_try) {
            mca_pml_tm_trial_note(&trial, way, 4096, 200 - i - 50 * way);
        }
    }
}

/* A sure trial: four tries of each way, of which the second least time counts. */
static void sure_trials_pass_over_first_times(void **state)
{
    static const uint64_t ns[] = {300, 1, 400, 310, 100000, 301, 299, 302};
    mca_pml_tm_trial_t trial = mca_pml_tm_trial_begin(PML_TM_TRIAL_FIRST, true);
    unsigned tries;
    bool is_try;

    (void) state;
    assert_int_equal(0, use(&trial, PML_TM_TRIAL_FIRST, ns, &tries));
    for (unsigned i = 0; i < 8; i++) {
        unsigned way = mca_pml_tm_trial_next(&trial, &is_try);
        assert_true(is_try);
        assert_int_equal(i / 4, way);
        assert_int_equal(0, mca_pml_tm_trial_best(&trial));
        mca_pml_tm_trial_note(&trial, way, 1048576, ns[i]);
    }
    assert_int_equal(300, mca_pml_tm_trial_time(&trial, 0));
    assert_int_equal(301, mca_pml_tm_trial_time(&trial, 1));
    assert_int_equal(0, mca_pml_tm_trial_next(&trial, &is_try));
}

/* Rounds are longer where one way is clearly slower. */
static void clear_rounds_are_long(void **state)
{
    static const uint64_t near[] = {100, 140}, clear[] = {150, 100};
    mca_pml_tm_trial_t trial = mca_pml_tm_trial_begin(PML_TM_TRIAL_FIRST, true);
    unsigned tries;

    (void) state;
    assert_int_equal(0, use(&trial, PML_TM_TRIAL_FIRST, near, &tries));
    assert_int_equal(4, use(&trial, 256, near, &tries));
    assert_int_equal(252, use(&trial, 256, clear, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(4092, use(&trial, 4096, clear, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(4, use(&trial, 4096, near, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(4, use(&trial, 256, near, &tries));
    assert_int_equal(8, tries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uses_the_faster_way),
        cmocka_unit_test(one_delay_decides_nothing),
        cmocka_unit_test(lengths_may_differ),
        cmocka_unit_test(first_uses_may_be_fewer),
        cmocka_unit_test(tries_may_never_end),
        cmocka_unit_test(next_way_is_known),
        cmocka_unit_test(sure_trials_pass_over_first_times),
        cmocka_unit_test(clear_rounds_are_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
