/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The offload engine with offers as its device (offers_world.h), in long random runs.  Every order
 * of events for small programs: test_offload_offers_all.c.
 *
 * TM_TEST_SEED runs that one seed, TM_TEST_RUNS sets how many; they begin with one from
 * TM_TEST_RANDOM.
 *
 * TEST: sources=common/offload/offload.c,common/match/match.c,common/ofi/ofi_offers.c,common/ofi/ofi_places.c,test/unit/offers_world.c timeout=200 quick=no cflags="-O2 -DFAB_MATCH_SHORT_LEN=8 -DOFFERS_RECVS=8 -DOFFERS_MSGS=8 -DOFFERS_SOURCES=2 -DOFFERS_PLACES=32" variants=asan
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "offers_world.h"

#define ANY FAB_MATCH_ANY

typedef struct run {
    offers_world_t w;
    uint64_t seed;
    uint64_t rng;
    uint64_t step;
    uint32_t cancels; /* of 64 steps */
    uint32_t shorts;  /* of 64 messages */
    uint32_t wildcards;
    uint32_t refusals;
    bool is_silent; /* now and then */
} run_t;

static uint32_t draw(run_t *r, uint32_t n)
{
    r->rng ^= r->rng << 13;
    r->rng ^= r->rng >> 7;
    r->rng ^= r->rng << 17;
    return (uint32_t) ((r->rng * 0x2545f4914f6cdd1dull) >> 33) % n;
}

static void step_post(run_t *r)
{
    unsigned i = 0;

    while (i < OFFERS_RECVS && FREE != r->w.wrecv[i].state) {
        i++;
    }
    if (i < OFFERS_RECVS) {
        const bool is_any_source = 0 != r->wildcards && 0 == draw(r, 16);

        offers_post(&r->w, i, is_any_source ? ANY : (int32_t) draw(r, OFFERS_SOURCES),
                    draw(r, 64) < r->wildcards ? ANY : (int32_t) draw(r, 2),
                    0 == draw(r, 12) ? SMALL_LEN : LONG_LEN);
    }
}

static void step_send(run_t *r)
{
    unsigned i = 0;

    while (i < OFFERS_MSGS && FREE != r->w.wmsg[i].state) {
        i++;
    }
    if (i < OFFERS_MSGS) {
        (void) offers_send(&r->w, i, (int32_t) draw(r, OFFERS_SOURCES), (int32_t) draw(r, 2),
                           draw(r, 64) >= r->shorts);
    }
}

static void step_cancel(run_t *r)
{
    const unsigned i = draw(r, OFFERS_RECVS);

    if (FREE != r->w.wrecv[i].state) {
        offers_cancel(&r->w, i);
    }
}

static void step_other(run_t *r, uint32_t kind)
{
    const unsigned source = draw(r, OFFERS_SOURCES);

    if (kind < 8) {
        (void) offers_tell_sender(&r->w, source);
    } else if (kind < 12) {
        (void) offers_credit(&r->w, source);
    } else if (kind < 20) {
        (void) offers_data(&r->w, source);
    } else if (kind < 24) {
        (void) offers_execute_cancel(&r->w);
    } else {
        (void) offers_poll(&r->w, source, draw(r, 4),
                           draw(r, r->w.num_completions > 0 ? r->w.num_completions : 1),
                           draw(r, 3));
    }
}

static void step(run_t *r)
{
    const uint32_t kind = draw(r, 64);

    if (0 != r->refusals && 0 == draw(r, r->refusals)) {
        r->w.refusals = draw(r, 3);
    }
    if (r->is_silent && 0 == draw(r, 64)) {
        r->w.is_silent = !r->w.is_silent && 0 == r->w.source[0].source.num_offered &&
                         0 == r->w.source[1].source.num_offered;
    }
    if (kind < 10) {
        step_post(r);
    } else if (kind < 20) {
        step_send(r);
    } else if (kind < 20 + r->cancels) {
        step_cancel(r);
    } else {
        step_other(r, draw(r, 40));
    }
}

/* What the runs together have made happen. */
static fab_offload_counters_t seen;
static unsigned long seen_named, seen_in_vain, seen_landed_first;

