/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conformance of a provider: the table of the tests.
 */
#include "conform.h"

#include "test_fab_jobs.h"

/* Rows of the table. */
#define JOB(name, num, ...) WORLD_JOB("test_" #name, conform_##name, .ranks = (num), __VA_ARGS__)
#define THREADED(name, num) JOB(name, num, .is_threaded = true)
#define ALL(name)           JOB(name, 1), THREADED(name, 1), JOB(name, 2), THREADED(name, 2)

/* Room for a few messages only, which is used up all the time. */
#define TIGHT(name)                                                                                \
    WORLD_JOB("test_tight", conform_##name,                                                        \
              .number = {{&fab_params.shm_ring_size, 4096},                                        \
                         {&fab_limits.ofi_window, 4},                                              \
                         {&fab_limits.ofi_buffers, 2},                                             \
                         {&fab_limits.verbs_window, 4},                                            \
                         {&fab_params.verbs_buffers, 128}})

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
        ALL(order),
        ALL(post),
        ALL(items),
        ALL(rma),
        JOB(passive, 2),
        THREADED(passive, 2),
        JOB(reopen, 2),
        JOB(unknown, 1),
        JOB(unknown, 2),
        JOB(nested, 1),
        THREADED(threads, 1),
        THREADED(threads, 2),
        JOB(many, 32),
        ALL(outs),
        TIGHT(order),
        TIGHT(post),
        TIGHT(items),
        ALL(users),
        ALL(users_close),
        ALL(users_items),
        JOB(users_failed, 2),
        THREADED(users_failed, 2),
        JOB(users_flood, 1),
        JOB(users_flood, 2),
        ALL(region),
        JOB(enough, 3, .text = {&fab_params.providers, "shm"}), /* elsewhere it is a hint */
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
