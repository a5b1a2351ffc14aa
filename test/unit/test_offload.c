/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The offload engine, each rule by name, looking at the commands that it gives.  What orders of
 * events do to it is the matter of test_offload_random and test_offload_exhaustive.
 *
 * TEST: sources=common/offload/offload.c,common/match/match.c,test/unit/offload_dev.c,test/unit/offload_world.c cflags="-DFAB_MATCH_SHORT_LEN=8 -DWORLD_RECVS=40 -DWORLD_MSGS=40 -DHW_SLOTS=8 -DWORLD_RING=128"
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "offload_world.h"

#define ANY      FAB_MATCH_ANY
#define LISTABLE FAB_OFFLOAD_LISTABLE

static world_t w;

static void start(uint32_t slots, uint32_t max_ops, uint32_t report_every)
{
    const world_config_t config = {.slots = slots,
                                   .max_tags = slots,
                                   .max_ops = max_ops,
                                   .bufs = 2 * report_every,
                                   .report_every = report_every,
                                   .first_count = 65535};

    world_init(&w, &config);
}

/* Nothing has gone wrong so far. */
static void ok(void)
{
    if (NULL != w.error) {
        fail_msg("%s", w.error);
    }
}

/* The i-th command that waits in the device. */
static void expect_cmd(uint32_t i, fab_tm_op_t op, bool is_signaled, uint16_t count)
{
    ok();
    assert_true(i < w.dev.ncmd);
    assert_int_equal(w.dev.cmd[i].cmd.op, op);
    assert_int_equal(w.dev.cmd[i].cmd.is_signaled, is_signaled);
    assert_int_equal(w.dev.cmd[i].cmd.count, count);
}

static void expect_state(unsigned i, fab_offload_state_t state)
{
    ok();
    assert_int_equal(w.recv[i].state, state);
}

static void execute_all(void)
{
    while (w.dev.ncmd > 0) {
        world_execute(&w);
    }
    ok();
}

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

static void test_listed_and_matched(void **state)
{
    (void) state;
    start(4, 64, 16);
    world_post(&w, 0, 0, 1, 7, LISTABLE);
    expect_cmd(0, FAB_TM_ADD, false, 65535);
    expect_state(0, FAB_OFFLOAD_LISTED);
    execute_all();
    assert_true(world_message(&w, 0, 0, 1, 7, true));
    world_poll(&w, 1);
    expect_state(0, FAB_OFFLOAD_MATCHED);
    assert_int_equal(w.dom[0].posted_count, 0);
    assert_int_equal(w.engine.listed, 1); /* its slot is free when the data is in */
    world_finish(&w, 0);
    world_poll(&w, 1);
    ok();
    assert_int_equal(w.rrecv[0].state, REF_FREE);
    assert_int_equal(w.engine.listed, 0);
    assert_int_equal(w.engine.counters.matched, 1);
    assert_int_equal(w.engine.counters.reason[LISTABLE], 1);
}

static void test_unexpected_takes_a_listed_receive(void **state)
{
    (void) state;
    start(4, 64, 16);
    assert_true(world_message(&w, 0, 0, 1, 7, false)); /* on its way before the receive is posted */
    world_post(&w, 0, 0, 1, 7, LISTABLE);
    world_post(&w, 1, 0, 1, 8, LISTABLE);
    execute_all();
    assert_false(w.dev.slot[0].is_enabled);
    world_poll(&w, 1);
    expect_cmd(0, FAB_TM_DEL, false, 65535); /* the count does not include the message */
    assert_int_equal(w.dev.ncmd, 1);
    assert_int_equal(w.rrecv[0].state, REF_FREE);
    execute_all();
    assert_false(w.dev.slot[1].is_enabled);
    world_poll(&w, 1); /* nothing to poll: time to bring the list back into use */
    expect_cmd(0, FAB_TM_SYNC, false, 0);
    execute_all();
    assert_true(w.dev.slot[1].is_enabled);
}

