/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matcher's costs at depth, counted in links visited and not timed: every pattern, keys that
 * have hurt hash tables before, deep queues of one key, draining forward, in reverse and scattered.
 *
 * TEST: sources=common/match/match.c,test/unit/match_check.c timeout=120 quick=no depends=common/match,test/unit/match_check.c,test/unit/match_check.h
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "match/match.h"
#include "match_check.h"

#define ANY          FAB_MATCH_ANY
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/*
 * No single call may visit more links than this at any depth.  A call does at most four searches
 * (arrival) or a search and three filings or removals (message); with one key per bucket the
 * longest of 10^6 hash chains is about 10.
 */
#define MAX_STEPS 80

/* The call that files the few messages, each under three keys, with four links for each. */
#define FILING_STEPS (FAB_MATCH_UNFILED_MAX * 3 * 4)

/* And on average no more than this: four searches of two links. */
#define MEAN_STEPS 8

typedef struct meter {
    const fab_match_dom_t *dom;
    uint64_t before;
    uint64_t sum;
    uint64_t calls;
} meter_t;

static uint64_t dom_steps(const fab_match_dom_t *dom)
{
    return dom->posted_index.steps + dom->unexp_index.steps;
}

static void meter_start(meter_t *meter, const fab_match_dom_t *dom)
{
    *meter = (meter_t){.dom = dom, .before = dom_steps(dom)};
}

static void meter_call(meter_t *meter)
{
    const uint64_t now = dom_steps(meter->dom);
    const bool is_filing = FAB_MATCH_UNFILED_MAX + 1 == meter->dom->unexp_count;

    assert_true(meter->dom->posted_index.nkeys <= meter->dom->posted_index.nbuckets);
    assert_true(meter->dom->unexp_index.nkeys <= meter->dom->unexp_index.nbuckets);
    assert_true(now - meter->before <= MAX_STEPS + (is_filing ? FILING_STEPS : 0));
    meter->sum += now - meter->before;
    meter->before = now;
    meter->calls++;
}

static void meter_stop(const meter_t *meter)
{
    assert_true(meter->sum <= MEAN_STEPS * meter->calls);
}

/* Keys that have hurt hash tables before; each maps 0..n-1 to distinct (source, tag). */
typedef void (*spread_fn_t)(uint32_t i, int32_t *source, int32_t *tag);

static void spread_tags(uint32_t i, int32_t *source, int32_t *tag)
{
    *source = 0;
    *tag = (int32_t) i;
}

static void spread_sources(uint32_t i, int32_t *source, int32_t *tag)
{
    *source = (int32_t) i;
    *tag = 0;
}

static void spread_diagonal(uint32_t i, int32_t *source, int32_t *tag)
{
    *source = (int32_t) i;
    *tag = (int32_t) i;
}

static void spread_threads(uint32_t i, int32_t *source, int32_t *tag)
{
    *source = (int32_t) (i & 7);
    *tag = (int32_t) ((i >> 3 & 15) * 1048576 + (i >> 7));
}

static void spread_multiples(uint32_t i, int32_t *source, int32_t *tag)
{
    *source = 1021;
    *tag = (int32_t) (i * 1021u & INT32_MAX);
}

static void spread_powers(uint32_t i, int32_t *source, int32_t *tag)
{
    *source = (int32_t) ((i & 0x3ff) << 20);
    *tag = (int32_t) ((i >> 10) << 20);
}

static void spread_reversed(uint32_t i, int32_t *source, int32_t *tag)
{
    uint32_t bits = 0;

    for (int b = 0; b < 31; b++) {
        bits |= (i >> b & 1) << (30 - b);
    }
    *source = (int32_t) (bits ^ i << 7) & INT32_MAX;
    *tag = (int32_t) bits;
}

static const spread_fn_t spreads[] = {spread_tags,    spread_sources,   spread_diagonal,
                                      spread_threads, spread_multiples, spread_powers,
                                      spread_reversed};

#define DEPTH 100000

typedef struct deep {
    fab_match_dom_t dom;
    fab_match_recv_t *recv;
    fab_match_msg_t *msg;
    uint32_t depth;
} deep_t;

