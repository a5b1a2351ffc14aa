/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The offload engine, in long random runs against the MPI rules and a strict device
 * (offload_world.h): two communicators, sources behind the device and one that is not, wildcards,
 * internal tags, receives that must not be listed, cancel, messages in one piece or two, batches of
 * completions, small lists and command queues, ADDs refused, counters that wrap, a device that
 * dies.
 *
 * The seeds begin with one from TM_TEST_RANDOM. TM_TEST_SEED runs that one seed, TM_TEST_RUNS sets
 * how many, TM_TEST_STEPS their length; TM_TEST_BLACK_BOX leaves out the checks of the engine's own
 * invariants.
 *
 * TEST: sources=common/offload/offload.c,common/match/match.c,test/unit/offload_dev.c,test/unit/offload_world.c timeout=120 quick=no cflags="-DFAB_MATCH_SHORT_LEN=8 -DWORLD_RECVS=12 -DWORLD_MSGS=14 -DWORLD_SCOPES=2 -DHW_SLOTS=8" variants=asan
 */
#include <inttypes.h>

#include "offload_world.h"
#include "test_cmocka.h"

#define ANY FAB_MATCH_ANY

typedef struct run {
    world_t w;
    uint64_t seed;
    uint64_t rng;
    uint64_t step;
    uint32_t cancels; /* of 64 steps, how many cancel, and so on */
    uint32_t plain;
    uint32_t wildcards;
    uint32_t refusals;
    bool is_withdrawing; /* messages, now and then */
} run_t;

static uint32_t draw(run_t *r, uint32_t n)
{
    r->rng ^= r->rng << 13;
    r->rng ^= r->rng >> 7;
    r->rng ^= r->rng << 17;
    return (uint32_t) ((r->rng * 0x2545f4914f6cdd1dull) >> 33) % n;
}

static bool draw_of_64(run_t *r, uint32_t n)
{
    return draw(r, 64) < n;
}

static int32_t draw_tag(run_t *r)
{
    static const int32_t tags[] = {0, 1, 0, -5};

    return tags[draw(r, 4)];
}

static unsigned free_recv(const run_t *r)
{
    unsigned i = 0;

    while (i < WORLD_RECVS && REF_FREE != r->w.rrecv[i].state) {
        i++;
    }
    return i;
}

static unsigned free_msg(const run_t *r)
{
    unsigned i = 0;

    while (i < WORLD_MSGS && REF_FREE != r->w.rmsg[i].state) {
        i++;
    }
    return i;
}

/*
 * A waiting message (or receive) for which to post (send), or WORLD_MSGS (WORLD_RECVS): whatever
 * comes.
 */
static unsigned some_msg(run_t *r)
{
    const unsigned i = draw(r, WORLD_MSGS);

    return REF_WAITING == r->w.rmsg[i].state ? i : WORLD_MSGS;
}

static unsigned some_recv(run_t *r)
{
    const unsigned i = draw(r, WORLD_RECVS);

    return REF_WAITING == r->w.rrecv[i].state ? i : WORLD_RECVS;
}

static void step_post(run_t *r)
{
    const unsigned i = free_recv(r);
    const unsigned m = some_msg(r);
    const bool is_known = m < WORLD_MSGS;
    const unsigned scope = is_known ? r->w.rmsg[m].scope : draw(r, WORLD_SCOPES);
    const int32_t some_source = is_known ? r->w.rmsg[m].source : (int32_t) draw(r, WORLD_SELF + 1);
    const int32_t source = draw_of_64(r, r->wildcards) ? ANY : some_source;
    const int32_t tag = draw_of_64(r, r->wildcards) ? ANY
                        : is_known                  ? r->w.rmsg[m].tag
                                                    : draw_tag(r);
    const bool is_plain = draw_of_64(r, r->plain);

    if (i < WORLD_RECVS) {
        world_post(&r->w, i, scope, source, tag,
                   WORLD_SELF == source ? FAB_OFFLOAD_OTHER_PATH
                   : is_plain           ? FAB_OFFLOAD_SHORT
                                        : FAB_OFFLOAD_LISTABLE);
    }
}

static void step_cancel(run_t *r)
{
    const unsigned i = draw(r, WORLD_RECVS);

    if (REF_FREE != r->w.rrecv[i].state) {
        world_cancel(&r->w, i);
    }
}

static void step_withdraw(run_t *r)
{
    const unsigned i = some_msg(r);

    if (i < WORLD_MSGS) {
        world_withdraw(&r->w, i);
    }
}