static void test_cancel(void **state)
{
    (void) state;
    start(4, 64, 16);
    world_post(&w, 0, 0, 1, 7, LISTABLE);
    world_post(&w, 1, 0, 1, 8, LISTABLE);
    world_post(&w, 2, 0, 1, 9, FAB_OFFLOAD_SHORT);
    execute_all();
    world_cancel(&w, 2);
    assert_int_equal(w.rrecv[2].state, REF_FREE);
    world_cancel(&w, 0);
    expect_cmd(0, FAB_TM_DEL, true, 65535);
    expect_state(0, FAB_OFFLOAD_CANCELLING);
    assert_true(world_message(&w, 0, 0, 1, 8, false)); /* the device is quicker */
    world_cancel(&w, 1);
    execute_all();
    world_poll(&w, 1);
    expect_state(1, FAB_OFFLOAD_CANCELLING); /* matched: but the DEL still has its name */
    world_poll(&w, 1);
    ok();
    assert_int_equal(w.rrecv[0].state, REF_FREE);
    world_poll(&w, 1);
    ok();
    assert_int_equal(w.rrecv[1].state, REF_FREE);
    assert_int_equal(w.engine.counters.lost_races, 1);
    assert_int_equal(w.engine.listed, 0);
}

static void test_other_path_waits_for_the_device(void **state)
{
    (void) state;
    start(4, 64, 16);
    world_post(&w, 0, 0, ANY, 7, LISTABLE);
    world_post(&w, 1, 0, ANY, 7, LISTABLE);
    execute_all();
    assert_true(world_message(&w, 0, 0, 1, 7, false));
    world_other_path(&w, 1, 0, 7);
    world_other_path(&w, 2, 0, 7);
    expect_cmd(0, FAB_TM_DEL, true, 65535);
    assert_int_equal(w.engine.counters.parked, 2);
    /* probes do not see what is about to be matched */
    assert_null(fab_match_probe(&w.dom[0], ANY, ANY));
    execute_all();
    /*
     * MATCH, and the DEL that came too late: the first parked message wants the second receive now
     */
    world_poll(&w, 2);
    ok();
    assert_int_equal(w.rrecv[0].state, REF_FREE);
    expect_state(1, FAB_OFFLOAD_UNLISTING);
    execute_all();
    world_poll(&w, 1);
    ok();
    assert_int_equal(w.rrecv[1].state, REF_FREE);
    assert_int_equal(w.rmsg[1].state, REF_FREE);
    assert_non_null(fab_match_probe(&w.dom[0], ANY, ANY)); /* the second is unexpected */
}

/* Two messages by another path want the only receive; the device is asked for the first. */
static void start_parked(void)
{
    start(4, 64, 16);
    world_post(&w, 0, 0, ANY, 7, LISTABLE);
    execute_all();
    world_other_path(&w, 1, 0, 7);
    world_other_path(&w, 2, 0, 7);
    expect_state(0, FAB_OFFLOAD_UNLISTING);
}

static void test_withdrawn(void **state)
{
    (void) state;
    /* the second goes at once; the first has a receive by the time the device answers */
    start_parked();
    world_withdraw(&w, 2);
    assert_int_equal(w.rmsg[2].state, REF_FREE);
    world_withdraw(&w, 1);
    assert_int_equal(w.rmsg[1].state, REF_WAITING);
    execute_all();
    world_poll(&w, 1);
    ok();
    assert_int_equal(w.rrecv[0].state, REF_FREE);
    assert_int_equal(w.withdrawn[1], 0);
    /* nobody asked for the next message in the same memory, which the device leaves unmatched */
    world_post(&w, 1, 0, ANY, 7, LISTABLE);
    execute_all();
    world_other_path(&w, 1, 0, 7);
    assert_true(world_message(&w, 0, 0, 1, 7, false));
    execute_all();
    world_poll(&w, 2);
    ok();
    assert_int_equal(w.rmsg[1].state, REF_WAITING);
    /* the device was quicker: the first goes then, the second is unexpected, and can go, too */
    start_parked();
    world_withdraw(&w, 1);
    assert_true(world_message(&w, 0, 0, 1, 7, false));
    execute_all();
    world_poll(&w, 2);
    ok();
    assert_int_equal(w.rmsg[1].state, REF_FREE);
    assert_int_equal(w.withdrawn[1], 1);
    assert_ptr_equal(fab_match_probe(&w.dom[0], ANY, ANY), &w.msg[2]);
    world_withdraw(&w, 2);
    ok();
    assert_null(fab_match_probe(&w.dom[0], ANY, ANY));
}