static void deep_init(deep_t *d, uint32_t depth)
{
    fab_match_init(&d->dom);
    d->depth = depth;
    d->recv = calloc(depth, sizeof(*d->recv));
    d->msg = calloc(depth, sizeof(*d->msg));
    assert_true(NULL != d->recv && NULL != d->msg);
}

static void deep_fini(deep_t *d)
{
    assert_int_equal(d->dom.posted_count + d->dom.unexp_count, 0);
    match_check_dom(&d->dom);
    fab_match_fini(&d->dom);
    free(d->recv);
    free(d->msg);
}

/*
 * The order in which a deep queue is emptied: 0 forward, 1 reverse, 2 scattered (a stride coprime
 * to the depth).
 */
static uint32_t drain_place(const deep_t *d, int order, uint32_t i)
{
    switch (order) {
    case 0:
        return i;
    case 1:
        return d->depth - 1 - i;
    default:
        return (uint32_t) ((uint64_t) i * 7919 % d->depth);
    }
}

static void deep_posted(deep_t *d, spread_fn_t spread, int order)
{
    meter_t meter;
    int32_t source;
    int32_t tag;

    meter_start(&meter, &d->dom);
    for (uint32_t i = 0; i < d->depth; i++) {
        spread(i, &source, &tag);
        assert_null(match_post(&d->dom, &d->recv[i], source, tag));
        meter_call(&meter);
    }
    for (uint32_t i = 0; i < d->depth; i++) {
        const uint32_t at = drain_place(d, order, i);

        spread(at, &source, &tag);
        assert_ptr_equal(fab_match_arrive(&d->dom, source, tag), &d->recv[at]);
        meter_call(&meter);
    }
    meter_stop(&meter);
}

/*
 * A search for each wildcard kind in the index, so that from here on the domain keeps their links.
 * The first such search files all messages and is not metered.
 */
static void deep_use_wildcards(deep_t *d, meter_t *meter)
{
    assert_null(fab_match_probe(&d->dom, INT32_MAX, ANY));
    assert_null(fab_match_probe(&d->dom, ANY, INT32_MAX));
    assert_true(d->dom.has_by_source && d->dom.has_by_tag);
    meter->before = dom_steps(&d->dom);
}

/*
 * Unexpected messages taken by exact or wildcard receives; those of one source or one tag leave
 * oldest first.
 */
static void deep_unexpected(deep_t *d, spread_fn_t spread, int order)
{
    meter_t meter;
    int32_t source;
    int32_t tag;
    fab_match_recv_t recv;

    meter_start(&meter, &d->dom);
    for (uint32_t i = 0; i < d->depth; i++) {
        spread(i, &source, &tag);
        assert_null(fab_match_arrive(&d->dom, source, tag));
        fab_match_add_msg(&d->dom, &d->msg[i], source, tag);
        meter_call(&meter);
        if (FAB_MATCH_UNFILED_MAX == i) {
            deep_use_wildcards(d, &meter);
        }
    }
    for (uint32_t i = 0; i < d->depth; i++) {
        const uint32_t at = drain_place(d, order, i);
        fab_match_msg_t *msg;

        spread(at, &source, &tag);
        assert_non_null(fab_match_probe(&d->dom, ANY, ANY));
        msg = match_post(&d->dom, &recv, source, tag);
        assert_ptr_equal(msg, &d->msg[at]);
        meter_call(&meter);
    }
    meter_stop(&meter);
}

static void test_cost_of_distinct_keys(void **state)
{
    deep_t d;

    (void) state;
    deep_init(&d, DEPTH);
    deep_posted(&d, spread_tags, 0);
    assert_false(d.dom.has_by_source || d.dom.has_by_tag); /* until the first such search */
    for (size_t i = 0; i < ARRAY_LEN(spreads); i++) {
        deep_posted(&d, spreads[i], (int) i % 3);
        deep_unexpected(&d, spreads[i], (int) (i + 1) % 3);
    }
    deep_posted(&d, spread_tags, 1);
    deep_fini(&d);
}

/*
 * All four patterns posted deep at once; the messages come so that each pattern is drained in turn.
 */
