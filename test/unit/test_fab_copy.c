/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies (fab_copy.h): what is written, and how the probe judges processors, which are played here
 * by a copy that takes the time that the test says.
 *
 * TEST: variants=asan
 */
#include "fabric/fab_clock.h"
#include "test_cmocka.h"

enum { PLACE_MAX = 4096 };

static uint64_t clock_ns;
static uint64_t even_ns, behind_ns; /* what a copy takes, by its place */
static unsigned delayed;            /* one copy in so many takes long; 0: none */

static uint64_t played_now(void)
{
    return clock_ns;
}

static void *played_copy(void *to, const void *from, size_t len)
{
    static unsigned n;
    const uintptr_t behind = ((uintptr_t) from - (uintptr_t) to) % PLACE_MAX;

    clock_ns += behind > 0 && behind <= 300 ? behind_ns : even_ns;
    if (0 != delayed && 0 == ++n % delayed) {
        clock_ns += 1000000;
    }
    return memmove(to, from, len);
}

#include "fabric/fab_copy.h"

#define fab_now_ns played_now
#define memcpy     played_copy
#include "fabric/fab_copy.c"
#undef fab_now_ns
#undef memcpy

static void test_short_copy(void **state)
{
    uint8_t from[FAB_COPY_SHORT_MAX], to[FAB_COPY_SHORT_MAX + 8];

    (void) state;
    for (size_t len = 0; len <= sizeof(from); len++) {
        for (size_t i = 0; i < sizeof(from); i++) {
            from[i] = (uint8_t) (i + 1);
        }
        memset(to, 0, sizeof(to));
        fab_copy_short(to, from, len);
        for (size_t i = 0; i < sizeof(to); i++) {
            assert_int_equal(to[i], i < len ? i + 1 : 0);
        }
    }
}

/* Lengths around whole parts, with either side anywhere in a line; nothing else is written. */
static void copy_all_lengths(bool is_whole)
{
    enum { MAX = 3 * FAB_COPY_PART + 64, MARGIN = 128 };
    uint8_t *from = malloc(MAX + MARGIN), *to = malloc(MAX + 2 * MARGIN);

    fab_copy_is_whole = is_whole;
    for (size_t i = 0; i < MAX + MARGIN; i++) {
        from[i] = (uint8_t) (i * 7 + (i >> 8)) | 1; /* never 0 */
    }
    for (size_t len = 0; len <= MAX; len += len % FAB_COPY_PART < 130 ? 1 : 61) {
        const size_t in = len * 5 % 64, out = len * 7 % 64;
        memset(to, 0, MAX + 2 * MARGIN);
        fab_copy(to + MARGIN + out, from + in, len);
        assert_memory_equal(to + MARGIN + out, from + in, len);
        for (size_t i = 0; i < MARGIN; i++) {
            assert_true(0 == to[i + out] && 0 == to[MARGIN + out + len + i % 64]);
        }
    }
    free(from);
    free(to);
}

static void test_copy(void **state)
{
    (void) state;
    copy_all_lengths(false);
    copy_all_lengths(true);
}

static bool probe(uint64_t even, uint64_t behind)
{
    even_ns = even;
    behind_ns = behind;
    fab_copy_probe();
    return fab_copy_is_whole;
}

static void test_probe(void **state)
{
    (void) state;
    for (delayed = 0; delayed < 12; delayed += 11) {
        assert_true(probe(36, 37));
        assert_true(probe(50, 80));
        assert_false(probe(43, 1137));
        assert_false(probe(43, 200));
        assert_true(probe(36, 36));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_copy),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_probe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
