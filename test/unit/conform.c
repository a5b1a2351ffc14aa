/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conformance of a provider: the table of the tests.
 */
#include "conform.h"

static void run_all(world_fn_t fn)
{
    assert_int_equal(world_run(1, false, fn), 0);
    assert_int_equal(world_run(1, true, fn), 0);
    assert_int_equal(world_run(2, false, fn), 0);
    assert_int_equal(world_run(2, true, fn), 0);
}

#define TEST_ALL(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void) state;                                                                              \
        run_all(conform_##name);                                                                   \
    }

TEST_ALL(order)
TEST_ALL(post)
TEST_ALL(items)
TEST_ALL(rma)
TEST_ALL(outs)
TEST_ALL(users)
TEST_ALL(users_close)
TEST_ALL(users_items)
TEST_ALL(region)

static void test_users_failed(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, conform_users_failed), 0);
    assert_int_equal(world_run(2, true, conform_users_failed), 0);
}

static void test_users_flood(void **state)
{
    (void) state;
    assert_int_equal(world_run(1, false, conform_users_flood), 0);
    assert_int_equal(world_run(2, false, conform_users_flood), 0);
}

static void test_passive(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, conform_passive), 0);
    assert_int_equal(world_run(2, true, conform_passive), 0);
}

static void test_reopen(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, conform_reopen), 0);
}

static void test_unknown(void **state)
{
    (void) state;
    assert_int_equal(world_run(1, false, conform_unknown), 0);
    assert_int_equal(world_run(2, false, conform_unknown), 0);
}

static void test_nested(void **state)
{
    (void) state;
    assert_int_equal(world_run(1, false, conform_nested), 0);
}

static void test_threads(void **state)
{
    (void) state;
    assert_int_equal(world_run(1, true, conform_threads), 0);
    assert_int_equal(world_run(2, true, conform_threads), 0);
}

static void test_many(void **state)
{
    (void) state;
    assert_int_equal(world_run(32, false, conform_many), 0);
}

/* Of shm: elsewhere it is a hint. */
static void test_enough(void **state)
{
    char *providers = fab_params.providers;

    (void) state;
    fab_params.providers = "shm";
    assert_int_equal(world_run(3, false, conform_enough), 0);
    fab_params.providers = providers;
}

/* The same with room for a few messages only, which is used up all the time. */
static void test_tight(void **state)
{
    (void) state;
    fab_params.shm_ring_size = 4096;
    fab_limits.ofi_window = 4;
    fab_limits.ofi_buffers = 2;
    fab_limits.verbs_window = 4;
    fab_params.verbs_buffers = 128;
    assert_int_equal(world_run(2, false, conform_order), 0);
    assert_int_equal(world_run(2, false, conform_post), 0);
    assert_int_equal(world_run(2, false, conform_items), 0);
    fab_params.shm_ring_size = 0;
    fab_limits.ofi_window = 256;
    fab_limits.ofi_buffers = 8;
    fab_limits.verbs_window = 64;
    fab_params.verbs_buffers = 4096;
}

int conform_turn(int parts)
{
    const char *is_short = getenv("TM_TEST_SHORT"), *choice = getenv("TM_TEST_CHOICE");

    return NULL != is_short && 0 == strcmp(is_short, "yes") && NULL != choice
               ? atoi(choice) / 100 % parts
               : -1;
}

/* Half of the tests, by the time they take: those with an e in their names, or the others. */
#define HALF "test_*e*"

int conform_main(int argc, char **argv, const char *providers)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),       cmocka_unit_test(test_post),
        cmocka_unit_test(test_items),       cmocka_unit_test(test_rma),
        cmocka_unit_test(test_passive),     cmocka_unit_test(test_reopen),
        cmocka_unit_test(test_unknown),     cmocka_unit_test(test_nested),
        cmocka_unit_test(test_threads),     cmocka_unit_test(test_many),
        cmocka_unit_test(test_outs),        cmocka_unit_test(test_tight),
        cmocka_unit_test(test_users),       cmocka_unit_test(test_users_close),
        cmocka_unit_test(test_users_items), cmocka_unit_test(test_users_failed),
        cmocka_unit_test(test_users_flood), cmocka_unit_test(test_region),
        cmocka_unit_test(test_enough),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    if (NULL != providers) {
        world_use_providers(providers);
        /* A short run has a half by verbs, the other one by all else; both by self and shm. */
        if (argc <= 1 && conform_turn(2) == (0 == strcmp(providers, "verbs"))) {
            cmocka_set_test_filter(HALF);
        } else if (argc <= 1 && conform_turn(2) >= 0) {
            cmocka_set_skip_filter(HALF);
        }
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