static void random_run(uint64_t seed, uint64_t steps)
{
    static run_t r;

    r.seed = seed;
    r.rng = seed * 0x9e3779b97f4a7c15ull + 1;
    r.cancels = (uint32_t) (seed % 3) * 3;
    r.shorts = (uint32_t) (seed / 3 % 3) * 16;
    r.wildcards = (uint32_t) (seed / 9 % 3) * 12;
    r.refusals = 0 == seed % 4 ? 16 : 0;
    r.is_silent = 0 == seed % 5;
    offers_init(&r.w);
    for (r.step = 0; r.step < steps && NULL == r.w.error; r.step++) {
        step(&r);
        if (255 == r.step % 256) {
            offers_settle(&r.w);
        }
    }
    if (NULL != r.w.error) {
        fail_msg("%s; TM_TEST_SEED=%" PRIu64 ", step %" PRIu64, r.w.error, r.seed, r.step);
    }
    seen.matched += r.w.engine.counters.matched;
    seen.taken += r.w.engine.counters.taken;
    seen.lost_races += r.w.engine.counters.lost_races;
    seen_named += r.w.named;
    seen_in_vain += r.w.in_vain;
    seen_landed_first += r.w.landed_first;
    offers_fini(&r.w);
}

static void test_random(void **state)
{
    const char *seed = getenv("TM_TEST_SEED");
    const char *base = getenv("TM_TEST_RANDOM");
    const char *runs = getenv("TM_TEST_RUNS");
    const uint64_t first = NULL != seed   ? strtoull(seed, NULL, 10)
                           : NULL != base ? 1 + 1000 * strtoull(base, NULL, 10)
                                          : 1;
    const uint64_t last = NULL != seed
                              ? first
                              : first + (NULL != runs ? strtoull(runs, NULL, 10) : 150) - 1;

    (void) state;
    for (uint64_t i = first; i <= last; i++) {
        random_run(i, 5000);
    }
    print_message("%10llu  matched by an offer\n%10lu  of these, data came first\n"
                  "%10lu  named in vain\n%10llu  taken by software\n%10llu  cancelled too late\n",
                  seen.matched, seen_landed_first, seen_in_vain, seen.taken, seen.lost_races);
    if (NULL == seed) {
        assert_true(seen.matched > 0 && seen_named > 0 && seen_landed_first > 0 &&
                    seen_in_vain > 0 && seen.taken > 0 && seen.lost_races > 0);
    }
}

/* ---- a message that is longer than its offer ------------------------------- */

static bool can_tell(void *ctx, const fab_ofi_source_t *source)
{
    (void) ctx, (void) source;
    return true;
}

static void tell(void *ctx, fab_ofi_place_t *place, fab_ofi_word_t word)
{
    (void) ctx, (void) place, (void) word;
}

static bool post(void *ctx, fab_ofi_place_t *place, void *buf, size_t len)
{
    (void) ctx, (void) place, (void) buf, (void) len;
    return true;
}

static void cancel(void *ctx, fab_ofi_place_t *place)
{
    fab_ofi_places_cancelled(ctx, place, false);
}

/* Refused, though nobody wants it any more: there is to be memory for what comes in vain. */
static void test_too_long(void **state)
{
    static const fab_ofi_places_ops_t ops = {
        .can_tell = can_tell, .tell = tell, .post = post, .cancel = cancel};
    enum { LEN = 100 };
    char data[LEN];
    fab_tm_recv_t recv = {.data = data, .len = LEN};
    fab_tm_cmd_t cmd = {.op = FAB_TM_ADD, .recv = &recv};
    fab_ofi_place_t place[1] = {{.index = 0}};
    fab_ofi_signal_t signals[1];
    fab_ofi_places_t places = {
        .ops = &ops, .place = place, .num = 1, .signals = signals, .max_signals = 1};
    fab_ofi_source_t source;

    (void) state;
    places.ctx = &places;
    fab_ofi_places_init(&places);
    fab_ofi_source_init(&source);
    assert_int_equal(fab_ofi_places_post(&places, &cmd, &source), FAB_TM_POSTED);
    cmd = (fab_tm_cmd_t){.op = FAB_TM_DEL, .handle = recv.handle};
    assert_int_equal(fab_ofi_places_post(&places, &cmd, NULL), FAB_TM_POSTED);
    fab_ofi_places_release(&places, recv.place);
    assert_int_equal(
        fab_ofi_places_named(&places, &source, place->id, fab_hdr(FAB_AM_RNDV, 0, 0), LEN + 1),
        FAB_OFI_NAMED_BAD);
    assert_int_equal(
        fab_ofi_places_named(&places, &source, place->id, fab_hdr(FAB_AM_RNDV, 0, 0), LEN),
        FAB_OFI_NAMED_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