static void test_a_receive_in_software_blocks(void **state)
{
    (void) state;
    start(8, 64, 16);
    world_post(&w, 0, 0, 1, 7, FAB_OFFLOAD_SHORT);
    world_post(&w, 1, 0, 1, 7, LISTABLE);
    world_post(&w, 2, 0, 1, ANY, LISTABLE);
    world_post(&w, 3, 0, 2, 7, LISTABLE);
    world_post(&w, 4, 0, 1, 7, LISTABLE);
    world_post(&w, 5, 0, WORLD_SELF, 7, FAB_OFFLOAD_OTHER_PATH);
    world_post(&w, 6, 0, ANY, -3, LISTABLE); /* internal tags meet no others */
    expect_state(0, FAB_OFFLOAD_PLAIN);
    expect_state(1, FAB_OFFLOAD_WAITING);
    expect_state(2, FAB_OFFLOAD_WAITING);
    expect_state(3, FAB_OFFLOAD_LISTED);
    expect_state(4, FAB_OFFLOAD_WAITING);
    expect_state(5, FAB_OFFLOAD_OUT);
    expect_state(6, FAB_OFFLOAD_LISTED);
    execute_all();
    world_cancel(&w, 0);
    expect_state(1, FAB_OFFLOAD_LISTED);
    expect_state(2, FAB_OFFLOAD_LISTED);
    expect_state(4, FAB_OFFLOAD_LISTED);
    assert_ptr_equal(w.dev.cmd[0].cmd.recv, &w.recv[1].tm);
    assert_ptr_equal(w.dev.cmd[1].cmd.recv, &w.recv[2].tm);
    assert_ptr_equal(w.dev.cmd[2].cmd.recv, &w.recv[4].tm);
    assert_int_equal(w.engine.counters.reason[FAB_OFFLOAD_BLOCKED], 3);
    assert_int_equal(w.engine.counters.listed_late, 3);
}

static void test_a_full_list_fills_in_order(void **state)
{
    (void) state;
    start(2, 64, 16);
    for (unsigned i = 0; i < 5; i++) {
        world_post(&w, i, 0, 1, (int32_t) i, LISTABLE);
        expect_state(i, i < 2 ? FAB_OFFLOAD_LISTED : FAB_OFFLOAD_WAITING);
    }
    assert_int_equal(w.engine.counters.reason[FAB_OFFLOAD_LIST_FULL], 3);
    execute_all();
    assert_true(world_message(&w, 0, 0, 1, 1, false));
    world_poll(&w, 1);
    expect_state(2, FAB_OFFLOAD_LISTED);
    expect_state(3, FAB_OFFLOAD_WAITING);
    assert_int_equal(w.engine.listed, 2);
}

/*
 * One ADD of four is refused: it and those behind it are tried again, in order, when there is hope.
 */
static void test_refused(void **state)
{
    (void) state;
    start(8, 64, 16);
    world_post(&w, 0, 0, 1, 0, LISTABLE);
    w.dev.refusals = 2; /* a post tries twice */
    world_post(&w, 1, 0, 1, 7, LISTABLE);
    world_post(&w, 2, 0, 1, 7, LISTABLE);
    world_post(&w, 3, 0, 2, 7, LISTABLE);
    expect_state(1, FAB_OFFLOAD_WAITING);
    expect_state(2, FAB_OFFLOAD_WAITING);
    expect_state(3, FAB_OFFLOAD_WAITING);
    assert_int_equal(w.engine.counters.refused, 1);
    execute_all();
    assert_true(world_message(&w, 0, 0, 1, 0, false));
    world_poll(&w, 1);
    expect_state(1, FAB_OFFLOAD_LISTED);
    expect_state(2, FAB_OFFLOAD_LISTED);
    expect_state(3, FAB_OFFLOAD_LISTED);
    assert_ptr_equal(w.dev.cmd[0].cmd.recv, &w.recv[1].tm);
    assert_ptr_equal(w.dev.cmd[1].cmd.recv, &w.recv[2].tm);
}

/* A device that refuses everything is left alone after two attempts. */
static void test_a_device_without_list(void **state)
{
    (void) state;
    start(4, 64, 16);
    w.dev.refusals = UINT32_MAX;
    world_post(&w, 0, 0, 1, 0, LISTABLE);
    for (int i = 0; i < 10; i++) {
        execute_all();
        world_poll(&w, 1);
    }
    ok();
    assert_true(w.engine.counters.refused <= 2);
    expect_state(0, FAB_OFFLOAD_WAITING);
    assert_true(w.syncs <= 2);
}

/*
 * Room in the command queue comes back with signaled completions only: there is one in every
 * quarter.
 */
