/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of long messages that is used again: which lengths, for which lengths, and how much is
 * kept. All that is given back is freed in the end (asan).
 *
 * TEST: sources=common/fabric/fab_spares.c variants=asan
 */
#include "fabric/fab_spares.h"
#include "test_cmocka.h"

enum { HEAD = 48, KIB = 1024, MANY = 100, KEPT_MAX = 4 << 20 };

static fab_spares_t spares;

/* Memory for a message, all of it written. */
static void *get(size_t len, bool is_reused)
{
    bool was_reused;
    void *memory = fab_spares_alloc(&spares, HEAD, len, &was_reused);

    assert_non_null(memory);
    assert_int_equal(was_reused, is_reused);
    memset(memory, 0x5a, HEAD + len);
    return memory;
}

static void test_lengths(void **state)
{
    static const struct {
        size_t first, then;
        bool is_reused;
    } cases[] = {
        {1, 1, false},
        {16 * KIB, 16 * KIB, false},
        {16 * KIB + 1, 32 * KIB, true},
        {32 * KIB + 32, 32 * KIB, true}, /* with a header */
        {40 * KIB, 32 * KIB, false},
        {40 * KIB, 64 * KIB + 32, true},
        {128 * KIB, 65 * KIB, true},
        {256 * KIB, 200 * KIB, true},
        {257 * KIB, 257 * KIB, false},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fab_spares_free(&spares, get(cases[i].first, false), cases[i].first);
        fab_spares_free(&spares, get(cases[i].then, cases[i].is_reused), cases[i].then);
        fab_spares_fini(&spares);
        assert_int_equal(spares.bytes, 0);
    }
}

static void test_limit(void **state)
{
    void *all[MANY];
    size_t num;

    (void) state;
    for (int i = 0; i < MANY; i++) {
        all[i] = get(64 * KIB, false);
    }
    for (int i = 0; i < MANY; i++) {
        fab_spares_free(&spares, all[i], 64 * KIB);
        assert_true(spares.bytes <= KEPT_MAX);
    }
    num = spares.bytes / (64 * KIB);
    assert_true(num > KEPT_MAX / (64 * KIB) - 2);
    for (size_t i = 0; i < num; i++) {
        all[i] = get(64 * KIB, true);
    }
    for (size_t i = 0; i < num; i++) {
        fab_spares_free(&spares, all[i], 64 * KIB);
    }
    /* a program that goes on with another length keeps memory of that one */
    fab_spares_free(&spares, get(256 * KIB, false), 256 * KIB);
    assert_true(spares.bytes <= KEPT_MAX);
    fab_spares_free(&spares, get(256 * KIB, true), 256 * KIB);
    fab_spares_fini(&spares);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
