/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way btl_fabric chooses for puts and gets, and what a try is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "btl_fabric/btl_fabric_pace.h"

enum {
    LEN = 1 << 20,
    SINGLE_TRIES = 2 * FAB_TRIAL_TRIES_SURE,
    WINDOW_TRIES = 2 * FAB_TRIAL_TRIES,
};

static mca_btl_fabric_pace_t begun(bool is_window)
{
    static const mca_btl_fabric_pace_t nothing;
    mca_btl_fabric_pace_t pace = {.number = 0};

    mca_btl_fabric_pace_begin(&pace, is_window, &nothing);
    return pace;
}

/* So many operations, each of which ends before the next one. Returns how many were offers. */
static unsigned one_by_one(mca_btl_fabric_pace_t *pace, unsigned times, const uint64_t *ns,
                           unsigned *tried)
{
    static uint64_t now;
    unsigned offers = 0;

    *tried = 0;
    for (unsigned i = 0; i < times; i++) {
        mca_btl_fabric_try_t try;
        mca_btl_fabric_way_t way = mca_btl_fabric_pace_next(pace, &try);
        offers += BTL_FABRIC_BY_OFFER == way;
        if (NULL != try.pace) {
            ++*tried;
            mca_btl_fabric_try_begin(&try, now);
            mca_btl_fabric_try_end(&try, LEN, now + ns[way]);
        }
        now += ns[way] + 1000;
    }
    return offers;
}

/* Of single operations each is a try, and what passes between them does not count. */
static void single_ones(void **state)
{
    static const uint64_t offers[2] = {300, 200}, calls[2] = {200, 300};
    mca_btl_fabric_pace_t pace = begun(false);
    unsigned tried;

    (void) state;
    assert_int_equal(0, one_by_one(&pace, FAB_TRIAL_FIRST, offers, &tried));
    assert_int_equal(0, tried);
    assert_int_equal(32 - 4, one_by_one(&pace, 32, offers, &tried));
    assert_int_equal(SINGLE_TRIES, tried);
    assert_int_equal(4, one_by_one(&pace, 4096, calls, &tried));
    assert_int_equal(SINGLE_TRIES, tried);
}

/* In a window a batch is one use of the trial, and what passes between its operations counts. */
static void windows(void **state)
{
    static const uint64_t offers[2] = {300, 200};
    mca_btl_fabric_pace_t pace = begun(true);
    unsigned tried;

    (void) state;
    assert_int_equal(0, one_by_one(&pace, FAB_TRIAL_FIRST * BTL_FABRIC_BATCH, offers, &tried));
    assert_int_equal(0, tried);
    assert_int_equal(2 * BTL_FABRIC_BATCH, one_by_one(&pace, 4 * BTL_FABRIC_BATCH, offers, &tried));
    assert_int_equal(WINDOW_TRIES * BTL_FABRIC_BATCH, tried);
    assert_int_equal(28 * BTL_FABRIC_BATCH,
                     one_by_one(&pace, 28 * BTL_FABRIC_BATCH, offers, &tried));
    assert_int_equal(0, tried);
    assert_int_equal((15 * 1300 + 300) / 16, fab_trial_time(&pace.trial, BTL_FABRIC_BY_CALL));
    assert_int_equal((15 * 1200 + 200) / 16, fab_trial_time(&pace.trial, BTL_FABRIC_BY_OFFER));
}

/* Longer operations begin in the way that was faster for shorter ones. */
static void longer_ones_inherit(void **state)
{
    static const uint64_t ns[2] = {300, 200};
    mca_btl_fabric_pace_t shorter = begun(false), pace = {.number = 0};
    unsigned tried;

    (void) state;
    mca_btl_fabric_pace_begin(&pace, false, &shorter); /* not known yet */
    assert_int_equal(0, one_by_one(&pace, 1, ns, &tried));
    (void) one_by_one(&shorter, FAB_TRIAL_FIRST + SINGLE_TRIES + 1, ns, &tried);
    pace = (mca_btl_fabric_pace_t){.number = 0};
    mca_btl_fabric_pace_begin(&pace, false, &shorter);
    assert_int_equal(FAB_TRIAL_FIRST, one_by_one(&pace, FAB_TRIAL_FIRST, ns, &tried));
    assert_int_equal(0, tried);
}

/* A batch whose first round of tries begins. */
static mca_btl_fabric_pace_t about_to_try(void)
{
    static const uint64_t ns[2];
    mca_btl_fabric_pace_t pace = begun(true);
    unsigned tried;

    (void) one_by_one(&pace, FAB_TRIAL_FIRST * BTL_FABRIC_BATCH, ns, &tried);
    return pace;
}

/* A try of operations that are under way together lasts until all have ended, or are very many. */
static void window_is_one_try(void **state)
{
    mca_btl_fabric_pace_t pace = about_to_try();
    mca_btl_fabric_try_t tries[BTL_FABRIC_BATCH_MAX], next;
    uint32_t number;

    (void) state;
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(BTL_FABRIC_BY_CALL, mca_btl_fabric_pace_next(&pace, &tries[i]));
        assert_ptr_equal(&pace, tries[i].pace);
        mca_btl_fabric_try_begin(&tries[i], 1000 + i);
    }
    assert_int_equal(1000, pace.since);
    for (unsigned i = 0; i < 20; i++) {
        mca_btl_fabric_try_end(&tries[i], LEN, 2000 + i);
    }
    number = pace.number;
    (void) mca_btl_fabric_pace_next(&pace, &next);
    assert_int_equal(number + 1, pace.number);
    assert_int_equal(1019 / 20, fab_trial_time(&pace.trial, BTL_FABRIC_BY_CALL));
    mca_btl_fabric_try_end(&tries[0], LEN, 9000); /* it belongs to a try that is over */
    assert_int_equal(0, pace.bytes);

    pace = about_to_try();
    number = pace.number + 1;
    for (unsigned i = 0; i < BTL_FABRIC_BATCH_MAX; i++) {
        (void) mca_btl_fabric_pace_next(&pace, &tries[i]);
        assert_int_equal(number, tries[i].number);
        mca_btl_fabric_try_begin(&tries[i], 1000);
    }
    (void) mca_btl_fabric_pace_next(&pace, &next);
    assert_int_equal(number + 1, next.number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_ones),
        cmocka_unit_test(windows),
        cmocka_unit_test(longer_ones_inherit),
        cmocka_unit_test(window_is_one_try),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