static void step_message(run_t *r, bool by_device)
{
    const unsigned i = free_msg(r);
    const unsigned to = some_recv(r);
    const ref_recv_t *recv = to < WORLD_RECVS ? &r->w.rrecv[to] : NULL;
    const unsigned scope = NULL != recv ? recv->scope : draw(r, WORLD_SCOPES);
    const int32_t tag = NULL != recv && ANY != recv->tag ? recv->tag : draw_tag(r);
    const int32_t source = NULL != recv && ANY != recv->source ? recv->source
                                                               : (int32_t) draw(r, WORLD_SELF);

    if (WORLD_MSGS == i || r->w.is_forgotten) {
        return;
    }
    if (by_device && WORLD_SELF != source) {
        world_message(&r->w, i, scope, source, tag, 0 == draw(r, 4));
    } else {
        world_other_path(&r->w, i, scope, tag);
    }
}

static void step_device(run_t *r)
{
    const uint32_t slot = draw(r, r->w.dev.slots);

    if (r->w.dev.slot[slot].owes_data) {
        world_finish(&r->w, slot);
    } else if (r->w.dev.ncmd > 0) {
        world_execute(&r->w);
    }
}

static void step(run_t *r)
{
    const uint32_t kind = draw(r, 64);

    if (kind < 16) {
        step_post(r);
    } else if (kind < 16 + r->cancels) {
        step_cancel(r);
    } else if (kind < 32) {
        step_message(r, true);
    } else if (kind < 34) {
        step_message(r, false);
    } else if (kind < 50) {
        step_device(r);
    } else if (kind < 62) {
        world_poll(&r->w, 1);
    } else {
        world_poll(&r->w, 1 + draw(r, 8));
    }
    if (r->is_withdrawing && 0 == draw(r, 8)) {
        step_withdraw(r);
    }
    if (0 != r->refusals && draw(r, 256) < r->refusals) {
        r->w.dev.refusals = 1 + draw(r, 3);
    }
}

static void run_expect(const run_t *r)
{
    if (NULL != r->w.error) {
        fail_msg("%s; TM_TEST_SEED=%" PRIu64 ", step %" PRIu64, r->w.error, r->seed, r->step);
    }
}

static void run_start(run_t *r, uint64_t seed)
{
    const uint32_t report_every = 1u << (seed % 4);
    const uint32_t slots = 1 + (uint32_t) (seed / 4 % HW_SLOTS);
    const bool is_small = 0 == seed % 5; /* a list smaller than it was said to be */
    const world_config_t config = {
        .slots = slots,
        .max_tags = is_small ? slots + 2 : slots,
        .max_ops = 4 + (uint32_t) (seed / 3 % 17),
        .bufs = 2 * report_every,
        .report_every = report_every,
        .first_count = (uint16_t) (65536 - seed % 40),
        .is_black_box = NULL != getenv("TM_TEST_BLACK_BOX"),
    };

    r->seed = seed;
    r->rng = seed * 0x9e3779b97f4a7c15ull + 1;
    r->cancels = (uint32_t) (seed / 2 % 3) * 4;
    r->plain = (uint32_t) (seed / 7 % 4) * 6;
    r->wildcards = (uint32_t) (seed / 11 % 4) * 8;
    r->refusals = 0 == seed % 6 ? 4 : 0;
    r->is_withdrawing = 4 == seed % 8;
    world_init(&r->w, &config);
    r->w.dev.disables_all = 0 == seed % 7;
}

/* What the runs together have made happen. */
static fab_offload_counters_t seen;
static unsigned long seen_syncs, seen_withdrawn[2];

static void run_count(const run_t *r)
{
    const fab_offload_counters_t *c = &r->w.engine.counters;

    for (unsigned i = 0; i < FAB_OFFLOAD_REASON_MAX; i++) {
        seen.reason[i] += c->reason[i];
    }
    seen.listed_late += c->listed_late;
    seen.matched += c->matched;
    seen.taken += c->taken;
    seen.parked += c->parked;
    seen.lost_races += c->lost_races;
    seen.refused += c->refused;
    seen_syncs += r->w.syncs;
    seen_withdrawn[0] += r->w.withdrawn[0];
    seen_withdrawn[1] += r->w.withdrawn[1];
}

/* The counters tell what has happened. */
static void run_check_counters(const run_t *r)
{
    const fab_offload_counters_t *c = &r->w.engine.counters;
    uint64_t posted = 0;

    for (unsigned i = 0; i < FAB_OFFLOAD_REASON_MAX; i++) {
        posted += c->reason[i];
    }
    assert_int_equal(posted, r->w.posted);
    assert_int_equal(c->matched, r->w.matched);
}

static void random_run(uint64_t seed, uint64_t steps)
{
    static run_t r;

    run_start(&r, seed);
    for (r.step = 0; r.step < steps && NULL == r.w.error; r.step++) {
        step(&r);
        if (511 == r.step % 512) {
            world_settle(&r.w);
        }
    }
    if (0 == seed % 3) {
        r.w.dev.is_dead = true;
        step_post(&r);
        world_fail(&r.w);
        for (unsigned i = 0; i < 200 && NULL == r.w.error; i++) {
            step(&r);
        }
    }
    world_settle(&r.w);
    run_expect(&r);
    run_check_counters(&r);
    run_count(&r);
    world_fini(&r.w);
}

