/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies into a ring, through the cache and past it: what is written, and when which is used, by a
 * clock that this test moves.  The same without stores past the cache, as on other processors:
 * plain copies, without a measurement.
 *
 * TEST: sources=@fabric ldflags=-Wl,--wrap=clock_gettime variants=asan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fabric/fab_counters.h"
#include "shm/shm_ring_inl.h"

#if defined(__SSE2__)
#define HAS_PAST 1
#else
#define HAS_PAST 0
#endif

/* What is compiled for other processors. */
#undef __SSE2__
#define fab_shm_copy_in plain_copy_in
void plain_copy_in(fab_trial_t *trial, void *to, const void *from, size_t len);
#include "shm/shm_copy.c"
#undef fab_shm_copy_in

enum { MARGIN = 128, MAX = 8192 };

typedef void (*copy_fn_t)(fab_trial_t *trial, void *to, const void *from, size_t len);

static uint8_t from[MAX + MARGIN], to[MAX + 2 * MARGIN];

/* Copies past the cache since the last call. */
static unsigned past(void)
{
    static unsigned long long before;
    unsigned n = (unsigned) (fab_counters.shm_copies_past_cache - before);

    before = fab_counters.shm_copies_past_cache;
    return n;
}

/* ns that a copy takes, by its way */
static uint64_t cost[2];

/* Each look at the clock comes after a copy, or before one. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    static unsigned long long seen;
    static uint64_t ns;

    (void) clock;
    ns += cost[seen != fab_counters.shm_copies_past_cache];
    seen = fab_counters.shm_copies_past_cache;
    *now = (struct timespec){.tv_sec = (time_t) (ns / 1000000000),
                             .tv_nsec = (long) (ns % 1000000000)};
    return 0;
}

/* A trial that has found this way to be the faster one, and is not due for long. */
static fab_trial_t tried(unsigned way)
{
    fab_trial_t trial = fab_trial_round(FAB_TRIAL_ROUND_LONG);

    trial.second[way] = 1000;
    trial.second[!way] = 4000;
    trial.before = (uint8_t) way;
    return trial;
}

static void copy_by(copy_fn_t fn, fab_trial_t *trial, size_t in, size_t out, size_t len)
{
    memset(to, 0, sizeof(to));
    fn(trial, to + MARGIN + out, from + in, len);
    assert_memory_equal(to + MARGIN + out, from + in, len);
    for (size_t i = 0; i < MARGIN; i++) {
        assert_true(0 == to[i + out] && 0 == to[MARGIN + out + len + i % 64]);
    }
}

static void copy(fab_trial_t *trial, size_t in, size_t out, size_t len)
{
    copy_by(fab_shm_copy_in, trial, in, out, len);
}

/* Either side anywhere in a line, lengths around whole lines; nothing else is written. */
static void test_all_places(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof(from); i++) {
        from[i] = (uint8_t) (i * 7 + (i >> 8)) | 1; /* never 0 */
    }
    (void) past();
    for (size_t out = 0; out < 64; out++) {
        for (size_t len = FAB_SHM_PAST_MIN; len < FAB_SHM_PAST_MIN + 130; len++) {
            fab_trial_t trial = tried(1);
            copy(&trial, len * 5 % 64, out, len);
            trial = tried(0);
            copy(&trial, out, len % 64, len);
            copy_by(plain_copy_in, &trial, out, len % 64, len);
        }
    }
    assert_int_equal(past(), HAS_PAST * 64 * 130);
}

/* However slow the ring is. */
static void test_plain(void **state)
{
    fab_trial_t trial = tried(1);

    (void) state;
    (void) past();
    for (int i = 0; i < 100; i++) {
        copy_by(plain_copy_in, &trial, 0, 0, MAX);
    }
    assert_int_equal(past(), 0);
}

#if HAS_PAST

/* Copies past the cache, of so many. */
static unsigned past_of(fab_trial_t *trial, unsigned n)
{
    (void) past();
    for (unsigned i = 0; i < n; i++) {
        copy(trial, 0, 0, MAX);
    }
    return past();
}

static void test_faster_way(void **state)
{
    enum { TRIES = 4, TRIED = FAB_TRIAL_FIRST + 2 * TRIES, LONG = 2 * FAB_TRIAL_ROUND_LONG };
    fab_trial_t trial = fab_trial_begin();

    (void) state;
    /* distant processors */
    cost[0] = 4000;
    cost[1] = 1000;
    assert_int_equal(past_of(&trial, FAB_TRIAL_FIRST), 0);
    assert_int_equal(past_of(&trial, 2 * TRIES), TRIES);
    assert_true(past_of(&trial, 1000) >= 1000 - 8 * TRIES);
    /* they are near now */
    cost[0] = 500;
    (void) past_of(&trial, LONG);
    assert_true(past_of(&trial, LONG) <= 40 * TRIES);
    /* near from the first copy on; the cost of a source in memory is in both ways */
    for (unsigned source = 0; source <= 100000; source = 10 * source + 1000) {
        trial = fab_trial_begin();
        cost[0] = 500 + source;
        cost[1] = 1000 + source;
        assert_true(past_of(&trial, LONG) <= 40 * TRIES);
        /* not clearly slower */
        trial = fab_trial_begin();
        cost[0] = 1400 + source;
        assert_true(past_of(&trial, LONG) <= 40 * TRIES);
    }
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_places),
        cmocka_unit_test(test_plain),
#if HAS_PAST
        cmocka_unit_test(test_faster_way),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