static void test_signaled_often_enough(void **state)
{
    uint32_t run = 0;

    (void) state;
    start(8, 16, 16);
    for (unsigned i = 0; i < 8; i++) {
        world_post(&w, i, 0, 1, (int32_t) i, LISTABLE);
    }
    ok();
    for (unsigned i = 0; i < w.dev.ncmd; i++) {
        run = w.dev.cmd[i].cmd.is_signaled ? 0 : run + 1;
        assert_true(run <= 4);
        assert_false(w.dev.cmd[i].cmd.is_signaled && FAB_TM_ADD == w.dev.cmd[i].cmd.op);
    }
}

static void test_reports_and_holds(void **state)
{
    (void) state;
    start(2, 16, 4);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(world_message(&w, i, 0, 1, 0, false));
        world_poll(&w, 1);
        world_poll(&w, 1);
        ok();
        assert_int_equal(w.dev.ncmd, 0); /* nothing is listed: no hurry */
    }
    assert_true(world_message(&w, 3, 0, 1, 0, false));
    world_poll(&w, 1);
    expect_cmd(0, FAB_TM_SYNC, true, 3); /* signaled: so its age is known */
    for (unsigned i = 4; i < 8; i++) {
        assert_false(fab_offload_must_hold(&w.engine));
        assert_true(world_message(&w, i, 0, 1, 0, false));
        world_poll(&w, 1);
    }
    ok();
    assert_true(fab_offload_must_hold(&w.engine)); /* it has not been executed for too long */
    assert_int_equal(w.held_bufs, 1);
    execute_all();
    world_poll(&w, 1);
    ok();
    assert_false(fab_offload_must_hold(&w.engine));
    assert_int_equal(w.held_bufs, 0);
}

static void test_failure(void **state)
{
    (void) state;
    start(8, 64, 16);
    world_post(&w, 0, 0, 1, 0, LISTABLE);   /* stays, in software */
    world_post(&w, 1, 0, 1, 1, LISTABLE);   /* data under way: lost */
    world_post(&w, 2, 0, 1, 2, LISTABLE);   /* being cancelled: cancelled */
    world_post(&w, 3, 0, ANY, 3, LISTABLE); /* wanted by another path: delivered */
    execute_all();
    assert_true(world_message(&w, 0, 0, 1, 1, true));
    world_poll(&w, 1);
    world_cancel(&w, 2);
    world_other_path(&w, 1, 0, 3);
    world_fail(&w);
    expect_state(0, FAB_OFFLOAD_OUT);
    for (unsigned i = 1; i < 4; i++) {
        assert_int_equal(w.rrecv[i].state, REF_FREE);
    }
    assert_int_equal(w.dom[0].posted_count, 1);
    world_post(&w, 4, 0, 1, 0, LISTABLE);
    assert_int_equal(w.engine.counters.reason[FAB_OFFLOAD_FAILED], 1);
    world_cancel(&w, 0);
    world_cancel(&w, 4);
    world_settle(&w);
    ok();
    assert_int_equal(w.dom[0].posted_count, 0);
}

/* 200000 unexpected messages: the 16 bits wrap three times, the list stays in use. */
static void test_counter_wraps(void **state)
{
    const world_config_t config = {
        .slots = 2, .max_tags = 2, .max_ops = 16, .bufs = 64, .report_every = 1 << 13};

    (void) state;
    world_init(&w, &config);
    for (unsigned i = 0; i < 200000; i++) {
        assert_true(world_message(&w, 0, 0, 1, 5, false));
        world_poll(&w, 4); /* and a SYNC's completion */
        world_post(&w, 0, 0, 1, 5, LISTABLE);
        if (w.dev.ncmd > 0) {
            world_execute(&w);
        }
        ok();
    }
    world_post(&w, 0, 0, 1, 5, LISTABLE);
    world_settle(&w);
    ok();
    assert_true(w.dev.slot[0].is_enabled);
    assert_true(w.syncs >= 200000 >> 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_useless_limits),
        cmocka_unit_test(test_listed_and_matched),
        cmocka_unit_test(test_unexpected_takes_a_listed_receive),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_other_path_waits_for_the_device),
        cmocka_unit_test(test_withdrawn),
        cmocka_unit_test(test_a_receive_in_software_blocks),
        cmocka_unit_test(test_a_full_list_fills_in_order),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_a_device_without_list),
        cmocka_unit_test(test_signaled_often_enough),
        cmocka_unit_test(test_reports_and_holds),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_counter_wraps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
