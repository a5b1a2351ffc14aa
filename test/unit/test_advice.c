/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The report at the job's end: how its numbers are added up, and each of its advices where it is
 * due, and where it nearly is.
 *
 * TEST: sources=pml_tm/pml_tm_advice.c
 */
#include "pml_tm/pml_tm_advice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 16, FEW = 6 };

typedef struct {
    unsigned which;
    uint64_t value;
} number_t;

/* The numbers of a job that is well: all messages were expected and short, nobody waited. */
static void set_good(uint64_t *values)
{
    memset(values, 0, PML_TM_REPORT_VALUES * sizeof(*values));
    values[PML_TM_REPORT_EAGER] = values[PML_TM_REPORT_EXPECTED] = 100000;
    values[PML_TM_REPORT_RUN_MS] = 100000;
    values[PML_TM_REPORT_RANKS] = 4;
}

static int advise(const number_t *numbers, char advice[][PML_TM_ADVICE_SIZE])
{
    uint64_t values[PML_TM_REPORT_VALUES];

    set_good(values);
    for (int i = 0; i < FEW && 0 != numbers[i].value; i++) {
        values[numbers[i].which] = numbers[i].value;
    }
    return mca_pml_tm_advise(values, MAX, advice);
}

/* Each advice with numbers for which it is due, alone, and others for which it just is not. */
static const struct {
    const char *text;
    number_t due[FEW], not_due[FEW];
} rules[] = {
    {"(peers_moved)", {{PML_TM_REPORT_MOVED, 1}}, {{0}}},
    {"(shm_cma_refused)",
     {{PML_TM_REPORT_CMA_REFUSED, 1}, {PML_TM_REPORT_NO_GET, 1}},
     {{PML_TM_REPORT_CMA_REFUSED, 1}}}, /* no message needed it */
    {"(verbs_locked_memory)", {{PML_TM_REPORT_LOCKED_MEMORY, 1}}, {{PML_TM_REPORT_REFUSED, 9}}},
    {"pml_tm_wait", {{PML_TM_REPORT_CROWDED, 1}}, {{0}}},
    {"(held_sends)", {{PML_TM_REPORT_HELD, 1}}, {{PML_TM_REPORT_QUEUED, 1000}}},
    {"waited for rank 3 in at least 34 %",
     {{PML_TM_REPORT_WAITED_MS, 20000}, {PML_TM_REPORT_WAITED_FOR, (uint64_t) 6700 << 24 | 3}},
     {{PML_TM_REPORT_WAITED_MS, 20000}, {PML_TM_REPORT_WAITED_FOR, (uint64_t) 6500 << 24 | 3}}},
    {"waited for rank 3 in at least 100 %",
     {{PML_TM_REPORT_WAITED_MS, 10000}, {PML_TM_REPORT_WAITED_FOR, (uint64_t) 10000 << 24 | 3}},
     {{PML_TM_REPORT_WAITED_MS, 9900}, {PML_TM_REPORT_WAITED_FOR, (uint64_t) 9900 << 24 | 3}}},
    {"waited for rank 3 in at least 90 %", /* of a short job */
     {{PML_TM_REPORT_RUN_MS, 2000},
      {PML_TM_REPORT_WAITED_MS, 1000},
      {PML_TM_REPORT_WAITED_FOR, (uint64_t) 900 << 24 | 3}},
     {{PML_TM_REPORT_RUN_MS, 1100},
      {PML_TM_REPORT_WAITED_MS, 999},
      {PML_TM_REPORT_WAITED_FOR, (uint64_t) 900 << 24 | 3}}},
    {"(unexpected)",
     {{PML_TM_REPORT_EXPECTED, 7990}, {PML_TM_REPORT_UNEXPECTED, 2010}},
     {{PML_TM_REPORT_EXPECTED, 8010}, {PML_TM_REPORT_UNEXPECTED, 1990}}},
    {"(unexpected)",
     {{PML_TM_REPORT_EXPECTED, 1}, {PML_TM_REPORT_UNEXPECTED, 999}},
     {{PML_TM_REPORT_EXPECTED, 1}, {PML_TM_REPORT_UNEXPECTED, 998}}},
    {"(queued_sends)",
     {{PML_TM_REPORT_QUEUED, 5010}, {PML_TM_REPORT_RING_FULL, 1}},
     {{PML_TM_REPORT_QUEUED, 4990}, {PML_TM_REPORT_RING_FULL, 1}}},
    {"(queued_sends)",
     {{PML_TM_REPORT_QUEUED, 5010}, {PML_TM_REPORT_RING_FULL, 1}},
     {{PML_TM_REPORT_QUEUED, 5010}}}, /* no ring was full */
    {"(not_listed_full)",
     {{PML_TM_REPORT_LISTED, 400}, {PML_TM_REPORT_LISTED + 6, 600}},
     {{PML_TM_REPORT_LISTED, 600}, {PML_TM_REPORT_LISTED + 6, 400}}},
    {"(not_listed_any_source)",
     {{PML_TM_REPORT_LISTED, 400}, {PML_TM_REPORT_LISTED + 2, 900}},
     {{PML_TM_REPORT_LISTED + 2, 900}}}, /* there is no device */
    {"(not_listed_any_source)",
     {{PML_TM_REPORT_LISTED, 400}, {PML_TM_REPORT_LISTED + 2, 900}},
     {{PML_TM_REPORT_LISTED, 400}, {PML_TM_REPORT_LISTED + 1, 900}}}, /* inside a host */
    {"(tcp_strangers)", {{PML_TM_REPORT_STRANGERS, 1}}, {{PML_TM_REPORT_REFUSED, 1}}},
    {"(tcp_links_failed)", {{PML_TM_REPORT_LINKS_FAILED, 1}}, {{PML_TM_REPORT_REFUSED, 1}}},
};

