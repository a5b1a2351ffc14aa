/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies into a ring, through the cache and past it: what is written, and when which is used.  The
 * same without stores past the cache, as on other processors: plain copies, without a measurement.
 *
 * TEST: sources=@fabric variants=asan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/fab_counters.h"
#include "fabric/fab_params.h"
#include "shm/shm_ring_inl.h"

#if defined(__SSE2__)
#define HAS_PAST 1
#else
#define HAS_PAST 0
#endif

/* What is compiled for other processors. */
#undef __SSE2__
#define fab_shm_copy_in plain_copy_in
void plain_copy_in(fab_shm_pace_t *pace, void *to, const void *from, size_t len);
#include "shm/shm_copy.c"
#undef fab_shm_copy_in

enum { MARGIN = 128, MAX = 8192 };

typedef void (*copy_fn_t)(fab_shm_pace_t *pace, void *to, const void *from, size_t len);

static uint8_t from[MAX + MARGIN], to[MAX + 2 * MARGIN];

/* Copies past the cache since the last call. */
static unsigned past(void)
{
    static unsigned long long before;
    unsigned n = (unsigned) (fab_counters.shm_copies_past_cache - before);

    before = fab_counters.shm_copies_past_cache;
    return n;
}

static void copy_by(copy_fn_t fn, fab_shm_pace_t *pace, size_t in, size_t out, size_t len)
{
    memset(to, 0, sizeof(to));
    fn(pace, to + MARGIN + out, from + in, len);
    assert_memory_equal(to + MARGIN + out, from + in, len);
    for (size_t i = 0; i < MARGIN; i++) {
        assert_true(0 == to[i + out] && 0 == to[MARGIN + out + len + i % 64]);
    }
}

static void copy(fab_shm_pace_t *pace, size_t in, size_t out, size_t len)
{
    copy_by(fab_shm_copy_in, pace, in, out, len);
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
            fab_shm_pace_t pace = {.past = 1};
            copy(&pace, len * 5 % 64, out, len);
            assert_int_equal(pace.past, 1 - HAS_PAST);
            copy(&pace, out, len % 64, len);
            copy_by(plain_copy_in, &pace, out, len % 64, len);
        }
    }
    assert_int_equal(past(), HAS_PAST * 64 * 130);
}

/* However slow the ring is. */
static void test_plain(void **state)
{
    fab_shm_pace_t pace = {0};

    (void) state;
    (void) past();
    fab_params.shm_slow_rate = 1 << 30;
    for (int i = 0; i < 100; i++) {
        copy_by(plain_copy_in, &pace, 0, 0, MAX);
        assert_true(0 == pace.past && 0 == pace.last && 0 == pace.untimed);
    }
    assert_int_equal(past(), 0);
}

#if HAS_PAST

/* How many copies go past the cache before the ring is tried again. */
static unsigned round_of(fab_shm_pace_t *pace)
{
    unsigned n;

    copy(pace, 0, 0, MAX); /* through the cache, timed */
    assert_int_equal(past(), 0);
    n = pace->past;
    for (unsigned i = 0; i < n; i++) {
        copy(pace, 0, 0, MAX);
    }
    assert_int_equal(past(), n);
    assert_int_equal(pace->past, 0);
    return n;
}

static void test_slow(void **state)
{
    static const unsigned rounds[] = {1, 3, 7, 15, 31, 63, 127, 255, 255};
    fab_shm_pace_t pace = {0};

    (void) state;
    (void) past();
    fab_params.shm_slow_rate = 1 << 30; /* any copy is slower */
    while (0 == pace.past) {
        copy(&pace, 0, 0, MAX);
    }
    assert_int_equal(past(), 0);
    assert_int_equal(pace.past, rounds[0]);
    copy(&pace, 0, 0, MAX);
    assert_int_equal(past(), 1);
    for (size_t i = 1; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        assert_int_equal(round_of(&pace), rounds[i]);
    }
    fab_params.shm_slow_rate = 0; /* no copy is slow */
    for (unsigned last = 255 / 2; last > 0; last /= 2) {
        assert_int_equal(round_of(&pace), 0);
        assert_int_equal(pace.last, last);
    }
    for (int i = 0; i < 100; i++) {
        assert_int_equal(round_of(&pace), 0);
    }
    assert_int_equal(pace.last, 0);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_places),
        cmocka_unit_test(test_plain),
#if HAS_PAST
        cmocka_unit_test(test_slow),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