static void test_cost_of_patterns(void **state)
{
    const uint32_t quarter = DEPTH / 4;
    meter_t meter;
    deep_t d;

    (void) state;
    deep_init(&d, DEPTH);
    meter_start(&meter, &d.dom);
    for (uint32_t i = 0; i < quarter; i++) {
        const int32_t k = (int32_t) i;

        assert_null(match_post(&d.dom, &d.recv[4 * i], k, k));
        assert_null(match_post(&d.dom, &d.recv[4 * i + 1], k + DEPTH, ANY));
        assert_null(match_post(&d.dom, &d.recv[4 * i + 2], ANY, k + DEPTH));
        meter_call(&meter);
    }
    for (uint32_t i = 0; i < quarter; i++) {
        assert_null(match_post(&d.dom, &d.recv[4 * i + 3], ANY, ANY));
        meter_call(&meter);
    }
    for (uint32_t i = 0; i < quarter; i++) {
        const uint32_t back = quarter - 1 - i;

        assert_ptr_equal(fab_match_arrive(&d.dom, (int32_t) i, (int32_t) i), &d.recv[4 * i]);
        assert_ptr_equal(fab_match_arrive(&d.dom, (int32_t) back + DEPTH, (int32_t) i),
                         &d.recv[4 * back + 1]);
        assert_ptr_equal(fab_match_arrive(&d.dom, (int32_t) i, (int32_t) back + DEPTH),
                         &d.recv[4 * back + 2]);
        meter_call(&meter);
    }
    meter.calls *= 3; /* three calls each time, nearly */
    meter_stop(&meter);
    for (uint32_t i = 0; i < quarter; i++) {
        assert_ptr_equal(fab_match_arrive(&d.dom, 5, (int32_t) i), &d.recv[4 * i + 3]);
        meter_call(&meter);
    }
    deep_fini(&d);
}

/*
 * Deep queues of one key, taken from the front by arrivals and from the back and the middle by
 * cancel.
 */
static void test_cost_of_equal_keys(void **state)
{
    static const int32_t pattern[4][2] = {{1, 2}, {1, ANY}, {ANY, 2}, {ANY, ANY}};
    fab_match_recv_t recv;
    meter_t meter;
    deep_t d;

    (void) state;
    deep_init(&d, DEPTH);
    for (int p = 0; p < 4; p++) {
        meter_start(&meter, &d.dom);
        for (uint32_t i = 0; i < DEPTH; i++) {
            assert_null(match_post(&d.dom, &d.recv[i], pattern[p][0], pattern[p][1]));
            meter_call(&meter);
        }
        for (uint32_t i = 1; i < DEPTH; i += 2) {
            assert_true(fab_match_cancel(&d.dom, &d.recv[DEPTH - i]));
            meter_call(&meter);
        }
        for (uint32_t i = 0; i < DEPTH; i += 2) {
            assert_ptr_equal(fab_match_arrive(&d.dom, 1, 2), &d.recv[i]);
            meter_call(&meter);
        }
        for (uint32_t i = 0; i < DEPTH; i++) {
            assert_null(fab_match_arrive(&d.dom, 1, 2));
            fab_match_add_msg(&d.dom, &d.msg[i], 1, 2);
            if (FAB_MATCH_UNFILED_MAX == i) {
                deep_use_wildcards(&d, &meter);
            }
            meter_call(&meter);
        }
        for (uint32_t i = 1; i < DEPTH; i += 2) {
            fab_match_remove_msg(&d.dom, &d.msg[DEPTH - i]);
            meter_call(&meter);
        }
        for (uint32_t i = 0; i < DEPTH; i += 2) {
            assert_ptr_equal(match_post(&d.dom, &recv, pattern[p][0], pattern[p][1]), &d.msg[i]);
            meter_call(&meter);
        }
        meter_stop(&meter);
    }
    deep_fini(&d);
}

static void test_million_keys(void **state)
{
    deep_t d;

    (void) state;
    deep_init(&d, 1000000);
    deep_posted(&d, spread_powers, 1);
    assert_true(d.dom.posted_index.nbuckets >= 1000000 - FAB_MATCH_SHORT_LEN);
    deep_unexpected(&d, spread_tags, 0);
    deep_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost_of_distinct_keys),
        cmocka_unit_test(test_cost_of_patterns),
        cmocka_unit_test(test_cost_of_equal_keys),
        cmocka_unit_test(test_million_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