static void test_rules(void **state)
{
    char advice[MAX][PML_TM_ADVICE_SIZE];

    (void) state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        assert_int_equal(advise(rules[i].due, advice), 1);
        if (NULL == strstr(advice[0], rules[i].text)) {
            fail_msg("%s: %s", rules[i].text, advice[0]);
        }
        assert_int_equal(advise(rules[i].not_due, advice), 0);
    }
}

/* Of several the worst first, and no more than are wanted. */
static void test_order(void **state)
{
    const number_t numbers[FEW] = {
        {PML_TM_REPORT_STRANGERS, 1}, {PML_TM_REPORT_HELD, 1}, {PML_TM_REPORT_MOVED, 1}};
    char advice[MAX][PML_TM_ADVICE_SIZE];
    uint64_t values[PML_TM_REPORT_VALUES];

    (void) state;
    assert_int_equal(advise(numbers, advice), 3);
    assert_non_null(strstr(advice[0], "peers_moved"));
    assert_non_null(strstr(advice[1], "held_sends"));
    assert_non_null(strstr(advice[2], "tcp_strangers"));
    set_good(values);
    values[PML_TM_REPORT_MOVED] = values[PML_TM_REPORT_HELD] = 1;
    assert_int_equal(mca_pml_tm_advise(values, 1, advice), 1);
    assert_non_null(strstr(advice[0], "peers_moved"));
}

static void test_add(void **state)
{
    uint64_t values[PML_TM_REPORT_VALUES] = {0};

    (void) state;
    mca_pml_tm_report_add(values, PML_TM_REPORT_EAGER, 2);
    mca_pml_tm_report_add(values, PML_TM_REPORT_EAGER, 3);
    assert_int_equal(values[PML_TM_REPORT_EAGER], 5);
    mca_pml_tm_report_add(values, PML_TM_REPORT_LAST_SUM, 2);
    mca_pml_tm_report_add(values, PML_TM_REPORT_LAST_SUM, 3);
    assert_int_equal(values[PML_TM_REPORT_LAST_SUM], 5);
    mca_pml_tm_report_add(values, PML_TM_REPORT_RANKS, 1);
    mca_pml_tm_report_add(values, PML_TM_REPORT_RANKS, 6);
    assert_int_equal(values[PML_TM_REPORT_RANKS], 7);
    mca_pml_tm_report_add(values, PML_TM_REPORT_WAITED_MOST, mca_pml_tm_ranked(7, 1));
    mca_pml_tm_report_add(values, PML_TM_REPORT_WAITED_MOST, mca_pml_tm_ranked(9, 0));
    mca_pml_tm_report_add(values, PML_TM_REPORT_WAITED_MOST, mca_pml_tm_ranked(8, 2));
    assert_int_equal(mca_pml_tm_ranked_number(values[PML_TM_REPORT_WAITED_MOST]), 9);
    assert_int_equal(mca_pml_tm_ranked_rank(values[PML_TM_REPORT_WAITED_MOST]), 0);
    /* more than 40 bits are as many as fit */
    assert_int_equal(mca_pml_tm_ranked_number(mca_pml_tm_ranked(UINT64_MAX, 5)), 0xffffffffff);
    assert_int_equal(mca_pml_tm_ranked_rank(mca_pml_tm_ranked(UINT64_MAX, 5)), 5);
}

/* The rank with more than half of the votes is left, in whatever order they come. */
static void test_vote(void **state)
{
    const struct {
        uint32_t rank;
        unsigned number;
    } votes[] = {{1, 30}, {2, 20}, {3, 35}, {2, 40}, {0, 1}, {2, 41}, {9, 10}};
    const size_t num = sizeof(votes) / sizeof(votes[0]);

    (void) state;
    for (size_t first = 0; first < num; first++) {
        uint64_t left = 0;

        for (size_t i = 0; i < num; i++) {
            const size_t at = (first + i) % num;
            /* 101 for rank 2, 76 for all others */
            left = mca_pml_tm_vote(left, mca_pml_tm_ranked(votes[at].number, votes[at].rank));
        }
        assert_int_equal(mca_pml_tm_ranked_rank(left), 2);
        assert_true(mca_pml_tm_ranked_number(left) >= 25 && mca_pml_tm_ranked_number(left) <= 101);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_vote),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