static void test_random(void **state)
{
    const char *seed = getenv("TM_TEST_SEED");
    const char *base = getenv("TM_TEST_RANDOM");
    const char *runs = getenv("TM_TEST_RUNS");
    const char *steps = getenv("TM_TEST_STEPS");
    const uint64_t first = NULL != seed   ? strtoull(seed, NULL, 10)
                           : NULL != base ? 1 + 1000 * strtoull(base, NULL, 10)
                                          : 1;
    const uint64_t last = NULL != seed
                              ? first
                              : first + (NULL != runs ? strtoull(runs, NULL, 10) : 600) - 1;

    (void) state;
    if (NULL == seed) {
        random_run(901703188, 5000); /* a message is asked back twice, with DELs under way */
    }
    for (uint64_t i = first; i <= last; i++) {
        random_run(i, NULL != steps ? strtoull(steps, NULL, 10) : 5000);
    }
    for (unsigned i = 0; i < FAB_OFFLOAD_REASON_MAX; i++) {
        print_message("%10llu  reason %u (fab_offload_reason_t)\n", seen.reason[i], i);
    }
    print_message(
        "%10llu  listed late\n%10llu  matched by the device\n%10llu  taken\n%10llu  parked\n"
        "%10llu  races lost\n%10llu  refused\n%10lu  SYNC\n%10lu  withdrawn\n"
        "%10lu  withdrawn later\n",
        seen.listed_late, seen.matched, seen.taken, seen.parked, seen.lost_races, seen.refused,
        seen_syncs, seen_withdrawn[0], seen_withdrawn[1]);
    if (NULL == seed && NULL == runs) { /* fewer runs need not meet everything */
        assert_true(seen.listed_late > 0 && seen.matched > 0 && seen.taken > 0 && seen.parked > 0 &&
                    seen.lost_races > 0 && seen.refused > 0 && seen_syncs > 0 &&
                    seen_withdrawn[0] > 0 && seen_withdrawn[1] > 0 &&
                    seen.reason[FAB_OFFLOAD_BLOCKED] > 0 &&
                    seen.reason[FAB_OFFLOAD_LIST_FULL] > 0 && seen.reason[FAB_OFFLOAD_FAILED] > 0);
    }
}

/* ---- what the runs do not show ------------------------------------------- */

static void test_useless_limits(void **state)
{
    const fab_offload_config_t good = {.max_tags = 1, .max_ops = 4, .report_every = 1};
    fab_offload_config_t config;
    fab_offload_t engine;

    (void) state;
    assert_true(fab_offload_init(&engine, &good));
    fab_offload_fini(&engine);
    config = good;
    config.max_tags = 0;
    assert_false(fab_offload_init(&engine, &config));
    config = good;
    config.max_ops = 3;
    assert_false(fab_offload_init(&engine, &config));
    config = good;
    config.report_every = (1 << 14) + 1;
    assert_false(fab_offload_init(&engine, &config));
}

/* A device that refuses everything is left alone after two attempts. */
static void test_a_device_without_list(void **state)
{
    const world_config_t config = {
        .slots = 4, .max_tags = 4, .max_ops = 64, .bufs = 32, .report_every = 16};
    static world_t w;

    (void) state;
    world_init(&w, &config);
    w.dev.refusals = UINT32_MAX;
    world_post(&w, 0, 0, 1, 0, FAB_OFFLOAD_LISTABLE);
    for (int i = 0; i < 10; i++) {
        while (w.dev.ncmd > 0) {
            world_execute(&w);
        }
        world_poll(&w, 1);
    }
    assert_null(w.error);
    assert_true(w.engine.counters.refused <= 2 && w.syncs <= 2);
    assert_int_equal(w.recv[0].state, FAB_OFFLOAD_WAITING);
}

/* 200000 unexpected messages: the 16 bits wrap three times, the list stays in use. */
static void test_counter_wraps(void **state)
{
    const world_config_t config = {
        .slots = 2, .max_tags = 2, .max_ops = 16, .bufs = 64, .report_every = 1 << 13};
    static world_t w;

    (void) state;
    world_init(&w, &config);
    for (unsigned i = 0; i < 200000 && NULL == w.error; i++) {
        assert_true(world_message(&w, 0, 0, 1, 5, false));
        world_poll(&w, 4); /* and a SYNC's completion */
        world_post(&w, 0, 0, 1, 5, FAB_OFFLOAD_LISTABLE);
        if (w.dev.ncmd > 0) {
            world_execute(&w);
        }
    }
    world_post(&w, 0, 0, 1, 5, FAB_OFFLOAD_LISTABLE);
    world_settle(&w);
    assert_null(w.error);
    assert_true(w.dev.slot[0].is_enabled);
    assert_true(w.syncs >= 200000 >> 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_useless_limits),
        cmocka_unit_test(test_a_device_without_list),
        cmocka_unit_test(test_counter_wraps),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
